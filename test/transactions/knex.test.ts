import knex, { type Knex } from 'knex'
import { describe } from 'vitest'
import { onPostgres } from './postgres.js'
import { describeTransactions } from './suite.js'

describe('Knex', () => {
  describeTransactions<Knex.Transaction>({
    on: onPostgres,
    open: async (url) => {
      const statements: string[] = []
      const db = knex({ client: 'pg', connection: url })
      db.on('query', ({ sql }: { sql: string }) => statements.push(sql))
      const over = await db.transaction()
      await over.rollback()
      return {
        transaction: (work) => db.transaction(work),
        refused: () => ({
          'knex itself': [db, /knex itself.*knex\.transaction\(\(trx\)/],
          'a transaction that is over': [over, /is over/],
        }),
        statements: () => statements,
        close: () => db.destroy(),
      }
    },
  })
})
