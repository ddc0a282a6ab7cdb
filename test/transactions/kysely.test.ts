import { CamelCasePlugin, Kysely, ParseJSONResultsPlugin, PostgresDialect, type Transaction } from 'kysely'
import { describe } from 'vitest'
import { listeningPool, onPostgres } from './postgres.js'
import { describeTransactions } from './suite.js'

type Tables = Record<string, never>

describe('Kysely on PostgreSQL', () => {
  describeTransactions<Transaction<Tables>>({
    on: onPostgres,
    open: async (url) => {
      const { pool, statements } = listeningPool(url)
      const db = new Kysely<Tables>({
        dialect: new PostgresDialect({ pool }),
        plugins: [new CamelCasePlugin(), new ParseJSONResultsPlugin()],
      })
      const over = await db.startTransaction().execute()
      await over.rollback().execute()
      return {
        transaction: (work) => db.transaction().execute(work),
        refused: () => ({
          'a Kysely': [db, /a Kysely that is no Transaction.*execute\(\(trx\)/],
          'a transaction that is over': [over, /is over/],
        }),
        statements: () => statements,
        close: () => db.destroy(),
      }
    },
  })
})

describe('a controlled transaction of Kysely', () => {
  describeTransactions<Transaction<Tables>>({
    on: onPostgres,
    open: async (url) => {
      const { pool } = listeningPool(url)
      const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) })
      return {
        transaction: async (work) => {
          const trx = await db.startTransaction().execute()
          try {
            const answer = await work(trx)
            await trx.commit().execute()
            return answer
          } catch (error) {
            await trx.rollback().execute()
            throw error
          }
        },
        refused: () => ({ 'a Kysely': [db, /a Kysely that is no Transaction/] }),
        close: () => db.destroy(),
      }
    },
  })
})
