import { describe } from 'vitest'
import { absence } from '../stores/sqlite/support.js'
import { onSqlite } from './places.js'
import { describeTransactions } from './suite.js'
import { describeSynchronous } from './synchronous.js'

/** As far as the tests need it: the types of Node 20 have none. */
interface DatabaseSync {
  readonly isTransaction: boolean
  exec(sql: string): void
  prepare(sql: string): object
  close(): void
}

const missing = absence('node:sqlite')

describe.skipIf(missing)(`node:sqlite${missing ? `: ${missing}` : ''}`, () => {
  const open = async (file: string) => {
    const { DatabaseSync } = process.getBuiltinModule('node:sqlite' as 'node:fs') as unknown as {
      DatabaseSync: new (path: string) => DatabaseSync
    }
    const database = new DatabaseSync(file)
    const begin = (): void => database.exec('BEGIN IMMEDIATE')
    return {
      transaction: async <T>(work: (tx: DatabaseSync) => Promise<T>): Promise<T> => {
        begin()
        try {
          const answer = await work(database)
          database.exec('COMMIT')
          return answer
        } catch (error) {
          database.exec('ROLLBACK')
          throw error
        }
      },
      atOnce: (work: (tx: DatabaseSync) => void) => {
        begin()
        try {
          work(database)
          database.exec('COMMIT')
        } catch (error) {
          database.exec('ROLLBACK')
          throw error
        }
      },
      refused: (): Record<string, [object, RegExp]> => ({
        'outside of a transaction': [new DatabaseSync(':memory:'), /outside of a transaction.*BEGIN/],
      }),
      close: async () => database.close(),
    }
  }
  describeTransactions<DatabaseSync>({ on: onSqlite, open })
  describeSynchronous<DatabaseSync>(open)
})
