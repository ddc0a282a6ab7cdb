/**
 * What a handler is given: its job, and the verbs to report with.
 */
import type { EffectOptions } from '../effects/effect.js'
import type { FileContent, JobFile } from '../files.js'
import type { JsonCheck } from '../json.js'
import type { JobStream, StreamOptions } from '../streams/stream.js'
import type { ProductTransaction } from '../transactions/index.js'
import type { JobTransaction } from '../transactions/own.js'

/** Lines for the job's timeline, which go to the queue's logger too. */
export interface JobLog {
  debug(message: string, facts?: object): void
  info(message: string, facts?: object): void
  warn(message: string, facts?: object): void
  error(message: string, facts?: object): void
}

/** A type error that says what is wrong, where a value is no JSON. */
export type Storable<Value> = JsonCheck<Value> extends true ? unknown : { problem: JsonCheck<Value> }

export interface JobContext<Payload, Stage extends string = string> {
  readonly id: string
  readonly type: string
  readonly queue: string
  readonly payload: Payload
  /** The number of this attempt, from 1. */
  readonly attempt: number
  /** How many attempts the job has in all. */
  readonly maxAttempts: number
  readonly idempotencyKey: string | null
  /** The producer's W3C `traceparent`, if it gave one. */
  readonly traceContext: string | null
  readonly createdAt: Date
  /**
   * Aborted when the handler should stop; `reason` is a `JobAborted` whose own `reason` says why: `canceled`, `timeout`, `lease_lost` or
   * `shutdown`. Pass it on to whatever takes a signal.
   */
  readonly signal: AbortSignal
  readonly log: JobLog
  /** Says what is being done now, for the end user to see. Resolves once it is stored. */
  stage(stage: Stage): Promise<void>
  /**
   * Says how much is done, from 0 to 1. Cheap to call often: the newest value is written a few times a second. Within an
   * attempt it never goes back; a smaller value is ignored.
   */
  progress(fraction: number): void
  /** Stores a file; return it from the handler to make it the job's result. A stream is written as it comes. */
  file(name: string, content: FileContent, options?: { contentType?: string }): Promise<JobFile>
  /**
   * A text that others read while it grows, such as the tokens of a language model: `queue.readStream` reads it from any place on, and it is
   * kept as long as the job. The text of a later attempt replaces that of the one before. The same name gives the same stream.
   */
  stream(name: string, options?: StreamOptions): JobStream
  /**
   * Runs the function and remembers its value, as JSON, under this name: a later attempt gets the value and does not run it again. At
   * least once: after a crash between its end and the record it runs again. Steps may run beside each other, and each needs a name
   * of its own. A file that another attempt has stored is no value.
   */
  step<Value>(name: string, fn: (() => Value | Promise<Value>) & Storable<Value>): Promise<Value>
  /**
   * A call to another system that must not happen twice. The request is frozen in the database before the call, the provider gets a key
   * that is the same in every attempt, and `onUnknown` says what to do where nobody knows whether the call took effect. Exactly once
   * where the provider keeps its word on the key, or `reconcile` or a person tells the truth.
   */
  effect<Body, Value>(name: string, options: EffectOptions<Body, Value> & Storable<Body> & Storable<Value>): Promise<Value>
  /**
   * Opens a transaction in the queue's own database for the function's statements, and remembers its value under this name in the same
   * commit: exactly once. A later attempt gets the value. Without a name the job is completed in that commit, with the value as its
   * result. On SQLite the function must not return a promise. It may run for as long as its transaction may stay open, and no longer.
   */
  transaction<Value>(name: string, fn: ((tx: JobTransaction) => Value | Promise<Value>) & Storable<Value>): Promise<Value>
  transaction<Value>(fn: ((tx: JobTransaction) => Value | Promise<Value>) & Storable<Value>): Promise<Value>
  /**
   * Remembers a value under this name in the product's own transaction, which commits both or neither: exactly once. It fails, and so must
   * the transaction, when the claim was lost or the name is recorded already; ask `recorded` before. Make it the transaction's last
   * statement, for it locks the job.
   */
  checkpoint(tx: ProductTransaction, name: string, value?: unknown): Promise<void>
  /** The value of a checkpoint, transaction, step or effect that is done, by this or an earlier attempt; undefined where it is not. */
  recorded(name: string): Promise<{ value: unknown } | undefined>
  /**
   * Ends the job as succeeded, with this result, in the product's own transaction, which commits both or neither: exactly once. What
   * the handler returns afterwards is not looked at. It fails, and so must the transaction, when the claim was lost. Make it the
   * transaction's last statement, for it locks the job.
   */
  complete(tx: ProductTransaction, result?: unknown): Promise<void>
}

/** What the worker's context has for the sake of a handler that runs elsewhere. */
export interface Stopped {
  /**
   * Called when the attempt ends before its handler has: nothing more is written until the promise is settled, or a while has passed.
   * Undefined when the handler has ended.
   */
  stopWith(stop: (() => Promise<void>) | undefined): void
}
