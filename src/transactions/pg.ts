/** `pg`: a client on which BEGIN has been run. */
import { has, noTransaction, type Transaction, type TransactionAdapter, type Values } from './transaction.js'

/** A client of `pg`, or of its pool. */
export interface PgTransaction {
  escapeIdentifier(text: string): string
  query(...args: never[]): unknown
}

interface Client {
  query(config: { text: string; values: unknown[]; rowMode: 'array' }): Promise<{ rows: Values[] }>
  /** Only the newer versions tell. */
  getTransactionStatus?(): string | null
}

export const pg: TransactionAdapter = {
  library: 'pg',
  adapt(tx) {
    if (!has(tx, 'query')) return undefined
    if ('totalCount' in tx && 'idleCount' in tx) {
      throw noTransaction('a pool of pg', 'take a client from it with pool.connect(), run BEGIN on that and pass it')
    }
    if (!has(tx, 'escapeIdentifier')) return undefined
    return transaction(tx as unknown as Client)
  },
}

function transaction(client: Client): Transaction {
  const isOpen = (): boolean => {
    const status = client.getTransactionStatus?.()
    return status === undefined || status === 'T' || status === 'E'
  }
  if (!isOpen()) throw noTransaction('a client of pg outside of a transaction', "await client.query('BEGIN') before")
  return {
    library: 'pg',
    database: 'postgres',
    run: async ({ sql, params }) => (await client.query({ text: sql, values: [...params], rowMode: 'array' })).rows,
    isOpen,
    tells: client.getTransactionStatus !== undefined,
  }
}
