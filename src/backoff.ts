const BASE_MS = 10_000

/** The longest wait between two attempts unless a type says otherwise: 10 minutes, in milliseconds. */
export const DEFAULT_MAX_DELAY_MS = 600_000

/** The share of a delay by which jitter may lengthen it. */
const JITTER = 0.1

/**
 * The default backoff: `min(600 s, 2^attempts * 10 s)`, in milliseconds, where `attempts` counts the attempt that has
 * just failed (1 gives 20 s). Any number is a safe input: what is no count of attempts is taken as the nearest one.
 */
export function nextRunAfter(attempts: number): number {
  const exponent = Number.isNaN(attempts) ? 0 : Math.min(Math.max(0, Math.trunc(attempts)), 16)
  return Math.min(DEFAULT_MAX_DELAY_MS, 2 ** exponent * BASE_MS)
}

/** A backoff of one's own: milliseconds to wait after the attempt of this number (from 1) has failed. */
export type Backoff = (attempts: number) => number

/** The curve `baseMs * factor^(attempts - 1)`; the type's `maxDelay` caps it. */
export function exponential(baseMs: number, factor: number): Backoff {
  // No product with Infinity: it would be no number, or none that can be told from a mistake.
  return (attempts) => Math.min(Number.MAX_SAFE_INTEGER, baseMs * Math.min(Number.MAX_VALUE, factor ** Math.max(0, attempts - 1)))
}

export interface BackoffPolicy {
  backoff: Backoff
  /** No wait is longer than this, jitter included. Milliseconds. */
  maxDelayMs: number
  jitter: boolean
}

/**
 * The wait that a policy gives after `attempts`, in whole milliseconds between 0 and `maxDelayMs`. A backoff that
 * throws or returns no number falls back to `nextRunAfter`; `invalid` is then true, so that the caller can warn.
 *
 * Jitter lengthens a wait by up to 10%; where that would pass the cap, the wait is drawn from the last tenth below the cap
 * instead, so that a crowd of jobs at the cap spreads out too. `random` is a number in [0, 1).
 */
export function delayAfter(policy: BackoffPolicy, attempts: number, random: number): { delayMs: number; invalid: boolean } {
  const { maxDelayMs, jitter } = policy
  const asked = call(policy.backoff, attempts)
  const invalid = asked === undefined
  const delay = Math.min(maxDelayMs, asked ?? nextRunAfter(attempts))
  if (!jitter) return { delayMs: Math.round(delay), invalid }
  const longest = Math.min(maxDelayMs, delay * (1 + JITTER))
  const shortest = longest / (1 + JITTER)
  return { delayMs: Math.round(shortest + random * (longest - shortest)), invalid }
}

function call(backoff: Backoff, attempts: number): number | undefined {
  try {
    const delay: unknown = backoff(attempts)
    return typeof delay === 'number' && delay >= 0 && delay < Infinity ? delay : undefined
  } catch {
    return undefined
  }
}
