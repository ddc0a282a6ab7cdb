import postgres from 'postgres'
import { describe } from 'vitest'
import { onPostgres } from './postgres.js'
import { describeTransactions } from './suite.js'

describe('postgres', () => {
  describeTransactions<postgres.TransactionSql>({
    on: onPostgres,
    open: async (url) => {
      const statements: string[] = []
      const sql = postgres(url, { debug: (_connection, query) => void statements.push(query), onnotice: () => {} })
      const reserved = await sql.reserve()
      return {
        transaction: (work) => sql.begin((tx) => work(tx)) as ReturnType<typeof work>,
        refused: () => ({
          'the sql itself': [sql, /the sql of postgres itself.*sql\.begin\(\(sql\)/],
          'a reserved connection': [reserved, /the sql of postgres itself/],
        }),
        statements: () => statements,
        close: async () => {
          reserved.release()
          await sql.end()
        },
      }
    },
  })
})

describe('a savepoint of postgres', () => {
  describeTransactions<postgres.TransactionSql>({
    on: onPostgres,
    open: async (url) => {
      const sql = postgres(url)
      return {
        transaction: (work) => sql.begin((tx) => tx.savepoint((inner) => work(inner))) as ReturnType<typeof work>,
        refused: () => ({ 'the sql itself': [sql, /the sql of postgres itself/] }),
        close: () => sql.end(),
      }
    },
  })
})
