import { AxiosHeaders } from 'axios'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { classify } from '../../src/classify/index.js'

const NOW = Date.parse('2030-01-01T00:00:00Z')

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date'], now: NOW })
})
afterEach(() => {
  vi.useRealTimers()
})

const waitOf = (headers: unknown, more: object = {}): number | undefined =>
  classify(Object.assign(new Error('m'), { status: 429, headers, ...more })).retryAfterMs

describe('wait hints', () => {
  const hints: [header: string, value: string, ms: number | undefined][] = [
    ['retry-after-ms', '1500', 1_500],
    ['retry-after-ms', '0.5', 1],
    ['retry-after', '20', 20_000],
    ['retry-after', '0', 0],
    ['retry-after', '1.5', 1_500],
    ['retry-after', '-5', 0],
    ['retry-after', ' 20 ', 20_000],
    ['retry-after', 'Tue, 01 Jan 2030 00:01:00 GMT', 60_000],
    ['retry-after', 'Mon, 31 Dec 2029 23:00:00 GMT', 0],
    ['retry-after', '2030-01-01T00:00:30Z', 30_000],
    ['retry-after', '86400', 86_400_000],
    ['retry-after', '9'.repeat(400), Number.MAX_SAFE_INTEGER],
    ['retry-after', 'soon', undefined],
    ['retry-after', '', undefined],
    ['retry-after', 'NaN', undefined],
    ['retry-after', 'Infinity', undefined],
    ['x-amz-retry-after', '2000', 2_000],
    ['x-ratelimit-reset-requests', '6m0s', 360_000],
    ['x-ratelimit-reset-tokens', '59ms', 59],
    ['x-ratelimit-reset-tokens', '1h2m3.5s', 3_723_500],
    ['x-ratelimit-reset-tokens', '6 minutes', undefined],
    ['anthropic-ratelimit-tokens-reset', '2030-01-01T00:00:10Z', 10_000],
    ['anthropic-ratelimit-requests-reset', '2029-12-31T00:00:00Z', 0],
    ['x-ratelimit-reset', String(NOW / 1_000 + 90), 90_000],
    ['ratelimit-reset', '30', 30_000],
  ]
  test.each(hints)('%s: %s', (header, value, ms) => {
    expect(waitOf({ [header]: value })).toBe(ms)
  })

  test('are read from Headers, AxiosHeaders, and objects in any case of letters', () => {
    const plain = { 'Retry-After': '7' }
    for (const headers of [
      plain,
      new Headers(plain),
      new AxiosHeaders(plain),
      new Map([['retry-after', '7']]),
      { 'RETRY-AFTER': ['7'] },
      { 'retry-after': 7 },
    ]) {
      expect(waitOf(headers)).toBe(7_000)
    }
  })

  test('are found wherever a library keeps its headers', () => {
    const headers = { 'retry-after': '7' }
    for (const place of [
      { headers },
      { responseHeaders: headers },
      { response: { headers } },
      { $response: { headers } },
      { raw: { headers } },
    ]) {
      expect(waitOf(undefined, place)).toBe(7_000)
    }
  })

  test('in milliseconds go before those in seconds, and both before a reset', () => {
    const reset = { 'x-ratelimit-reset-tokens': '6m0s' }
    expect(waitOf({ ...reset, 'retry-after': '20', 'retry-after-ms': '1500' })).toBe(1_500)
    expect(waitOf({ ...reset, 'retry-after': '20' })).toBe(20_000)
  })

  test('of several limits, the one that is used up counts', () => {
    const limits = { 'x-ratelimit-reset-requests': '1s', 'x-ratelimit-reset-tokens': '6m0s' }
    expect(waitOf({ ...limits, 'x-ratelimit-remaining-requests': '0', 'x-ratelimit-remaining-tokens': '100' })).toBe(1_000)
    expect(waitOf(limits)).toBe(360_000)
  })

  test('in the message count where no header has one', () => {
    expect(waitOf({}, { message: 'Rate limit reached. Please try again in 1m20s.' })).toBe(80_000)
    expect(waitOf({ 'retry-after': '1' }, { message: 'Please try again in 20s' })).toBe(1_000)
  })

  test('of a wrapped error count too', () => {
    const cause = Object.assign(new Error('m'), { headers: { 'retry-after': '7' } })
    expect(waitOf({}, { cause })).toBe(7_000)
  })

  test('say nothing about a permanent failure', () => {
    expect(waitOf({ 'retry-after': '7' }, { status: 404 })).toBeUndefined()
  })

  test('of a server error lengthen the backoff', () => {
    expect(classify(Object.assign(new Error('m'), { status: 500, headers: { 'retry-after': '7' } }))).toMatchObject({
      kind: 'transient',
      retryAfterMs: 7_000,
    })
  })
})
