/** `postgres` (Postgres.js): the function that `sql.begin` and `savepoint` pass on. */
import { has, noTransaction, type TransactionAdapter, type Values } from './transaction.js'

/** The `sql` of a transaction of `postgres`. */
export interface PostgresJsTransaction {
  savepoint(...args: never[]): unknown
  unsafe(...args: never[]): unknown
}

interface TransactionSql {
  unsafe(sql: string, params: unknown[], options: { prepare: boolean }): { values(): Promise<Values[]> }
}

export const postgresJs: TransactionAdapter = {
  library: 'postgres',
  adapt(tx) {
    if (!has(tx, 'unsafe')) return undefined
    if (!has(tx, 'savepoint')) {
      if (!has(tx, 'begin') && !has(tx, 'release')) return undefined
      throw noTransaction('the sql of postgres itself', 'pass the one that sql.begin((sql) => ...) gives to its function')
    }
    const { unsafe } = tx as unknown as TransactionSql
    return {
      library: 'postgres',
      database: 'postgres',
      // Without a prepared statement it asks for the parameters' types first, each time. A connection that must not prepare has
      // been told so by its own options, which win.
      run: async ({ sql, params }) => [...(await unsafe(sql, [...params], { prepare: true }).values())],
      isOpen: () => true,
    }
  },
}
