/**
 * A connection of the pool, lent for a transaction with the statements of a product. It may be lent for long, so that at most half of
 * the pool is: claims, heartbeats and settlements have the other half.
 */
import type { OwnTransaction } from '../../effects/record.js'
import { JobtableError } from '../../errors.js'
import type { Query, QueryParameter, Values } from '../../transactions/transaction.js'
import type { PgClient } from './connections.js'
import type { Database } from './database.js'

class LentTransaction implements OwnTransaction {
  readonly library = 'jobtable'
  readonly database = 'postgres'
  readonly #client: PgClient
  #open = true

  constructor(client: PgClient) {
    this.#client = client
  }

  isOpen(): boolean {
    return this.#open
  }

  async run({ sql, params }: Query): Promise<readonly Values[]> {
    this.#check()
    return (await this.#client.query({ text: sql, values: params, rowMode: 'array' })).rows
  }

  async query(sql: string, params: readonly QueryParameter[]): Promise<object[]> {
    this.#check()
    const { rows } = await this.#client.query({ text: sql, values: params })
    return rows
  }

  end(): void {
    this.#open = false
  }

  #check(): void {
    if (!this.#open)
      throw new JobtableError('transaction_over', 'this transaction is over: await everything before its function returns')
  }
}

/** See `Store.transact`. */
export function lend<T>(database: Database, work: (transaction: OwnTransaction) => T | Promise<T>): Promise<T> {
  return database.lend(async (client) => {
    const transaction = new LentTransaction(client)
    try {
      return await work(transaction)
    } finally {
      transaction.end()
    }
  })
}
