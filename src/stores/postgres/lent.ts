/**
 * A connection of the pool, lent for a transaction with the statements of a product. It may be lent for long, so that at most half of
 * the pool is: claims, heartbeats and settlements have the other half.
 */
import { describeError } from '../../classify/describe.js'
import type { OwnTransaction } from '../../effects/record.js'
import { JobtableError } from '../../errors.js'
import type { Query, QueryParameter, Values } from '../../transactions/transaction.js'
import type { PgClient } from './connections.js'
import { RolledBack, type Database } from './database.js'
import { sqlState } from './failure.js'

/** SQLSTATE in_failed_sql_transaction. */
const ABORTED = '25P02'

class LentTransaction implements OwnTransaction {
  readonly library = 'jobtable'
  readonly database = 'postgres'
  readonly #client: PgClient
  #open = true
  /** Of the statement since which the database refuses all others; it tells no one which it was. */
  #failure: unknown

  constructor(client: PgClient) {
    this.#client = client
  }

  isOpen(): boolean {
    return this.#open
  }

  async run({ sql, params }: Query): Promise<readonly Values[]> {
    return (await this.#ask({ text: sql, values: params, rowMode: 'array' })).rows as Values[]
  }

  async query(sql: string, params: readonly QueryParameter[]): Promise<object[]> {
    return (await this.#ask({ text: sql, values: params })).rows as object[]
  }

  get failure(): unknown {
    return this.#failure
  }

  async #ask(query: object): Promise<{ rows: unknown[] }> {
    this.#check()
    try {
      const answer = (await this.#client.query(query as never)) as { rows: unknown[] }
      // It was none, or it was taken back to a savepoint.
      this.#failure = undefined
      return answer
    } catch (error) {
      if (this.#failure !== undefined && sqlState(error) === ABORTED) throw swallowed(this.#failure)
      this.#failure ??= error
      throw error
    }
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
export async function lend<T>(database: Database, work: (transaction: OwnTransaction) => T | Promise<T>): Promise<T> {
  let failure: unknown
  try {
    return await database.lend(async (client) => {
      const transaction = new LentTransaction(client)
      try {
        return await work(transaction)
      } finally {
        failure = transaction.failure
        transaction.end()
      }
    })
  } catch (error) {
    throw error instanceof RolledBack ? swallowed(failure) : error
  }
}

/** The database commits nothing after a statement that failed. */
function swallowed(cause: unknown): JobtableError {
  return new JobtableError(
    'transaction_uncommitted',
    `a statement of the transaction failed, and its error was swallowed: nothing is committed; let it through (${describeError(cause).message})`,
    { cause },
  )
}
