import { parseDuration, type Duration } from './duration.js'

/** What went wrong, as a stable word that programs can compare. The message beside it says what to do next. */
export type ErrorCode =
  | 'config_invalid'
  | 'driver_missing'
  | 'duplicate_id'
  | 'duration_invalid'
  | 'file_missing'
  | 'idempotency_conflict'
  | 'job_canceled'
  | 'job_failed'
  | 'job_not_found'
  | 'key_missing'
  | 'key_superseded'
  | 'lease_lost'
  | 'payload_invalid'
  | 'payload_too_large'
  | 'queue_closed'
  | 'result_invalid'
  | 'schema_missing'
  | 'schema_too_new'
  | 'status_final'
  | 'store_busy'
  | 'store_corrupt'
  | 'store_full'
  | 'store_read_only'
  | 'store_unavailable'
  | 'type_defined_twice'
  | 'type_unknown'
  | 'wait_timeout'

export interface ErrorDetails {
  /** Facts a program can use, such as `{ path: '$.items[3]', limit: 1048576 }`. */
  data?: Readonly<Record<string, unknown>>
  cause?: unknown
}

/** Every error that jobtable itself throws is one of these; `code` tells them apart. */
export class JobtableError extends Error {
  override readonly name: string = 'JobtableError'
  readonly code: ErrorCode
  readonly data: Readonly<Record<string, unknown>>

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(message, 'cause' in details ? { cause: details.cause } : undefined)
    this.code = code
    this.data = details.data ?? {}
  }
}

/** Who can mend a failure. */
export type Blame = 'user' | 'operator' | 'developer' | 'provider'

/**
 * - `permanent`: another attempt would fail in the same way
 * - `transient`: another attempt may succeed
 * - `rate_limited`: the other side asked to wait; the wait does not spend an attempt
 * - `canceled`: somebody stopped the work on purpose
 * - `unknown_outcome`: the request may have taken effect; repeat it only under the same idempotency key
 */
export type ErrorKind = 'permanent' | 'transient' | 'rate_limited' | 'canceled' | 'unknown_outcome'

/** What the classifier makes of a thrown value. */
export interface Classification {
  kind: ErrorKind
  /** A stable word such as `rate_limited`, `quota_exhausted`, `dns_failed`; picks the `user_message`. */
  code: string
  blame: Blame
  /** How long the other side asked to wait, in milliseconds, never negative. */
  retryAfterMs?: number
  /** At most this many retries for this code, whatever the type's own limit. */
  maxRetries?: number
}

/** What a handler may say about its own failure; every part has a default. */
export interface HandlerErrorDetails {
  code?: string
  blame?: Blame
  /** Shown to the end user as it is, in place of the message that belongs to `code`. */
  userMessage?: string
  cause?: unknown
}

abstract class HandlerError extends Error {
  readonly code: string
  readonly blame: Blame
  readonly userMessage: string | undefined

  constructor(message: string, details: HandlerErrorDetails, code: string, blame: Blame) {
    super(message, 'cause' in details ? { cause: details.cause } : undefined)
    this.code = details.code ?? code
    this.blame = details.blame ?? blame
    this.userMessage = details.userMessage
  }
}

/** Thrown by a handler: no retry, the job is `failed` at once. */
export class PermanentError extends HandlerError {
  override readonly name = 'PermanentError'

  constructor(message: string, details: HandlerErrorDetails = {}) {
    super(message, details, 'permanent', 'user')
  }
}

/** Thrown by a handler: worth another attempt, after the type's backoff. */
export class TransientError extends HandlerError {
  override readonly name = 'TransientError'

  constructor(message: string, details: HandlerErrorDetails = {}) {
    super(message, details, 'transient', 'provider')
  }
}

/**
 * Thrown by a handler: run this job again after the given time, without spending an attempt.
 * A value that is no duration (negative, NaN, infinite) means "as soon as possible", at most 24 h.
 */
export class RetryAfter extends Error {
  override readonly name = 'RetryAfter'
  readonly delayMs: number

  constructor(delay: Duration | number, message = 'the handler asked to run again later') {
    super(message)
    const ms = typeof delay === 'string' ? parseDuration(delay) : delay
    this.delayMs = Number.isFinite(ms) ? Math.min(Math.max(0, Math.ceil(ms)), 86_400_000) : 0
  }
}

/** Why a job's `AbortSignal` fired. */
export type AbortCause = 'canceled' | 'timeout' | 'lease_lost' | 'shutdown' | 'superseded'

/** The `reason` of a job's aborted signal. */
export class JobAborted extends Error {
  override readonly name = 'JobAborted'
  readonly reason: AbortCause

  constructor(reason: AbortCause, message: string) {
    super(message)
    this.reason = reason
  }
}
