import Database from 'better-sqlite3'
import { CamelCasePlugin, Kysely, ParseJSONResultsPlugin, SqliteDialect, type Transaction } from 'kysely'
import { describe } from 'vitest'
import { absence } from '../stores/sqlite/support.js'
import { onSqlite } from './places.js'
import { describeTransactions } from './suite.js'

const missing = absence('better-sqlite3')
type Tables = Record<string, never>

describe.skipIf(missing)(`Kysely on SQLite${missing ? `: ${missing}` : ''}`, () => {
  describeTransactions<Transaction<Tables>>({
    on: onSqlite,
    open: async (file) => {
      const db = new Kysely<Tables>({
        dialect: new SqliteDialect({ database: new Database(file) }),
        plugins: [new CamelCasePlugin(), new ParseJSONResultsPlugin()],
      })
      return {
        transaction: (work) => db.transaction().execute(work),
        refused: () => ({ 'a Kysely': [db, /a Kysely that is no Transaction.*execute\(\(trx\)/] }),
        close: () => db.destroy(),
      }
    },
  })
})
