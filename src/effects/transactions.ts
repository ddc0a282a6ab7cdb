/**
 * `job.complete`, `job.checkpoint` and `job.transaction`: what the product writes and what the job remembers, in one commit.
 *
 *   transaction ──product's rows──> checkpoint ──commit──> both are there, and a later attempt finds the checkpoint
 *               ├─product's rows──> completion ──commit──> both are there, and the job has succeeded
 *               └─anything else, or the claim is lost────> neither is there
 *
 * Both writes are fenced by the claim, in the transaction itself: on PostgreSQL they lock the job's row, so that nobody settles it as
 * lost before the commit; on SQLite a transaction that writes is alone. Whether it was committed is the product's to know:
 * the worker looks at the row when the handler has ended.
 */
import { atOnce, wait, type Waiting } from '../at-once.js'
import { JobtableError } from '../errors.js'
import type { PreparedType } from '../job-type.js'
import type { JobRow, Store } from '../store.js'
import type { StreamAppend } from '../streams/record.js'
import { adapt, type ProductTransaction } from '../transactions/index.js'
import { JobTransaction } from '../transactions/own.js'
import type { Transaction } from '../transactions/transaction.js'
import { settlementOf, type ClaimSettlement } from '../worker/maintenance.js'
import { claimLost } from './log.js'
import type { OwnTransaction, RecordOutcome, TransactionWrite } from './record.js'
import { checkFunction, checkName, decode, encodeValue, type Steps } from './steps.js'

export interface TransactionsEnv {
  store: Store
  row: JobRow
  type: PreparedType
  steps: Steps
  signal(): AbortSignal
  /** What of the result is stored; throws for what cannot be. */
  encodeResult(result: unknown): string | null
  /** Writes what was reported so far: once a transaction is open, that would wait for it. */
  flush(): Promise<void>
  /** What its streams got and the store has not. */
  lastOfStreams(): StreamAppend[]
  /** Throws once the attempt is over. */
  checkRunning(verb: string): void
}

export class Transactions {
  readonly #env: TransactionsEnv
  /** A transaction was asked to complete the job. */
  completing = false
  /** What it was asked to write. */
  completion: ClaimSettlement | undefined
  /** It was written, in a transaction that may not be committed yet: one more completion finds no claim, and has not lost it. */
  #completed = false

  constructor(env: TransactionsEnv) {
    this.#env = env
  }

  /** What can be told to be wrong at once is thrown at once, so that the function of a synchronous transaction ends with it. */
  checkpoint(tx: ProductTransaction, name: string, value: unknown): Promise<void> {
    this.#env.checkRunning('checkpoint')
    checkName(name)
    return promised(this.#write(adapt(tx), this.#checkpoint(name, value)))
  }

  complete(tx: ProductTransaction, result: unknown): Promise<void> {
    this.#env.checkRunning('complete')
    this.completing = true
    const transaction = adapt(tx)
    return promised(
      atOnce(this.#complete(transaction, result), () => {
        if (transaction.endsWithTurn) throw tooLate(transaction)
      }),
    )
  }

  transaction<Value>(name: string, fn: (tx: JobTransaction) => Value | Promise<Value>): Promise<Value> {
    return this.#env.steps.inFlight.follow(`transaction ${name}`, () => this.#transaction(name, fn))
  }

  completingTransaction<Value>(fn: (tx: JobTransaction) => Value | Promise<Value>): Promise<Value> {
    return this.#env.steps.inFlight.follow('transaction to complete the job', () => this.#completingTransaction(fn))
  }

  async #transaction<Value>(name: string, fn: (tx: JobTransaction) => Value | Promise<Value>): Promise<Value> {
    this.#env.checkRunning('transaction')
    checkFunction(fn, `job.transaction(${JSON.stringify(name)}, fn)`)
    const before = await this.#env.steps.begin(name, 'checkpoint')
    if (before) return decode(before.value) as Value
    return this.#open(fn, (transaction, value) => this.#write(transaction, this.#checkpoint(name, value)))
  }

  async #completingTransaction<Value>(fn: (tx: JobTransaction) => Value | Promise<Value>): Promise<Value> {
    this.#env.checkRunning('transaction')
    this.completing = true
    return this.#open(fn, (transaction, value) => atOnce(this.#complete(transaction, value)))
  }

  async #open<Value>(
    fn: (tx: JobTransaction) => Value | Promise<Value>,
    write: (transaction: OwnTransaction, value: Value) => void | Promise<void>,
  ): Promise<Value> {
    await this.#env.flush()
    const signal = this.#env.signal()
    signal.throwIfAborted()
    return this.#env.store.transact((transaction) => {
      const value = fn(new JobTransaction(transaction, signal))
      return after(value, (result: Value) => after(write(transaction, result), () => result))
    }, signal)
  }

  #checkpoint(name: string, given: unknown): TransactionWrite {
    const { id, claimToken: token, attempts: attempt } = this.#env.row
    const value = encodeValue(given, `the value of the checkpoint ${name}`)
    const step = { name, kind: 'checkpoint', state: 'done', attempt, request: null, key: null, value } as const
    return { fence: { id, token }, step }
  }

  *#complete(transaction: Transaction, given: unknown): Waiting<void> {
    const { row, type, encodeResult } = this.#env
    const result = encodeResult(yield* wait(type.validateResult(given)))
    if (!transaction.isOpen()) throw tooLate(transaction)
    this.#env.steps.checkNothingLeft()
    this.completion = settlementOf(row, { type: 'succeeded', result }, type, false)
    const { id, token, settlement, maxAttempts, keepForMs } = this.completion
    // With the completion, after which nothing more could be appended; reports would wait for its transaction.
    const streams = this.#env.lastOfStreams()
    yield* wait(this.#write(transaction, { settlement: { id, token, settlement, maxAttempts, keepForMs }, streams }))
    this.#completed = true
  }

  #write(transaction: Transaction, write: TransactionWrite): void | Promise<void> {
    return after(this.#env.store.recordIn(transaction, write), (outcome) => this.#check(outcome, write))
  }

  #check(outcome: RecordOutcome, write: TransactionWrite): void {
    if (outcome === 'recorded') return
    if (outcome === 'lost') throw this.#completed ? afterCompletion(write) : claimLost('roll this transaction back')
    const { name } = (write as TransactionWrite & { step: { name: string } }).step
    throw new JobtableError(
      'step_repeated',
      `the checkpoint ${name} is recorded already, so this transaction must be rolled back: ask with job.recorded before you open it`,
      { data: { name } },
    )
  }
}

function afterCompletion(write: TransactionWrite): JobtableError {
  const what = 'step' in write ? `the checkpoint ${write.step.name} is not recorded` : 'the job is not completed twice'
  return new JobtableError(
    'step_repeated',
    `${what}: the job is completed already, so this transaction must be rolled back; let job.complete, or job.transaction without a name, be the last thing, and once`,
  )
}

/** Goes on at once where there is nothing to wait for. */
function after<T, U>(value: T | Promise<T>, then: (value: T) => U | Promise<U>): U | Promise<U> {
  return value instanceof Promise ? value.then(then) : then(value)
}

function promised(done: void | Promise<void>): Promise<void> {
  return done ?? Promise.resolve()
}

function tooLate({ library }: Transaction): JobtableError {
  return new JobtableError(
    'transaction_over',
    `the job is not completed: something had to be waited for, such as an asynchronous result schema, and the transaction of ${library} does not last as long; await job.complete within the transaction, or let the schema be synchronous`,
  )
}
