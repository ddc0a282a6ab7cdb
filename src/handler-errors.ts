/** What a handler throws to say what its failure means. */
import { parseDuration, type Duration } from './duration.js'
import type { Blame } from './errors.js'

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

/** The shortest free wait: whatever a handler computes, it does not run again and again without a pause. Milliseconds. */
const SHORTEST_WAIT_MS = 1_000
const LONGEST_WAIT_MS = 86_400_000

/**
 * Thrown by a handler: run this job again after the given time, without spending an attempt. The time is a duration such as
 * `'30s'`, a number of milliseconds, or a moment; at least a second, which is also what a value that is no time means (negative,
 * NaN, infinite), and at most 24 h.
 */
export class RetryAfter extends Error {
  override readonly name = 'RetryAfter'
  readonly delayMs: number

  constructor(delay: Duration | number | Date, message = 'the handler asked to run again later') {
    super(message)
    const ms = typeof delay === 'string' ? parseDuration(delay) : delay instanceof Date ? delay.getTime() - Date.now() : delay
    this.delayMs = Number.isFinite(ms) ? Math.min(Math.max(SHORTEST_WAIT_MS, Math.ceil(ms)), LONGEST_WAIT_MS) : SHORTEST_WAIT_MS
  }
}
