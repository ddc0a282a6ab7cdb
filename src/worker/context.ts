/**
 * What a handler is given: its job, and the verbs to report with.
 */
import type { FileContent, JobFile } from '../files.js'

/** Lines for the job's timeline, which go to the queue's logger too. */
export interface JobLog {
  debug(message: string, facts?: object): void
  info(message: string, facts?: object): void
  warn(message: string, facts?: object): void
  error(message: string, facts?: object): void
}

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
}
