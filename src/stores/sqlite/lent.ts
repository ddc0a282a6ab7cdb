/** The store's own connection, lent for the statements of a product. */
import type { OwnTransaction } from '../../effects/record.js'
import { JobtableError } from '../../errors.js'
import { notOpen } from '../../transactions/not-open.js'
import type { Query, Values } from '../../transactions/transaction.js'
import type { Connection } from './database.js'
import type { SqlValue } from './driver.js'

export class LentTransaction implements OwnTransaction {
  readonly library = 'jobtable'
  readonly database = 'sqlite'
  readonly endsWithTurn = true
  readonly #connection: Connection
  #open = true

  constructor(connection: Connection) {
    this.#connection = connection
  }

  isOpen(): boolean {
    return this.#open
  }

  run({ sql, params }: Query): readonly Values[] {
    this.#check()
    return this.#connection.all(sql, ...params)
  }

  query(sql: string, params: readonly SqlValue[]): object[] {
    this.#check()
    const rows = this.#connection.driver.query(sql, params)
    if (this.#connection.driver.inTransaction() === false) throw endedByHand()
    return rows
  }

  end(): void {
    this.#open = false
  }

  #check(): void {
    if (!this.#open)
      throw new JobtableError('transaction_over', 'this transaction is over: do everything before its function returns')
  }
}

function endedByHand(): JobtableError {
  return notOpen('the connection of job.transaction is used after a statement that ended its transaction, such as COMMIT')
}

export function asynchronous(promise: Promise<unknown>): JobtableError {
  promise.catch(() => {}) // What it did after the first wait was refused, and is told by the error.
  return new JobtableError(
    'config_invalid',
    'the function of job.transaction returned a promise, and on SQLite it must not: the one connection is its own until it returns. Do what has to be awaited before it, or use a transaction of your own library with job.complete or job.checkpoint',
  )
}
