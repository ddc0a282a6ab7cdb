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
    checkParameters(params)
    return this[OWN].query(sql, params)
  }

  #is(database: OwnTransaction['database'], other: string): void {
    if (this[OWN].database === database) return
    const name = database === 'sqlite' ? 'PostgreSQL' : 'SQLite'
    throw new JobtableError('config_invalid', `on ${name} a transaction of job.transaction has the method ${other}`)
  }
}

/** What TypeScript refuses and JavaScript does not, and the libraries take each in its own way. */
function checkParameters(params: unknown): void {
  if (!Array.isArray(params)) throw new JobtableError('config_invalid', 'the parameters of a statement must be a list')
  for (const [i, value] of params.entries()) {
    if (value === null || typeof value === 'string' || typeof value === 'number') continue
    const what =
      value instanceof Date
        ? 'a Date'
        : value === undefined
          ? 'undefined'
          : `${typeof value === 'object' ? 'an' : 'a'} ${typeof value}`
    throw new JobtableError(
      'config_invalid',
      `parameter ${i + 1} of the statement is ${what}, and must be a text, a number or null: pass a truth value as 1 or 0, or as 'true' or 'false' on PostgreSQL, a moment as its toISOString(), an object as its JSON.stringify()`,
    )
  }
}

export const own: TransactionAdapter = {
  library: 'job.transaction',
  adapt: (tx) => (OWN in tx ? (tx as JobTransaction)[OWN] : undefined),
}
