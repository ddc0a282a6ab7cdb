/**
 * A connection of the pool, lent for a transaction with the statements of a product. It may be lent for long, so that less than
 * half of the pool is: claims, heartbeats, settlements and the connection that listens have the rest.
 */
import type { OwnTransaction } from '../../effects/record.js'
import { JobtableError } from '../../errors.js'
import type { Query, QueryParameter, Values } from '../../transactions/transaction.js'
import type { PgClient } from './connections.js'
import type { Database } from './database.js'
import { explain } from './failure.js'

class LentTransaction implements OwnTransaction {
  readonly library = 'jobtable'
  readonly database = 'postgres'
  readonly #client: PgClient
  readonly #about: Database
  #open = true

  constructor(client: PgClient, about: Database) {
    this.#client = client
    this.#about = about
  }

  isOpen(): boolean {
    return this.#open
  }

  /** A statement of jobtable's own. */
  async run({ sql, params }: Query): Promise<readonly Values[]> {
    this.#check()
    try {
      return (await this.#client.query({ text: sql, values: params, rowMode: 'array' })).rows
    } catch (error) {
      throw explain(error, this.#about.name, this.#about.dialect.schema)
    }
  }

  /** What goes wrong with one of the product's is the product's to know, as the driver says it. */
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
export function lend<T>(
  database: Database,
  work: (transaction: OwnTransaction) => T | Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  return database.lend(async (client) => {
    const transaction = new LentTransaction(client, database)
    try {
      return await work(transaction)
    } finally {
      transaction.end()
    }
  }, signal)
}
