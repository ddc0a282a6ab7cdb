import Database from 'better-sqlite3'
import { drizzle, type BetterSQLite3Database } from 'drizzle-orm/better-sqlite3'
import { describe } from 'vitest'
import { absence } from '../stores/sqlite/support.js'
import { describeSynchronous } from './synchronous.js'

const missing = absence('better-sqlite3')
type Tx = Parameters<Parameters<BetterSQLite3Database['transaction']>[0]>[0]

describe.skipIf(missing)(`Drizzle on better-sqlite3${missing ? `: ${missing}` : ''}`, () => {
  describeSynchronous<Tx>(async (file) => {
    const database = new Database(file)
    const db = drizzle(database)
    return {
      atOnce: (work) => db.transaction((tx) => work(tx)),
      refused: () => ({ 'the db': [db, /db of Drizzle itself.*db\.transaction\(\(tx\)/] }),
      close: async () => void database.close(),
    }
  })
})
