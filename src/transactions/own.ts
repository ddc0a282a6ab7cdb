/** The transaction that `job.transaction` opens, for the product's statements and for `tx` everywhere. */
import type { OwnTransaction } from '../effects/record.js'
import { JobtableError } from '../errors.js'
import type { QueryParameter, TransactionAdapter } from './transaction.js'

/** By which another copy of the package knows it too. */
const OWN = Symbol.for('jobtable.transaction')

export class JobTransaction {
  /** @internal */
  readonly [OWN]: OwnTransaction
  readonly #signal: AbortSignal

  /** @internal */
  constructor(transaction: OwnTransaction, signal: AbortSignal) {
    this[OWN] = transaction
    this.#signal = signal
  }

  /**
   * PostgreSQL: runs a statement with the parameters `$1`, `$2` ..., and resolves with its rows. Rejects without running it once the job's
   * signal is aborted.
   */
  query<Row extends object = Record<string, unknown>>(sql: string, params: readonly QueryParameter[] = []): Promise<Row[]> {
    this.#is('postgres', 'run')
    return this.#rows(sql, params) as Promise<Row[]>
  }

  /** SQLite: runs a statement with the parameters `?`, and answers with its rows, at once. */
  run<Row extends object = Record<string, unknown>>(sql: string, params: readonly QueryParameter[] = []): Row[] {
    this.#is('sqlite', 'query')
    return this.#rows(sql, params) as Row[]
  }

  #rows(sql: string, params: readonly QueryParameter[]): object[] | Promise<object[]> {
    this.#signal.throwIfAborted()
    return this[OWN].query(sql, params)
  }

  #is(database: OwnTransaction['database'], other: string): void {
    if (this[OWN].database === database) return
    const name = database === 'sqlite' ? 'PostgreSQL' : 'SQLite'
    throw new JobtableError('config_invalid', `on ${name} a transaction of job.transaction has the method ${other}`)
  }
}

export const own: TransactionAdapter = {
  library: 'job.transaction',
  adapt: (tx) => (OWN in tx ? (tx as JobTransaction)[OWN] : undefined),
}
