/**
 * What is recorded of a job's steps, effects and checkpoints: one row of `job_steps` for each name.
 *
 *   step:        (none) ──────────────fn returned──────────────> done
 *   checkpoint:  (none) ──the product's transaction committed──> done
 *   effect:      (none), refused ──frozen──> started ──recorded──> done
 *                                              └──certainly not done──> refused
 *
 * `done` is final: its value is what every later attempt gets. An effect that is `started` may or may not have happened: its
 * request was frozen in the row before the call, and the row says no more until somebody who knows does. Every write is fenced by
 * the claim, like a report's, except for a person's word on a failed or canceled job. The rows outlive a repair, and go with their job; a job that takes the place of
 * a failed or canceled one inherits its effects, as `NewJob.supersedes` says.
 */
import type { Fence, FencedSettlement, JobRow } from '../store.js'
import type { StreamAppend } from '../streams/record.js'
import type { Transaction } from '../transactions/transaction.js'

export type StepKind = 'step' | 'effect' | 'checkpoint'

export type StepState = 'started' | 'done' | 'refused'

/** In place of an attempt. */
export const BY_PERSON = 0

export interface NewStep {
  /** Unique within the job. */
  name: string
  kind: StepKind
  state: StepState
  /** The attempt that writes it, from 1; `BY_PERSON` where a person had the last word. */
  attempt: number
  /** The frozen request of an effect, as JSON text, which comes back to the letter. */
  request: string | null
  /** What the provider of an effect knows it by; after a refusal for good, what it will know the next call by. */
  key: string | null
  /** JSON text; null for nothing. */
  value: string | null
}

export interface StepRow extends NewStep {
  jobId: string
  startedAt: number
  /** When it became done or refused. */
  endedAt: number | null
}

/**
 * - `recorded`: it is written
 * - `lost`: the fence did not hold; nothing was changed
 * - `taken`: the name is done already, or is that of another kind; nothing was changed
 */
export type RecordOutcome = 'recorded' | 'lost' | 'taken'

/** What goes with the product's rows in one commit: a checkpoint, or the end of the job with what its streams got last. */
export type TransactionWrite =
  | { step: NewStep; fence: Fence }
  | { settlement: FencedSettlement; streams?: readonly StreamAppend[] }

/** A transaction that the store opened on a connection of its own, for the product's statements too. */
export interface OwnTransaction extends Transaction {
  /** Runs a statement of the product's, and answers with its rows as objects; at once where the database is in this process. */
  query(sql: string, params: readonly (string | number | null)[]): object[] | Promise<object[]>
}

/** A failed job as somebody has found it. */
export type FailedJob = Pick<JobRow, 'id' | 'finishedAt'>

/** The part of a store that remembers steps. */
export interface StepStore {
  /** What is recorded of a job, in the order in which it began. */
  steps(jobId: string): Promise<StepRow[]>

  /** Writes a step's row, fenced by the claim on its job; see `RecordOutcome`. What is done is never changed. */
  recordStep(fence: Fence, step: NewStep): Promise<RecordOutcome>

  /**
   * As `recordStep` and `settle`, in a transaction that commits it or not: the product's own, of this very database, or one of `transact`.
   * Where the database lets it, a write that is not `recorded` spoils the transaction, so that it cannot be committed. The
   * answer is no promise where the transaction's library is synchronous.
   */
  recordIn(transaction: Transaction, write: TransactionWrite): RecordOutcome | Promise<RecordOutcome>

  /**
   * A person's word on an effect that is `started`, or of which a person had the last word already, whose job is `failed` or `canceled`
   * since it was looked at, and has not been superseded: writes `done` with its value, or `refused`, as of the attempt `BY_PERSON`, and notes
   * it in the timeline, with `by`. Answers whether it was changed: not when the job is in another status, superseded, or has another
   * `finishedAt`, which is to say that it has run again meanwhile, nor when the effect is in another state.
   */
  resolveStep(failed: FailedJob, step: Pick<NewStep, 'name' | 'state' | 'value'>, by: string | null): Promise<boolean>

  /**
   * Runs the work in a transaction on a connection of the store's own, which commits when it returns and rolls back when it throws.
   * PostgreSQL: less than half of the pool is lent at a time; once the signal is aborted, the transaction is rolled back whatever the work
   * does, and who waits for a connection waits no more: it rejects with the signal's reason. SQLite: the work must not return a promise, since nothing else may run on
   * that connection meanwhile: `config_invalid`.
   */
  transact<T>(work: (transaction: OwnTransaction) => T | Promise<T>, signal?: AbortSignal): Promise<T>
}
