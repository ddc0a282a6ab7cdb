/** How many writes streams cost, and what becomes of them while the database is away: in fake time, by counting calls. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { JobtableError } from '../../src/errors.js'
import type { Report, ReportOutcome, Store } from '../../src/store.js'
import { Reports } from '../../src/worker/reports.js'
import { AttemptStreams } from '../../src/worker/streams.js'

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }))
afterEach(() => void vi.useRealTimers())

const away = (): JobtableError => new JobtableError('store_unavailable', 'away')

function setUp(jobs = 1) {
  const calls: Report[][] = []
  const errors: unknown[] = []
  const answer = { error: undefined as Error | undefined, outcome: 'written' as ReportOutcome, ended: false }
  const store = {
    report: async (reports: readonly Report[]) => {
      calls.push([...reports])
      if (answer.error) throw answer.error
      return reports.map(() => answer.outcome)
    },
  } as unknown as Store
  const reports = new Reports(store, (error) => errors.push(error))
  const attempts = Array.from({ length: jobs }, (_, i) => {
    const controller = new AbortController()
    const attempt = {
      id: `job-${i}`,
      token: 'token',
      signal: controller.signal,
      lost: false,
      leaseLost: () => void (attempt.lost = true),
      streams: undefined as AttemptStreams | undefined,
      abort: () => controller.abort(),
    }
    attempt.streams = new AttemptStreams(attempt, reports, () => answer.ended)
    return attempt
  })
  const textOf = (id: string): string =>
    calls
      .flatMap((call) => call.filter((report) => report.id === id).flatMap(({ streams = [] }) => streams.map(({ text }) => text)))
      .join('')
  return { calls, errors, answer, reports, attempts, textOf, streams: attempts.map(({ streams }) => streams!) }
}

describe('what many small writes cost', () => {
  it('100 a second in each of 50 jobs cost ten calls of the store a second, and every piece is in one of them', async () => {
    const { calls, streams, textOf } = setUp(50)
    const open = streams.map((each) => each.open('text'))
    for (let n = 0; n < 1_000; n++) {
      for (const stream of open) await stream.write(`${n % 10} ab`)
      await vi.advanceTimersByTimeAsync(10)
    }
    await Promise.all(streams.map((each) => each.finish()))
    expect(calls.length).toBeLessThanOrEqual(102)
    expect(calls.length).toBeGreaterThan(90)
    const expected = Array.from({ length: 1_000 }, (_, n) => `${n % 10} ab`).join('')
    for (let i = 0; i < 50; i++) expect(textOf(`job-${i}`)).toBe(expected)
  })

  it('each piece begins where the one before it ended', async () => {
    const { calls, streams } = setUp()
    const stream = streams[0]!.open('text')
    for (let n = 0; n < 100; n++) {
      await stream.write('🙂'.slice(n % 2, (n % 2) + 1))
      await vi.advanceTimersByTimeAsync(37)
    }
    await stream.end()
    let length = 0
    for (const { streams: pieces = [] } of calls.flat()) {
      for (const { offset, text } of pieces) {
        expect([offset, text.isWellFormed()]).toEqual([length, true])
        length += text.length
      }
    }
    expect(length).toBe(100)
    expect(calls.flat().at(-1)?.streams?.at(-1)?.done).toBe(true)
  })
})

describe('while the database is away', () => {
  it('text is kept and sent again as it was, with growing pauses, and nothing is missing', async () => {
    const { calls, errors, answer, streams } = setUp()
    const stream = streams[0]!.open('text')
    answer.error = away()
    await stream.write('one')
    await vi.advanceTimersByTimeAsync(150)
    await stream.write(' two')
    await vi.advanceTimersByTimeAsync(10_000)
    expect(calls.length).toBeLessThan(12)
    expect(errors.length).toBe(calls.length)
    answer.error = undefined
    await vi.advanceTimersByTimeAsync(2_000)
    expect(calls.at(-1)![0]!.streams).toEqual([
      { name: 'text', offset: 0, text: 'one', done: false },
      { name: 'text', offset: 3, text: ' two', done: false },
    ])
    const before = calls.length
    await vi.advanceTimersByTimeAsync(60_000)
    expect(calls.length).toBe(before)
  })

  it('writes wait once much is unsent, go on when there is room, and what does not wait is refused in the end', async () => {
    const { answer, streams } = setUp()
    const stream = streams[0]!.open('text', { maxLength: 16_777_216 })
    answer.error = away()
    let went = false
    void stream.write('x'.repeat(65_537)).then(() => (went = true))
    await vi.advanceTimersByTimeAsync(1_000)
    expect(went).toBe(false)
    answer.error = undefined
    await vi.advanceTimersByTimeAsync(2_000)
    expect(went).toBe(true)
    answer.error = away()
    void stream.write('x'.repeat(4_000_000))
    await expect(stream.write('x'.repeat(300_000))).rejects.toMatchObject({ code: 'stream_full' })
    await expect(streams[0]!.finish()).rejects.toMatchObject({ code: 'stream_full' })
  })

  it('a write that waits goes on when the job is to stop', async () => {
    const { answer, attempts, streams } = setUp()
    answer.error = away()
    const writing = streams[0]!.open('text').write('x'.repeat(100_000))
    await vi.advanceTimersByTimeAsync(1_000)
    attempts[0]!.abort()
    expect(await writing).toBeUndefined()
  })

  it('the end of a handler waits for its text, and after half a minute it is the failure of the attempt', async () => {
    const { answer, streams } = setUp()
    await streams[0]!.open('text').write('text')
    answer.error = away()
    const failing = streams[0]!.finish().catch((error: unknown) => error)
    await vi.advanceTimersByTimeAsync(40_000)
    expect(await failing).toBe(answer.error)
  })

  it('an attempt that has ended is not tried again for ever', async () => {
    const { calls, answer, reports, streams } = setUp()
    await streams[0]!.open('text').write('text')
    answer.error = away()
    answer.ended = true
    await reports.flush()
    await vi.advanceTimersByTimeAsync(60_000)
    expect(calls.length).toBe(1)
  })
})

it('an error that does not pass fails every write after it, and the attempt', async () => {
  const { answer, calls, streams } = setUp()
  const stream = streams[0]!.open('text')
  answer.error = new JobtableError('store_corrupt', 'torn')
  const writing = stream.write('x'.repeat(100_000)).catch((error: unknown) => error)
  await vi.advanceTimersByTimeAsync(1_000)
  expect(await writing).toBe(answer.error)
  await expect(stream.write('more')).rejects.toBe(answer.error)
  await expect(streams[0]!.finish()).rejects.toBe(answer.error)
  expect(calls.length).toBe(1)
})

it('text of a claim that is lost is let go', async () => {
  const { answer, attempts, calls, streams } = setUp()
  answer.outcome = 'lost'
  await streams[0]!.open('text').write('text')
  await vi.advanceTimersByTimeAsync(1_000)
  expect([attempts[0]!.lost, calls.length]).toEqual([true, 1])
})
