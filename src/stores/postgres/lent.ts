/**
 * A connection of the pool, lent for a transaction with the statements of a product. It may be lent for long, so that less than
 * half of the pool is: claims, heartbeats, settlements and the connection that listens have the rest.
 */
import { describeError } from '../../classify/describe.js'
import type { OwnTransaction } from '../../effects/record.js'
import { JobtableError } from '../../errors.js'
import { notOpen } from '../../transactions/not-open.js'
import type { Query, QueryParameter, Values } from '../../transactions/transaction.js'
import type { PgClient } from './connections.js'
import { RolledBack, type Database } from './database.js'
import { explain, sqlState } from './failure.js'

/** SQLSTATE in_failed_sql_transaction. */
const ABORTED = '25P02'

class LentTransaction implements OwnTransaction {
  readonly library = 'jobtable'
  readonly database = 'postgres'
  readonly #client: PgClient
  readonly #about: Database
  #open = true
  /** Of the statement since which the database refuses all others; it tells no one which it was. */
  #failure: unknown

  constructor(client: PgClient, about: Database) {
    this.#client = client
    this.#about = about
  }

  isOpen(): boolean {
    return this.#open
  }

  get tells(): boolean {
    return this.#client.getTransactionStatus !== undefined
  }

  /** A statement of jobtable's own. */
  async run({ sql, params }: Query): Promise<readonly Values[]> {
    try {
      return (await this.#ask({ text: sql, values: params, rowMode: 'array' })).rows as Values[]
    } catch (error) {
      throw explain(error, this.#about.name, this.#about.dialect.schema)
    }
  }

  /** What goes wrong with one of the product's is the product's to know, as the driver says it. */
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
      if (this.#client.getTransactionStatus?.() === 'I') throw endedByHand()
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

function endedByHand(): JobtableError {
  return notOpen('the connection of job.transaction is used after a statement that ended its transaction, such as COMMIT')
}

/** See `Store.transact`. */
export async function lend<T>(
  database: Database,
  work: (transaction: OwnTransaction) => T | Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  let failure: unknown
  try {
    return await database.lend(async (client) => {
      const transaction = new LentTransaction(client, database)
      try {
        return await work(transaction)
      } finally {
        failure = transaction.failure
        transaction.end()
      }
    }, signal)
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
