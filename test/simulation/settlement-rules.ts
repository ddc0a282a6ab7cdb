/** What may become of a running job, told from what its handler really did. */
import type { JobRow } from '../../src/store.js'
import type { HistoryEntry } from '../../src/transition.js'
import { CUT_OFF_GRACE_MS } from '../../src/worker/attempt.js'
import type { Run } from './ledger.js'
import { SLOW_TYPE, type Plan } from './plan.js'
import type { Host } from './virtual-time.js'

interface Facts {
  before: JobRow
  after: JobRow
  /** Settled as lost, not by the holder. */
  recovery: boolean
  /** Undefined: its handler was never started. */
  run: Run | undefined
  holder: Host | undefined
  entry: HistoryEntry | null
  limit: number
  plan: Plan
  now: number
}

export interface Problem {
  invariant: string
  detail: string
}

export function checkSettlement(facts: Facts): Problem | undefined {
  const { before, after } = facts
  const asked = before.cancelRequestedAt !== null
  if (asked && after.status !== 'succeeded' && after.status !== 'canceled')
    return problem('cancellation is honoured', `its cancellation was asked for, and it became ${after.status}`)
  if (!asked && after.status === 'canceled')
    return problem('cancellation is honoured', 'it was canceled, and nobody had asked for that')
  if (after.status === 'retrying' && after.attempts >= facts.limit)
    return problem('attempts are bounded', `it waits although ${after.attempts} of ${facts.limit} attempts are used up`)
  return facts.recovery ? afterLoss(facts) : facts.run ? afterRun(facts, facts.run) : afterNothing(facts)
}

function afterLoss({ before, after, limit }: Facts): Problem | undefined {
  if (after.status === 'succeeded') return problem('effects happen once', 'its recovery called it succeeded')
  if (after.attempts !== before.attempts) return problem('attempts are bounded', 'its recovery did not leave the attempt spent')
  if (after.status === 'failed' && before.attempts < limit)
    return problem('no job is lost', `it failed with ${before.attempts} of ${limit} attempts`)
  return undefined
}

/** The claim goes back as if it had not been made, unless the time of the attempt was over before its payload had been checked. */
function afterNothing({ before, after, entry, limit }: Facts): Problem | undefined {
  const timedOut = before.type === SLOW_TYPE && entry?.code === 'timeout'
  if (after.status === 'failed' && timedOut && (before.attempts >= limit || givesUpEarly(before, entry))) return undefined
  if (after.status !== 'retrying' && after.status !== 'canceled')
    return problem('effects happen once', `it became ${after.status} though its handler was never started`)
  if (after.status === 'retrying' && !timedOut && after.attempts !== before.attempts - 1)
    return problem('a hand-back spends no attempt', 'it was handed back unstarted, and the attempt stayed spent')
  if (after.status === 'retrying' && timedOut && after.attempts !== before.attempts)
    return problem('attempts are bounded', 'its time was over before its handler started, and the attempt was not spent')
  return undefined
}

function afterRun(facts: Facts, run: Run): Problem | undefined {
  const { before, after, plan, now, entry, limit } = facts
  const tookMs = Math.min(run.endedAt, now) - run.startedAt
  const stopping = facts.holder?.stopping === true
  // Nothing can have cut it off: it ended before its timeout, and before the grace after any cancellation.
  // The time of a slow type runs while its payload is checked.
  const timedOut = before.type === SLOW_TYPE && run.attempt.abortedFor === 'timeout'
  const undisturbed = !stopping && !timedOut && !plan.clocks && tookMs < Math.min(plan.timeoutMs, CUT_OFF_GRACE_MS)
  if (after.status === 'succeeded') {
    return run.end === 'returned' ? undefined : problem('effects happen once', `it succeeded, but its handler ${run.end}`)
  }
  if (run.end === 'returned' && undisturbed)
    return problem('no job is lost', `its handler returned, and it became ${after.status}`)
  const isHeld = after.status === 'failed' && entry?.code === 'effect_unknown'
  if (run.end === 'held' && run.attempt.abortedFor === undefined && after.status !== 'canceled' && !isHeld)
    return problem('what is in doubt is held', `its handler held it, and it became ${after.status} with ${entry?.code}`)
  if (after.status === 'failed') {
    const maySo =
      run.end === 'permanent' ||
      run.end === 'refused' ||
      run.end === 'held' ||
      before.attempts >= limit ||
      givesUpEarly(before, entry)
    return maySo
      ? undefined
      : problem('no job is lost', `it failed with ${before.attempts} of ${limit} attempts, and its handler ${run.end}`)
  }
  if (after.status !== 'retrying') return undefined
  if (undisturbed && (run.end === 'permanent' || run.end === 'refused'))
    return problem('attempts are bounded', `it is tried again though its handler ${run.end}`)
  const unspent = after.attempts === before.attempts - 1
  if (!unspent && after.attempts !== before.attempts)
    return problem('attempts are bounded', `its attempts went from ${before.attempts} to ${after.attempts}`)
  if (stopping && run.attempt.abortedFor === 'shutdown' && !unspent)
    return problem('a hand-back spends no attempt', 'it was aborted for the shutdown, and the attempt stayed spent')
  if (!undisturbed) return undefined
  const free = run.end === 'snoozed' || run.end === 'rate_limited'
  if (free && !unspent) return problem('a hand-back spends no attempt', `its handler ${run.end}, and the attempt stayed spent`)
  if (!free && unspent) return problem('attempts are bounded', `its handler ${run.end}, and the attempt was not spent`)
  return undefined
}

/** Errors that nobody knows, and those of unknown outcome, are retried twice at most. */
function givesUpEarly(before: JobRow, entry: HistoryEntry | null): boolean {
  return entry !== null && before.history.filter(({ code }) => code === entry.code).length >= 2
}

function problem(invariant: string, detail: string): Problem {
  return { invariant, detail }
}
