/** node:sqlite: the connection, while a transaction is open on it. */
import { has, noTransaction, type QueryParameter, type TransactionAdapter, type Values } from './transaction.js'

/** A `DatabaseSync` of node:sqlite. */
export interface NodeSqliteTransaction {
  readonly isTransaction: boolean
  prepare(...args: never[]): unknown
}

interface Connection {
  readonly isTransaction: boolean
  prepare(sql: string): Statement
}

interface Statement {
  setReturnArrays(enabled: boolean): void
  setReadBigInts(enabled: boolean): void
  all(...params: QueryParameter[]): Values[]
}

export const nodeSqlite: TransactionAdapter = {
  library: 'node:sqlite',
  adapt(tx) {
    if (!has(tx, 'prepare') || !('isTransaction' in tx)) return undefined
    const connection = tx as unknown as Connection
    const isOpen = (): boolean => connection.isTransaction
    if (!isOpen()) throw noTransaction('a connection of node:sqlite outside of a transaction', "run db.exec('BEGIN') before")
    const statements = new Map<string, Statement>()
    const prepare = (sql: string): Statement => {
      const statement = connection.prepare(sql)
      statement.setReturnArrays(true)
      statement.setReadBigInts(false)
      statements.set(sql, statement)
      return statement
    }
    return {
      library: 'node:sqlite',
      database: 'sqlite',
      run: ({ sql, params }) => (statements.get(sql) ?? prepare(sql)).all(...params),
      isOpen,
    }
  },
}
