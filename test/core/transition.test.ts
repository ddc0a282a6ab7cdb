import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { nextRunAfter } from '../../src/backoff.js'
import type { Classification } from '../../src/errors.js'
import { afterCancelRequest, isFinal, MAX_FREE_WAITS, settle, STATUSES, TRANSITIONS } from '../../src/transition.js'
import type { HistoryEntry, Outcome, RetryPolicy, RunningJob } from '../../src/transition.js'

const policy: RetryPolicy = {
  maxAttempts: 5,
  backoff: nextRunAfter,
  maxDelayMs: 600_000,
  jitter: false,
  maxRetryAfterMs: 3_600_000,
}
const job: RunningJob = { attempts: 1, maxAttempts: null, waits: 0, history: [], cancelRequested: false }
const transient: Classification = { kind: 'transient', code: 'connection_lost', blame: 'provider' }

const threw = (error: Partial<Classification> = {}): Outcome => ({
  type: 'threw',
  error: { ...transient, ...error },
  entry: { message: 'boom' },
  userMessage: 'It did not work.',
})
const lost: Outcome = { type: 'lost', holder: 'w1', userMessage: 'It was interrupted.' }
const entry = (code: string, kind: HistoryEntry['kind'] = 'transient'): HistoryEntry => ({
  attempt: 1,
  kind,
  code,
  message: code,
})
const run = (outcome: Outcome, state: Partial<RunningJob> = {}, rules: Partial<RetryPolicy> = {}) =>
  settle({ ...job, ...state }, outcome, { ...policy, ...rules }, 0.5)

describe('a job that returned', () => {
  it('has succeeded, with its result', () => {
    expect(run({ type: 'succeeded', result: '5' })).toEqual({ status: 'succeeded', result: '5' })
  })
  it('has succeeded even when its cancellation was asked for', () => {
    expect(run({ type: 'succeeded', result: null }, { cancelRequested: true }).status).toBe('succeeded')
  })
})

describe('a job that threw', () => {
  it('waits 20, 40, 80, 160 seconds and fails with the fifth attempt', () => {
    const delays = [1, 2, 3, 4, 5].map((attempts) => {
      const settlement = run(threw(), { attempts })
      return settlement.status === 'retrying' ? (settlement.delayMs ?? 0) / 1000 : settlement.status
    })
    expect(delays).toEqual([20, 40, 80, 160, 'failed'])
  })
  it('fails at once when the error is permanent, with the message for the end user', () => {
    expect(run(threw({ kind: 'permanent', code: 'unauthorized' }))).toMatchObject({
      status: 'failed',
      userMessage: 'It did not work.',
      entry: { attempt: 1, kind: 'permanent', code: 'unauthorized', message: 'boom' },
    })
  })
  it('is canceled and not retried when its cancellation was asked for', () => {
    expect(run(threw(), { cancelRequested: true })).toMatchObject({ status: 'canceled', entry: { code: 'connection_lost' } })
  })
  it('is canceled when the error says that somebody stopped it', () => {
    expect(run(threw({ kind: 'canceled', code: 'canceled' })).status).toBe('canceled')
  })
  it('runs exactly once when maxAttempts is 1', () => {
    expect(run(threw(), { maxAttempts: 1 }).status).toBe('failed')
  })
  it('takes the limit of the row before that of the policy', () => {
    expect(run(threw(), { attempts: 5, maxAttempts: 6 }).status).toBe('retrying')
  })
  it('fails when its error code has used up the retries of that code, and counts other codes apart', () => {
    const dns = threw({ code: 'dns_failed', maxRetries: 2 })
    expect(run(dns, { attempts: 2, history: [entry('dns_failed'), entry('other')] }).status).toBe('retrying')
    expect(run(dns, { attempts: 3, history: [entry('dns_failed'), entry('dns_failed')] }).status).toBe('failed')
  })
  it('counts the retries of a code anew after a repair', () => {
    const dns = threw({ code: 'dns_failed', maxRetries: 1 })
    expect(run(dns, { history: [entry('dns_failed'), entry('repaired', 'repaired')] }).status).toBe('retrying')
  })
  it('waits at least as long as the other side asked', () => {
    expect(run(threw({ retryAfterMs: 90_000 }))).toMatchObject({ delayMs: 90_000 })
    expect(run(threw({ retryAfterMs: 1_000 }))).toMatchObject({ delayMs: 20_000 })
  })
  it('ignores a wait that is none, which a type may answer with', () => {
    for (const retryAfterMs of [Number.NaN, -5, 'x' as never])
      expect(run(threw({ retryAfterMs }))).toMatchObject({ delayMs: 20_000 })
  })
  it('does not let another system put it off for longer than the policy allows', () => {
    expect(run(threw({ retryAfterMs: 86_400_000 }))).toMatchObject({ delayMs: 3_600_000 })
  })
})

