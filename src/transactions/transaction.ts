/**
 * The product's own transaction, as a store uses it: `enqueue(payload, { tx })` writes the job in it, so that the job is there
 * exactly when the product's own rows are. Each library has one small file beside this one, which recognises its transactions
 * and runs a statement in them; nothing else in jobtable knows of the libraries.
 */

import { JobtableError } from '../errors.js'

/** Texts, numbers and null are what every library passes on unchanged. */
export type QueryParameter = string | number | null

/**
 * One statement with positional parameters: `$1` in PostgreSQL, `?1` in SQLite. Where it answers with columns, each has a name of
 * its own that is no number, since some libraries know a row only as an object; in SQLite it always answers with columns, since
 * some libraries have one way for statements that do and another for those that do not.
 */
export interface Query {
  sql: string
  params: readonly QueryParameter[]
  /** Worth keeping prepared, where the connection is the store's own to prepare on. */
  hot?: true
}

/** A row's values in the order of its columns: texts, numbers, booleans and null. */
export type Values = readonly unknown[]

/**
 * Work on a database, written once for whoever runs its statements: it yields one after the other, and is given the rows of
 * each.
 */
export type Work<T> = Generator<Query, T, readonly Values[]>

export interface Transaction {
  /** What to call it in messages, such as `Drizzle`. */
  readonly library: string
  readonly database: 'postgres' | 'sqlite'
  /**
   * Runs one statement in the transaction. A library that is synchronous answers at once, so that a job can be enqueued in a
   * transaction whose function must not return a promise. What the database says against it is thrown as the library throws it.
   */
  run(query: Query): readonly Values[] | Promise<readonly Values[]>
  /** False when it is over, as far as the library can tell: what is written then would be written outside of it. */
  isOpen(): boolean
  /** True where `isOpen` knows it for certain. Elsewhere PostgreSQL is asked before a checkpoint is recorded or a job completed. */
  readonly tells?: boolean
  /** True where it ends as soon as its function returns, which is no promise's: whatever waits for anything comes too late. */
  readonly endsWithTurn?: boolean
}

export interface TransactionAdapter {
  readonly library: string
  /**
   * The transaction, when the object is one of this library's; undefined when it is not of this library. Throws `config_invalid`
   * when it is of this library and no open transaction.
   */
  adapt(tx: object): Transaction | undefined
}

/** Does the work statement by statement, and without a promise when the transaction's library needs none. */
export function runIn<T>(transaction: Transaction, work: Work<T>): T | Promise<T> {
  let step = work.next()
  while (!step.done) {
    let rows: readonly Values[] | Promise<readonly Values[]>
    try {
      rows = transaction.run(step.value)
    } catch (error) {
      step = work.throw(error)
      continue
    }
    if (rows instanceof Promise) return goOn(transaction, work, rows)
    step = work.next(rows)
  }
  return step.value
}

async function goOn<T>(transaction: Transaction, work: Work<T>, first: Promise<readonly Values[]>): Promise<T> {
  let answer = first
  for (;;) {
    const step = await answer.then(
      (rows) => work.next(rows),
      (error: unknown) => work.throw(error),
    )
    if (step.done) return step.value
    answer = inPromise(() => transaction.run(step.value))
  }
}

async function inPromise<T>(work: () => T | Promise<T>): Promise<T> {
  return work()
}

/** The error for an object that is of the library and no open transaction. */
export function noTransaction(what: string, instead: string): JobtableError {
  return new JobtableError('config_invalid', `tx is ${what}: ${instead}`)
}

/** Of a row that the library knows only as an object. */
export function valuesOf(row: object): Values {
  return Object.values(row)
}

/** Whether the object has a method of this name. */
export function has<Name extends string>(tx: object, name: Name): tx is object & Record<Name, (...args: never[]) => unknown> {
  return typeof (tx as Record<string, unknown>)[name] === 'function'
}
