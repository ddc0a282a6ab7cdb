import Database from 'better-sqlite3'
import { describe } from 'vitest'
import { absence } from '../stores/sqlite/support.js'
import { onSqlite } from './places.js'
import { describeTransactions } from './suite.js'
import { describeSynchronous } from './synchronous.js'

const missing = absence('better-sqlite3')

describe.skipIf(missing)(`better-sqlite3${missing ? `: ${missing}` : ''}`, () => {
  const open = async (file: string) => {
    const database = new Database(file)
    // What a product may have set: none of it is jobtable's business.
    database.defaultSafeIntegers(true)
    database.pragma('foreign_keys = ON')
    return {
      transaction: async <T>(work: (tx: Database.Database) => Promise<T>): Promise<T> => {
        database.exec('BEGIN IMMEDIATE')
        try {
          const answer = await work(database)
          database.exec('COMMIT')
          return answer
        } catch (error) {
          database.exec('ROLLBACK')
          throw error
        }
      },
      atOnce: (work: (tx: Database.Database) => void) => database.transaction(() => work(database))(),
      refused: (): Record<string, [object, RegExp]> => ({
        'outside of a transaction': [new Database(':memory:'), /outside of a transaction.*db\.transaction/],
        'no object of any library': [{}, /pass an open one of Drizzle, .*better-sqlite3/],
      }),
      close: async () => void database.close(),
    }
  }
  describeTransactions<Database.Database>({ on: onSqlite, open })
  describeSynchronous<Database.Database>(open)
})
