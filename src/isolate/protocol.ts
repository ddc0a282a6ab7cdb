/**
 * What a worker and the process or thread of an isolated handler say to each other, by structured cloning. One job at a time.
 */
import type { AbortCause, Classification } from '../errors.js'
import type { NewStep, StepRow } from '../effects/record.js'
import type { FileDescription } from '../files.js'
import type { JobContext, JobLog } from '../worker/context.js'

/** What a handler knows of its job from the start. */
export type JobFacts = Pick<
  JobContext<unknown>,
  'id' | 'type' | 'queue' | 'payload' | 'attempt' | 'maxAttempts' | 'idempotencyKey' | 'traceContext' | 'createdAt'
>

export type ToHost =
  /** The default export of the module is the handler. */
  | { type: 'run'; module: string; job: JobFacts }
  | { type: 'abort'; reason: AbortCause; message: string }
  /** To a call with this number. */
  | { type: 'answer'; call: number; value?: FileDescription | StepRow[] }
  | { type: 'refused'; call: number; error: RemoteFailure }
  /** The next piece of the file that this call stores. */
  | { type: 'more'; call: number }

export type FromHost =
  | { type: 'stage'; call: number; stage: string }
  | { type: 'progress'; fraction: number }
  | { type: 'log'; level: keyof JobLog; said: unknown[] }
  | { type: 'file'; call: number; name: string; contentType: string | undefined }
  /** Appends to a stream, or ends it. */
  | { type: 'stream'; call: number; name: string; maxLength: number; text?: string; end?: true }
  /** What is recorded of the job's steps. */
  | { type: 'recall'; call: number }
  | { type: 'record'; call: number; step: NewStep }
  /** A piece of that file; null after the last one. */
  | { type: 'piece'; call: number; bytes: Uint8Array | null }
  | { type: 'broken'; call: number; error: RemoteFailure }
  /** JSON text; null for nothing. */
  | { type: 'returned'; result: string | null }
  | { type: 'threw'; error: RemoteFailure }

/** An error on its way to the other side, where its class is not known. */
export interface RemoteFailure {
  name: string
  message: string
  stack: string | undefined
  /** What the side that knows the error itself makes of it. */
  classification: Classification
  userMessage: string | undefined
  /** Of a `RetryAfter`. */
  delayMs: number | undefined
  /** Its own plain members, such as `code` and `status`. */
  fields: Readonly<Record<string, string | number | boolean | null>>
}
