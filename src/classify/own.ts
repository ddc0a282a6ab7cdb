import { JobAborted, JobtableError, type AbortCause, type Blame } from '../errors.js'
import { PermanentError, RetryAfter, TransientError } from '../handler-errors.js'
import { isInstance, isObject, read, readNumber, readString } from './read.js'
import { inDoubt, permanent, transient, type Verdict } from './verdict.js'

/** Errors whose meaning is known from elsewhere: from an isolated handler, where they were thrown. */
export const knownVerdicts = new WeakMap<object, Verdict>()

/**
 * Errors that jobtable itself defines. Two copies of the package may be loaded at once, so an error also counts as ours by
 * its name and its fields.
 */
export function ownError(error: unknown): Verdict | undefined {
  if (!isObject(error)) return undefined
  const known = knownVerdicts.get(error)
  if (known) return known
  const name = readString(error, 'name')
  if (isInstance(error, PermanentError) || (name === 'PermanentError' && hasBlame(error))) {
    return { kind: 'permanent', code: codeOf(error, 'permanent'), blame: blameOf(error, 'user') }
  }
  if (isInstance(error, TransientError) || (name === 'TransientError' && hasBlame(error))) {
    return { kind: 'transient', code: codeOf(error, 'transient'), blame: blameOf(error, 'provider') }
  }
  const delayMs = readNumber(error, 'delayMs')
  if (isInstance(error, RetryAfter) || (name === 'RetryAfter' && delayMs !== undefined)) {
    return { kind: 'rate_limited', code: 'retry_after', blame: 'provider', retryAfterMs: Math.max(0, delayMs ?? 0) }
  }
  if (isInstance(error, JobtableError) || name === 'JobtableError') return jobtableError(readString(error, 'code'))
  return jobAborted(error)
}

const BLAMES: readonly unknown[] = ['user', 'operator', 'developer', 'provider'] satisfies Blame[]

const hasBlame = (error: unknown): boolean => BLAMES.includes(read(error, 'blame'))
const codeOf = (error: unknown, fallback: string): string => readString(error, 'code') ?? fallback
const blameOf = (error: unknown, fallback: Blame): Blame => (hasBlame(error) ? (read(error, 'blame') as Blame) : fallback)

function jobtableError(code: string | undefined): Verdict {
  switch (code) {
    case 'payload_invalid':
    case 'result_invalid':
    case 'file_missing':
    case 'step_repeated':
    case 'steps_changed':
    case 'transaction_over':
    case 'transaction_uncommitted':
      return permanent(code, 'developer')
    case 'stream_full':
      return permanent('too_large', 'developer')
    case 'effect_unknown':
      return permanent(code, 'operator')
    case 'payload_too_large':
      return permanent('too_large', 'developer')
    case 'idempotency_conflict':
      return permanent(code, 'developer')
    case 'job_not_found':
      return permanent('not_found', 'developer')
    case 'job_canceled':
      // It was another job that was canceled; this one was not, and cannot go on.
      return permanent('canceled', 'user')
    case 'lease_lost':
      return aborted('lease_lost')
    case 'key_superseded':
      return aborted('superseded')
    case 'job_failed':
      return permanent('permanent', 'developer')
    case 'store_busy':
    case 'store_unavailable':
    // A primary that became a standby: the next connection finds the new one.
    case 'store_read_only':
      return transient('database_unavailable', 'operator')
    case 'store_full':
      return transient('disk_full', 'operator')
    case 'store_denied':
      return permanent('forbidden', 'operator')
    case 'store_corrupt':
    case 'schema_missing':
    case 'schema_too_new':
      return permanent('misconfigured', 'operator')
    case 'queue_closed':
    case 'wait_timeout':
      return transient('transient', 'operator')
    default:
      return permanent('misconfigured', 'developer')
  }
}

const CAUSES: readonly unknown[] = ['canceled', 'timeout', 'lease_lost', 'shutdown', 'superseded'] satisfies AbortCause[]

function jobAborted(error: unknown): Verdict | undefined {
  if (!isInstance(error, JobAborted) && readString(error, 'name') !== 'JobAborted') return undefined
  const reason = read(error, 'reason')
  return CAUSES.includes(reason) ? aborted(reason as AbortCause) : undefined
}

function aborted(cause: AbortCause): Verdict {
  if (cause === 'timeout') return inDoubt('timeout')
  return { kind: 'canceled', code: cause, blame: cause === 'canceled' ? 'user' : 'operator' }
}

/** What an aborted signal says, whatever the handler threw because of it; nothing while it has not fired. */
export function signalVerdict(signal: unknown): Verdict | undefined {
  if (read(signal, 'aborted') !== true) return undefined
  const reason = read(signal, 'reason')
  const known = jobAborted(reason)
  if (known) return known
  return aborted(readString(reason, 'name') === 'TimeoutError' ? 'timeout' : 'canceled')
}
