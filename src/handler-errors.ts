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
