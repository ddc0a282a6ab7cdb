/**
 * The state machine: what becomes of a job after an attempt. Pure: no clock, no database, no random numbers of its own.
 *
 *   enqueue ──> pending ──claim──> running ──handler returned──────────────> succeeded
 *                  │                 │ ├──error worth a retry, or returned──> retrying ──claim──> running
 *                  │                 │ ├──permanent, or attempts used up ───> failed
 *                  └──cancel──┐      │ └──cancel was asked for ─────────────> canceled
 *                             v      v
 *                          canceled, failed ──a person's "retry"──> pending
 *
 * `succeeded` is final for good; `failed` and `canceled` are final for the machine. Every way out of `running` goes
 * through `settle`, whoever calls it: the claim holder with what the handler did, or the recovery of a lost claim.
 */
import { delayAfter, type BackoffPolicy } from './backoff.js'
import type { Blame, Classification, ErrorKind } from './errors.js'

export const STATUSES = ['pending', 'running', 'retrying', 'succeeded', 'failed', 'canceled'] as const
export type Status = (typeof STATUSES)[number]

export const FINAL_STATUSES = ['succeeded', 'failed', 'canceled'] as const
export type FinalStatus = (typeof FINAL_STATUSES)[number]

/** Every legal change; the conformance suite holds the stores to it. */
export const TRANSITIONS: Readonly<Record<Status, readonly Status[]>> = {
  pending: ['running', 'canceled'],
  running: ['succeeded', 'retrying', 'failed', 'canceled'],
  retrying: ['running', 'canceled'],
  succeeded: [],
  failed: ['pending'],
  canceled: ['pending'],
}

export function isFinal(status: Status): status is FinalStatus {
  return status === 'succeeded' || status === 'failed' || status === 'canceled'
}

export const DEFAULT_MAX_ATTEMPTS = 5

/** Waits asked for by a rate limit are free up to this many in a row; then each spends an attempt, so that a job ends. */
export const MAX_FREE_WAITS = 20

/** The oldest entries of a job's history are dropped beyond this many. */
export const MAX_HISTORY = 20

/** One entry of a job's history: an attempt that did not succeed, or a repair. Stored in `jobs.errors`. */
export interface HistoryEntry {
  /** The attempt's number, from 1. For a repair: how many attempts had been spent. */
  attempt: number
  /** When it was recorded, in milliseconds since 1970. The store stamps it. */
  at?: number
  kind: ErrorKind | 'lost' | 'repaired'
  code: string
  message: string
  blame?: Blame
  name?: string
  stack?: string
  /** The worker that held the claim; for a repair, who asked for it. */
  by?: string
}

/** What the machine must know of a running job. */
export interface RunningJob {
  attempts: number
  /** Null: the row does not say, the policy does. */
  maxAttempts: number | null
  /** Free waits since an attempt was last spent. */
  waits: number
  history: readonly HistoryEntry[]
  cancelRequested: boolean
}

/** What happened to the attempt. */
export type Outcome =
  | { type: 'succeeded'; result: string | null }
  | {
      type: 'threw'
      error: Classification
      entry: { name?: string; message: string; stack?: string; by?: string }
      userMessage: string
    }
  /** The handler asked to run again later; spends nothing. */
  | { type: 'snoozed'; delayMs: number }
  /** The worker stops, or claimed more than it could start; spends nothing. */
  | { type: 'handed_back' }
  /** The holder crashed, or its lease ran out. */
  | { type: 'lost'; holder: string | null; userMessage: string }

export interface RetryPolicy extends BackoffPolicy {
  maxAttempts: number
  /** The longest wait that another system may impose. Milliseconds. */
  maxRetryAfterMs: number
}

/**
 * What the store has to write. A delay counts from the database's own clock at the time of writing; a null one leaves the job
 * due when it was, so that it keeps its place among those that wait.
 */
export type Settlement =
  | { status: 'succeeded'; result: string | null }
  /** `invalidBackoff`: the type's backoff gave no usable number, and the default was taken. Not stored. */
  | {
      status: 'retrying'
      delayMs: number | null
      attempts: number
      waits: number
      entry: HistoryEntry | null
      invalidBackoff?: true
    }
  | { status: 'failed'; entry: HistoryEntry; userMessage: string }
  | { status: 'canceled'; entry: HistoryEntry | null }