describe('a job that was rate limited', () => {
  const limited = threw({ kind: 'rate_limited', code: 'rate_limited', retryAfterMs: 30_000 })
  it('waits without spending an attempt', () => {
    expect(run(limited, { attempts: 5 })).toMatchObject({ status: 'retrying', attempts: 4, waits: 1, delayMs: 30_000 })
  })
  it('backs off further with each wait in a row', () => {
    expect(run(limited, { waits: 3 })).toMatchObject({ delayMs: 160_000 })
  })
  it('spends attempts once its free waits are used up, so that it ends', () => {
    expect(run(limited, { waits: MAX_FREE_WAITS })).toMatchObject({ status: 'retrying', attempts: 1, waits: 0 })
    expect(run(limited, { waits: MAX_FREE_WAITS, attempts: 5 }).status).toBe('failed')
  })
})

describe('a job that comes back by itself', () => {
  it('spends no attempt when it is handed back, and keeps its place', () => {
    expect(run({ type: 'handed_back' }, { attempts: 3 })).toEqual({
      status: 'retrying',
      delayMs: null,
      attempts: 2,
      waits: 0,
      entry: null,
    })
  })
  it('spends no attempt when its handler asks to run again later', () => {
    expect(run({ type: 'snoozed', delayMs: 1500 }, { attempts: 3 })).toMatchObject({
      status: 'retrying',
      delayMs: 1500,
      attempts: 2,
    })
  })
  it('keeps its free waits, so that the number of them stays bounded', () => {
    expect(run({ type: 'handed_back' }, { waits: 19 })).toMatchObject({ waits: 19 })
    expect(run({ type: 'snoozed', delayMs: 5 }, { waits: 19 })).toMatchObject({ waits: 19 })
  })
  it('is canceled instead when its cancellation was asked for', () => {
    expect(run({ type: 'handed_back' }, { cancelRequested: true }).status).toBe('canceled')
    expect(run({ type: 'snoozed', delayMs: 0 }, { cancelRequested: true }).status).toBe('canceled')
  })
})

describe('a job whose claim was lost', () => {
  it('runs again at once, has spent the attempt, and remembers the worker', () => {
    expect(run(lost)).toMatchObject({
      status: 'retrying',
      delayMs: null,
      attempts: 1,
      entry: { kind: 'lost', code: 'worker_lost', by: 'w1', attempt: 1 },
    })
  })
  it('backs off when it has been lost before, so that it does not kill one worker after the other', () => {
    expect(run(lost, { attempts: 2, history: [entry('worker_lost', 'lost')] })).toMatchObject({ delayMs: 20_000 })
  })
  it('fails with a reason when its attempts are used up', () => {
    expect(run(lost, { attempts: 5 })).toMatchObject({
      status: 'failed',
      userMessage: 'It was interrupted.',
      entry: { code: 'worker_lost' },
    })
  })
  it('is canceled when its cancellation was asked for', () => {
    expect(run(lost, { cancelRequested: true })).toMatchObject({ status: 'canceled', entry: { code: 'worker_lost' } })
  })
  it('names no worker where the row names none', () => {
    expect(run({ ...lost, holder: null })).not.toHaveProperty('entry.by')
  })
})

describe('a cancellation that was asked for while the settlement was on its way', () => {
  it('turns a retry or a failure into canceled, and leaves a success', () => {
    expect(afterCancelRequest(run(threw()))).toMatchObject({ status: 'canceled', entry: { code: 'connection_lost' } })
    expect(afterCancelRequest(run({ type: 'succeeded', result: null })).status).toBe('succeeded')
  })
})

describe('whatever happens', () => {
  const outcome = fc.oneof(
    fc.constant(lost),
    fc.constant<Outcome>({ type: 'handed_back' }),
    fc.record({ type: fc.constant('snoozed' as const), delayMs: fc.nat() }),
    fc
      .record({ kind: fc.constantFrom('permanent', 'transient', 'rate_limited', 'unknown_outcome'), retryAfterMs: fc.nat() })
      .map((error) => threw(error as never)),
  )
  const state = fc.record({
    attempts: fc.integer({ min: 1, max: 10_000 }),
    waits: fc.nat(100),
    maxAttempts: fc.option(fc.integer({ min: 1, max: 10 })),
  })

  it('the change is legal, the delay finite, and no waiting job has used up its attempts', () => {
    fc.assert(
      fc.property(outcome, state, fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }), (what, over, random) => {
        const settlement = settle({ ...job, ...over }, what, { ...policy, jitter: true }, random)
        expect(TRANSITIONS.running).toContain(settlement.status)
        if (settlement.status !== 'retrying') return
        const { delayMs } = settlement
        expect(delayMs === null || (Number.isFinite(delayMs) && delayMs >= 0)).toBe(true)
        if (what.type === 'threw' || what.type === 'lost')
          expect(settlement.attempts).toBeLessThan(Math.max(over.attempts, over.maxAttempts ?? 5) + 1)
        expect(settlement.attempts).toBeGreaterThanOrEqual(0)
      }),
    )
  })
  it('nothing leaves succeeded, and only a person leaves failed and canceled', () => {
    expect(STATUSES.filter(isFinal)).toEqual(['succeeded', 'failed', 'canceled'])
    expect(TRANSITIONS.succeeded).toEqual([])
    expect([TRANSITIONS.failed, TRANSITIONS.canceled]).toEqual([['pending'], ['pending']])
  })
})
