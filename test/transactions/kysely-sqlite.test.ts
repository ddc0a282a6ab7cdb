import Database from 'better-sqlite3'
import { CamelCasePlugin, Kysely, ParseJSONResultsPlugin, SqliteDialect, type Transaction } from 'kysely'
import { describe, expect, it, onTestFinished } from 'vitest'
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

  it('is not refused because another connection writes while it is at it', async () => {
    const product = await onSqlite()
    const other = new Database(product.database, { timeout: 0 })
    other.exec('CREATE TABLE other (n INTEGER)')
    let writes = 0
    let refused = 0
    const write = (): void => {
      try {
        writes += other.prepare('INSERT INTO other VALUES (1)').run().changes
      } catch {
        refused++
      }
    }
    const db = new Kysely<Tables>({ dialect: new SqliteDialect({ database: new Database(product.database) }), log: write })
    onTestFinished(async () => {
      other.close()
      await db.destroy()
      await product.close()
    })
    const { job } = await db.transaction().execute((tx) => product.report.enqueue({ doc: 'one' }, { tx }))
    expect((await job.refresh()).status).toBe('pending')
    expect([writes > 0, refused > 0]).toEqual([true, true])
  })
})