/** Decides what becomes of a running job. `random` is a number in [0, 1), for the jitter. */
export function settle(job: RunningJob, outcome: Outcome, policy: RetryPolicy, random: number): Settlement {
  switch (outcome.type) {
    case 'succeeded':
      return { status: 'succeeded', result: outcome.result }
    case 'handed_back':
      return job.cancelRequested ? canceled(null) : unspent(job, null)
    case 'snoozed':
      return job.cancelRequested ? canceled(null) : unspent(job, outcome.delayMs)
    case 'lost':
      return lost(job, outcome, policy, random)
    case 'threw':
      return threw(job, outcome, policy, random)
  }
}

function lost(job: RunningJob, outcome: Outcome & { type: 'lost' }, policy: RetryPolicy, random: number): Settlement {
  const entry: HistoryEntry = {
    attempt: job.attempts,
    kind: 'lost',
    code: 'worker_lost',
    message: `the worker ${outcome.holder ?? '(unknown)'} was lost while it held this job`,
    ...(outcome.holder !== null && { by: outcome.holder }),
  }
  if (job.cancelRequested) return canceled(entry)
  if (job.attempts >= limit(job, policy)) return { status: 'failed', entry, userMessage: outcome.userMessage }
  // The first recovery is at once: the job is late already. A job that kills its workers again and again backs off.
  const losses = trailing(job.history, 'worker_lost')
  const spent = { status: 'retrying', attempts: job.attempts, waits: 0, entry } as const
  return losses === 0 ? { ...spent, delayMs: null } : { ...spent, ...backOff(policy, losses, random, 0) }
}

function threw(job: RunningJob, outcome: Outcome & { type: 'threw' }, policy: RetryPolicy, random: number): Settlement {
  const { error, userMessage } = outcome
  const entry: HistoryEntry = { attempt: job.attempts, kind: error.kind, code: error.code, blame: error.blame, ...outcome.entry }
  if (job.cancelRequested || error.kind === 'canceled') return canceled(entry)
  if (error.kind === 'permanent') return { status: 'failed', entry, userMessage }
  // A type's own classify may answer with anything.
  const asked = error.retryAfterMs ?? 0
  const hintMs = asked > 0 ? Math.min(asked, policy.maxRetryAfterMs) : 0
  if (error.kind === 'rate_limited' && job.waits < MAX_FREE_WAITS) {
    return { ...unspent(job, null), waits: job.waits + 1, ...backOff(policy, job.waits + 1, random, hintMs), entry }
  }
  const spentByCode = trailing(job.history, error.code)
  if (job.attempts >= limit(job, policy) || spentByCode >= (error.maxRetries ?? Infinity)) {
    return { status: 'failed', entry, userMessage }
  }
  return { status: 'retrying', ...backOff(policy, job.attempts, random, hintMs), attempts: job.attempts, waits: 0, entry }
}

function backOff(
  policy: RetryPolicy,
  attempts: number,
  random: number,
  leastMs: number,
): { delayMs: number; invalidBackoff?: true } {
  const { delayMs, invalid } = delayAfter(policy, attempts, random)
  return { delayMs: Math.max(leastMs, delayMs), ...(invalid && { invalidBackoff: true }) }
}

/** What a settlement becomes when the store answers that somebody has asked for the job's cancellation meanwhile. */
export function afterCancelRequest(settlement: Settlement): Settlement {
  return settlement.status === 'succeeded' ? settlement : canceled(settlement.entry)
}

function canceled(entry: HistoryEntry | null): Settlement {
  return { status: 'canceled', entry }
}

function unspent(job: RunningJob, delayMs: number | null): Settlement & { status: 'retrying' } {
  return { status: 'retrying', delayMs, attempts: Math.max(0, job.attempts - 1), waits: job.waits, entry: null }
}

function limit(job: RunningJob, policy: RetryPolicy): number {
  return Math.max(1, job.maxAttempts ?? policy.maxAttempts)
}

/** How many failures with this code the history holds since the last repair. */
function trailing(history: readonly HistoryEntry[], code: string): number {
  let count = 0
  for (let i = history.length - 1; i >= 0; i--) {
    const entry = history[i]!
    if (entry.kind === 'repaired') break
    if (entry.code === code) count++
  }
  return count
}
