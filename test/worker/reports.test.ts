/** What becomes of the reports on a job whose row somebody else has locked: in fake time, by answers that the test gives. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { NewEvent, Report, ReportOutcome, Store } from '../../src/store.js'
import { Reports, type Reporter } from '../../src/worker/reports.js'

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }))
afterEach(() => void vi.useRealTimers())

const log = (message: string): NewEvent => ({ kind: 'log', attempt: 1, message, data: null })

function setUp() {
  const calls: { said: string[]; answer(outcome: ReportOutcome): Promise<unknown> }[] = []
  const store = {
    report: (written: readonly Report[]) =>
      new Promise<ReportOutcome[]>((resolve) => {
        const said = written.flatMap(({ id, events = [] }) => events.map(({ message }) => `${id}: ${message}`))
        calls.push({
          said,
          answer: (outcome) => {
            resolve(written.map(() => outcome))
            return vi.advanceTimersByTimeAsync(0)
          },
        })
      }),
  } as unknown as Store
  const job: Reporter = { id: 'job', token: 'token', leaseLost: () => {} }
  const reports = new Reports(store, () => {})
  const say = (message: string): void => reports.add(job, { event: log(message) })
  return { calls, reports, job, say, saidBy: (call: number) => calls[call]?.said }
}

describe('a row that is locked', () => {
  it('is tried once more by a flush that finds it to be locked', async () => {
    const { calls, reports, job, say, saidBy } = setUp()
    say('one')
    const flushed = reports.flush(job)
    await calls[0]!.answer('locked')
    expect(saidBy(1)).toEqual(['job: one'])
    await calls[1]!.answer('written')
    await flushed
    expect([reports.has(job), calls.length]).toEqual([false, 2])
  })

  it('is let go by a flush when it is locked again, and kept for the next', async () => {
    const { calls, reports, job, say, saidBy } = setUp()
    say('one')
    const flushed = reports.flush(job)
    await calls[0]!.answer('locked')
    await calls[1]!.answer('locked')
    await flushed
    say('two')
    await vi.advanceTimersByTimeAsync(1_000)
    expect(saidBy(2)).toEqual(['job: one', 'job: two'])
  })

  it('and is free again: a flush writes what was said meanwhile, too', async () => {
    const { calls, reports, job, say, saidBy } = setUp()
    say('one')
    await vi.advanceTimersByTimeAsync(100)
    await calls[0]!.answer('locked')
    await vi.advanceTimersByTimeAsync(1_000)
    say('two')
    const hadAtItsEnd = reports.flush(job).then(() => reports.has(job))
    await calls[1]!.answer('written')
    expect(saidBy(2)).toEqual(['job: two'])
    await calls[2]!.answer('written')
    expect(await hadAtItsEnd).toBe(false)
  })

  it('leaves no timer behind once its job is over', async () => {
    const { calls, reports, job, say } = setUp()
    say('one')
    await vi.advanceTimersByTimeAsync(100)
    await calls[0]!.answer('locked')
    say('two')
    reports.drop(job)
    expect(vi.getTimerCount()).toBe(0)
  })

  it('holds up the note of a file for some time, and no longer when its job is told to stop', async () => {
    const { calls, reports, job, saidBy } = setUp()
    const stop = new AbortController()
    const refused = reports.note(job, log('file'), stop.signal).catch((error: unknown) => error)
    await vi.advanceTimersByTimeAsync(0)
    await calls[0]!.answer('locked')
    await vi.advanceTimersByTimeAsync(200)
    expect(saidBy(1)).toEqual(['job: file'])
    stop.abort()
    await calls[1]!.answer('locked')
    expect(await refused).toMatchObject({ code: 'store_busy', data: { jobId: 'job' } })
    expect(vi.getTimerCount()).toBe(0)
  })
})
