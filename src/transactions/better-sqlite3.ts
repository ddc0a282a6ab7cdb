/** better-sqlite3: the connection, while a transaction is open on it. */
import { numbered } from './numbered.js'
import { has, noTransaction, type QueryParameter, type TransactionAdapter, type Values } from './transaction.js'

/** A connection of better-sqlite3. */
export interface BetterSqlite3Transaction {
  readonly inTransaction: boolean
  prepare(...args: never[]): unknown
}

interface Connection {
  readonly inTransaction: boolean
  prepare(sql: string): Statement
}

interface Statement {
  raw(enabled: boolean): this
  safeIntegers(enabled: boolean): this
  all(...params: QueryParameter[]): Values[]
}

export const betterSqlite3: TransactionAdapter = {
  library: 'better-sqlite3',
  adapt(tx) {
    if (!has(tx, 'prepare') || !('inTransaction' in tx)) return undefined
    const connection = tx as unknown as Connection
    const isOpen = (): boolean => connection.inTransaction
    if (!isOpen()) {
      throw noTransaction(
        'a connection of better-sqlite3 outside of a transaction',
        'enqueue in the function of db.transaction(...)',
      )
    }
    const statements = new Map<string, (params: readonly QueryParameter[]) => Values[]>()
    const prepare = (sql: string): ((params: readonly QueryParameter[]) => Values[]) => {
      const { text, arrange } = numbered(sql)
      const statement = connection.prepare(text).raw(true).safeIntegers(false)
      const all = (params: readonly QueryParameter[]): Values[] => statement.all(...arrange(params))
      statements.set(sql, all)
      return all
    }
    return {
      library: 'better-sqlite3',
      database: 'sqlite',
      run: ({ sql, params }) => (statements.get(sql) ?? prepare(sql))(params),
      isOpen,
    }
  },
}
