import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { JobtableError, type ErrorCode } from '../../src/errors.js'
import type { JobRow } from '../../src/store.js'
import { modelStore } from '../../src/testing/model-store.js'
import { newJob } from '../../src/testing/new-job.js'
import { isFinal } from '../../src/transition.js'
import { Waiters } from '../../src/waiters.js'

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'performance'] })
})
afterEach(() => void vi.useRealTimers())

/** Waiters on a store in memory whose reads are counted, take `readMs`, and fail with the codes in `failures`. */
async function bench({ readMs = 0, failures = [] as ErrorCode[] } = {}) {
  const store = modelStore()
  await store.migrate()
  const get = store.get.bind(store)
  const reads: (readonly string[])[] = []
  store.get = async (ids) => {
    reads.push(ids)
    const code = failures.shift()
    if (code) throw new JobtableError(code, 'made to fail')
    const rows = await get(ids)
    if (readMs > 0) await new Promise((resolve) => setTimeout(resolve, readMs))
    return rows
  }
  const waiters = new Waiters(store)
  const addJob = async () => {
    const job = newJob()
    await store.insert([job])
    return job.id
  }
  const waitFor = (id: string, timeout?: '30d') => {
    const waiting = { ended: undefined as JobRow['status'] | ErrorCode | undefined }
    waiters
      .wait(id, (row) => isFinal(row.status), timeout)
      .then(
        (row) => (waiting.ended = row.status),
        (error: unknown) => (waiting.ended = (error as JobtableError).code),
      )
    return waiting
  }
  const end = (id: string) => store.cancel([id], null)
  return { waiters, reads, addJob, waitFor, end }
}
const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms)

describe('somebody who waits', () => {
  it.each(['store_busy', 'store_unavailable', 'store_full'] as const)(
    'survives an outage of the database with %s, and is answered after it',
    async (code) => {
      const { addJob, waitFor, end } = await bench({ failures: Array.from({ length: 4 }, () => code) })
      const id = await addJob()
      const waiting = waitFor(id)
      await pass(2_500)
      await end(id) // The fourth failure meets this news; the poll brings it.
      expect(waiting.ended).toBeUndefined()
      await pass(1_000)
      expect(waiting.ended).toBe('canceled')
    },
  )
  it('is told of a database that cannot be read at all', async () => {
    const { addJob, waitFor } = await bench({ failures: ['store_corrupt'] })
    const waiting = waitFor(await addJob())
    await pass(0)
    expect(waiting.ended).toBe('store_corrupt')
  })
  it('may give a timeout that is longer than the longest timer', async () => {
    const { addJob, waitFor, end } = await bench()
    const id = await addJob()
    const waiting = waitFor(id, '30d')
    await pass(60_000)
    expect(waiting.ended).toBeUndefined()
    await end(id)
    await pass(0)
    expect(waiting.ended).toBe('canceled')
  })
  it('is answered at once where reads are cheap, however fast the changes come', async () => {
    const { addJob, waitFor, end } = await bench()
    const ids = [await addJob(), await addJob(), await addJob()]
    for (const id of ids) {
      const waiting = waitFor(id)
      await pass(0)
      await end(id)
      await pass(0)
      expect(waiting.ended).toBe('canceled')
    }
  })
})

describe('somebody who follows', () => {
  it('is told of the job now and after each change, until they leave', async () => {
    const { waiters, addJob, end, reads } = await bench()
    const id = await addJob()
    const seen: JobRow['status'][] = []
    const leave = waiters.follow(id, { seen: ({ status }) => seen.push(status), failed: () => expect.unreachable() })
    await pass(0)
    expect(seen).toEqual(['pending'])
    await end(id)
    await pass(0)
    expect(seen.at(-1)).toBe('canceled')
    leave()
    const before = reads.length
    await addJob()
    await pass(5_000)
    expect(reads).toHaveLength(before)
  })
  it('is told once that there is no such job, or that the queue is closed', async () => {
    const { waiters, addJob } = await bench()
    const failures: string[] = []
    const follow = (id: string) =>
      waiters.follow(id, {
        seen: () => {},
        failed: (error) => failures.push((error as JobtableError).code),
      })
    follow('none')
    follow(await addJob())
    await pass(2_000)
    expect(failures).toEqual(['job_not_found'])
    waiters.close()
    follow('late')
    await pass(2_000)
    expect(failures).toEqual(['job_not_found', 'queue_closed', 'queue_closed'])
  })
})

describe('where a read takes long', () => {
  it('changes do not make it read more than a fifth of the time', async () => {
    const { addJob, waitFor, reads } = await bench({ readMs: 10 })
    waitFor(await addJob())
    for (let ms = 0; ms < 500; ms++) {
      await addJob()
      await pass(1)
    }
    // One for whoever came, and one every 50 ms.
    expect(reads.length).toBeGreaterThan(9)
    expect(reads.length).toBeLessThan(13)
  })
  it('a change during the rest is not lost', async () => {
    const { addJob, waitFor, end } = await bench({ readMs: 10 })
    const id = await addJob()
    const waiting = waitFor(id)
    await addJob()
    await pass(15) // Read, and resting.
    await end(id)
    await pass(34)
    expect(waiting.ended).toBeUndefined()
    await pass(11)
    expect(waiting.ended).toBe('canceled')
  })
  it('who comes during the rest is answered by a read of the own job, and all who come together by one', async () => {
    const { addJob, waitFor, end, reads } = await bench({ readMs: 10 })
    const [awaited, over1, over2] = [await addJob(), await addJob(), await addJob()]
    waitFor(awaited)
    await end(over1)
    await end(over2)
    await pass(15)
    const before = reads.length
    const waiting = [waitFor(over1), waitFor(over2)]
    await pass(10)
    expect(waiting).toEqual([{ ended: 'canceled' }, { ended: 'canceled' }])
    expect(reads.slice(before)).toEqual([[over1, over2]])
  })
  it('the rest is not longer than the poll, however long the read took', async () => {
    const { addJob, waitFor, end } = await bench({ readMs: 10_000 })
    const id = await addJob()
    const waiting = waitFor(id)
    await addJob()
    await pass(10_500)
    await end(id)
    await pass(10_501)
    expect(waiting.ended).toBe('canceled')
  })
})

describe('a closed queue', () => {
  it('rejects who waits and who comes later, and is kept alive by nothing, a rest included', async () => {
    const { waiters, addJob, waitFor, reads } = await bench({ readMs: 10 })
    const timers = vi.spyOn(globalThis, 'setTimeout')
    const id = await addJob()
    const waiting = waitFor(id)
    await addJob()
    await pass(15)
    await addJob()
    await pass(0)
    const rest = timers.mock.results.at(-1)!.value as NodeJS.Timeout
    expect(vi.getTimerCount()).toBe(2)
    waiters.close()
    await pass(0)
    expect(waiting.ended).toBe('queue_closed')
    expect(vi.getTimerCount()).toBe(1)
    expect(rest.hasRef()).toBe(false)
    const before = reads.length
    const late = waitFor(id)
    await pass(5_000)
    expect(late.ended).toBe('queue_closed')
    expect(reads).toHaveLength(before)
    expect(vi.getTimerCount()).toBe(0)
  })
})
