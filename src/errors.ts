/** What went wrong, as a stable word that programs can compare. The message beside it says what to do next. */
export type ErrorCode =
  | 'config_invalid'
  | 'driver_missing'
  | 'duplicate_id'
  | 'duration_invalid'
  | 'effect_unknown'
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
  | 'schema_conflict'
  | 'schema_missing'
  | 'schema_too_new'
  | 'status_final'
  | 'step_not_found'
  | 'step_repeated'
  | 'steps_changed'
  | 'store_busy'
  | 'store_corrupt'
  | 'store_denied'
  | 'store_full'
  | 'store_read_only'
  | 'store_unavailable'
  | 'stream_full'
  | 'transaction_over'
  | 'transaction_uncommitted'
  | 'type_defined_twice'
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
