import { describe, expect, it } from 'vitest'
import { TransientError, type Backoff } from '../../src/index.js'
import { delayAfter, exponential } from '../../src/backoff.js'
import { DATABASES } from './support/databases.js'
import { recordingLog } from './support/place.js'
import { anything } from './support/types.js'

const alwaysThrows = (): never => {
  throw new TransientError('told to')
}

describe.each(DATABASES)('retries on $name', ({ place }) => {
  describe('R023: the wait before the next attempt', () => {
    it.each([
      [1, 1],
      [6, 32],
      [7, 60],
      [31, 60],
      [32, 60],
      [64, 60],
      [1_024, 60],
      [5_000, 60],
    ])('after attempt %d is %d s, whatever the exponent', async (attempt, seconds) => {
      const here = await place()
      const { queue, clock } = here.clockQueue()
      const type = queue.define('type', {
        ...anything,
        retry: { maxAttempts: 10_000, backoff: { base: '1s', factor: 2 }, maxDelay: '60s', jitter: false },
        run: alwaysThrows,
      })
      const { job } = await type.enqueue(null)
      await here.sql(`UPDATE jobs SET attempts = ? WHERE id = ?`, attempt - 1, job.id)
      await queue.drain()
      const after = await job.refresh()
      expect(after).toMatchObject({ status: 'retrying', attempts: attempt })
      expect(after.runAfter.getTime() - clock.now()).toBe(seconds * 1_000)
    })
  })

  describe("R025: a backoff of one's own that answers with no number of milliseconds", () => {
    it.each<[string, Backoff]>([
      ['-1', () => -1],
      ['NaN', () => Number.NaN],
      ['Infinity', () => Infinity],
      ['a text', () => '5s' as never],
      ['nothing', () => undefined as never],
      ['1e308', () => 1e308],
      ['an error', () => alwaysThrows()],
      ['a promise', () => Promise.resolve(1) as never],
    ])('waits for a time between now and the cap: %s', async (_, backoff) => {
      const { queue, clock } = (await place()).clockQueue()
      const type = queue.define('type', { ...anything, retry: { backoff, maxDelay: '60s' }, run: alwaysThrows })
      const { job } = await type.enqueue(null)
      await queue.drain()
      const after = await job.refresh()
      expect(after.status).toBe('retrying')
      const wait = after.runAfter.getTime() - clock.now()
      expect(wait).toBeGreaterThan(0)
      expect(wait).toBeLessThanOrEqual(60_000)
    })

    it('is warned about, once for its type', async () => {
      const log = recordingLog()
      const { queue, clock } = (await place()).clockQueue({ logger: log })
      const retry = { backoff: () => Number.NaN, maxDelay: '60s' } as const
      const type = queue.define('type', { ...anything, retry, run: alwaysThrows })
      await type.enqueueMany([null, null])
      for (let attempt = 1; attempt <= 3; attempt++) {
        await queue.drain()
        clock.advance('60s')
      }
      const warnings = log.lines.filter(({ level, message }) => level === 'warn' && message.includes('backoff'))
      expect(warnings).toHaveLength(1)
      expect(warnings[0]!.facts).toMatchObject({ type: 'type' })
    })
  })
})

describe('R023: the wait before the next attempt', () => {
  it('never shrinks as the attempts grow, however long the cap and however short the base', () => {
    for (const [base, factor, cap] of [
      [1_000, 2, 3_600_000],
      [0, 2, 3_600_000],
      [0.001, 10, 86_400_000],
    ] as const) {
      const policy = { backoff: exponential(base, factor), maxDelayMs: cap, jitter: false }
      const delays = [1, 2, 10, 100, 400, 1_023, 1_024, 1_100, 5_000, 1_000_000].map(
        (attempts) => delayAfter(policy, attempts, 0).delayMs,
      )
      expect(delays, `base ${base}`).toEqual([...delays].sort((a, b) => a - b))
      expect(delays.at(-1), `base ${base}`).toBe(base === 0 ? 0 : cap)
    }
  })
})

describe('R027: jitter', () => {
  const policy = { backoff: exponential(5_000, 2), maxDelayMs: 900_000 }
  const steps = Array.from({ length: 16 }, (_, i) => i + 1)

  it('is on top of a curve that is exact without it', () => {
    const delays = steps.map((step) => delayAfter({ ...policy, jitter: false }, step, 0.5).delayMs / 1_000)
    expect(delays).toEqual([5, 10, 20, 40, 80, 160, 320, 640, ...Array<number>(8).fill(900)])
  })

  it('never passes the cap or falls below nothing, and spreads the jobs of one moment', () => {
    for (const step of steps) {
      const samples = Array.from({ length: 200 }, () => delayAfter({ ...policy, jitter: true }, step, Math.random()).delayMs)
      expect(Math.max(...samples)).toBeLessThanOrEqual(900_000)
      expect(Math.min(...samples)).toBeGreaterThanOrEqual(5_000)
      expect(new Set(samples).size).toBeGreaterThan(50)
    }
  })
})
