import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { delayAfter, exponential, nextRunAfter } from '../../src/backoff.js'

const seconds = (attempts: readonly number[]) => attempts.map((n) => nextRunAfter(n) / 1000)

describe('nextRunAfter', () => {
  it('is min(600 s, 2^attempts * 10 s)', () => {
    expect(seconds([1, 2, 3, 4, 5, 6, 7, 31, 32, 64, 1024, 5000])).toEqual([
      20, 40, 80, 160, 320, 600, 600, 600, 600, 600, 600, 600,
    ])
  })
  it('is finite and positive for every number', () => {
    fc.assert(
      fc.property(fc.double(), (n) => {
        expect(nextRunAfter(n)).toBeGreaterThanOrEqual(10_000)
        expect(nextRunAfter(n)).toBeLessThanOrEqual(600_000)
      }),
    )
  })
})

describe("a type's own curve", () => {
  const policy = (baseMs: number, maxDelayMs: number, jitter: boolean) => ({
    backoff: exponential(baseMs, 2),
    maxDelayMs,
    jitter,
  })

  it('doubles from its base to its cap without overflow (base 1 s, cap 60 s)', () => {
    const delays = [1, 6, 7, 31, 32, 64, 1024, 5000].map((n) => delayAfter(policy(1_000, 60_000, false), n, 0).delayMs / 1000)
    expect(delays).toEqual([1, 32, 60, 60, 60, 60, 60, 60])
  })
  it('is capped by time, not by exponent (base 5 s, cap 900 s)', () => {
    const delays = Array.from({ length: 16 }, (_, i) => delayAfter(policy(5_000, 900_000, false), i + 1, 0).delayMs / 1000)
    expect(delays).toEqual([5, 10, 20, 40, 80, 160, 320, 640, 900, 900, 900, 900, 900, 900, 900, 900])
  })
  it('spreads by up to a tenth with jitter, and never beyond the cap', () => {
    for (let n = 1; n <= 16; n++) {
      const samples = Array.from({ length: 200 }, (_, i) => delayAfter(policy(5_000, 900_000, true), n, i / 200).delayMs)
      const plain = Math.min(900_000, 5_000 * 2 ** (n - 1))
      expect(Math.max(...samples)).toBeLessThanOrEqual(Math.min(900_000, plain * 1.1))
      expect(Math.min(...samples)).toBeGreaterThanOrEqual(plain / 1.1 - 1)
      expect(new Set(samples).size).toBeGreaterThan(50)
    }
  })
  it.each([
    ['-1', -1],
    ['NaN', Number.NaN],
    ['Infinity', Infinity],
    ['a text', '5s'],
    ['undefined', undefined],
  ])('falls back to the default and says so when a function returns %s', (_, value) => {
    expect(delayAfter({ backoff: () => value as number, maxDelayMs: 60_000, jitter: false }, 1, 0)).toEqual({
      delayMs: 20_000,
      invalid: true,
    })
  })
  it('falls back when a function throws', () => {
    const backoff = () => {
      throw new Error('no')
    }
    expect(delayAfter({ backoff, maxDelayMs: 60_000, jitter: false }, 9, 0)).toEqual({ delayMs: 60_000, invalid: true })
  })
  it('caps a function that returns too much', () => {
    expect(delayAfter({ backoff: () => 1e308, maxDelayMs: 60_000, jitter: true }, 1, 0.99).delayMs).toBeLessThanOrEqual(60_000)
  })
})
