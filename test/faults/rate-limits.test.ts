import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { RetryAfter } from '../../src/index.js'
import { DATABASES } from './support/databases.js'
import { changed, until, untilStatus } from './support/place.js'
import { anything, defineTypes } from './support/types.js'

describe.each(DATABASES)('rate limits on $name', ({ place }) => {
  it.each([
    [0, 1_000],
    [-5, 1_000],
    [1_500, 1_500],
    [Number.NaN, 1_000],
    [Infinity, 1_000],
    [1e308, 86_400_000],
  ])(
    'R096: a job that asks to run again after %d ms leaves running at once, spends no attempt, and succeeds',
    async (asked, wait) => {
      const { queue, clock } = (await place()).clockQueue()
      const starts: number[] = []
      const type = queue.define('type', {
        ...anything,
        retry: { maxAttempts: 1 },
        run: () => {
          starts.push(clock.now())
          if (starts.length === 1) throw new RetryAfter(asked)
          return 'done'
        },
      })
      const { job } = await type.enqueue(null)
      const waits: number[] = []
      const worker = queue.work()
      worker.on('retrying', ({ delayMs, code }) => {
        waits.push(delayMs)
        expect(code).toBe(null)
      })
      await until('the wait is written', () => waits.length === 1)
      expect(waits).toEqual([wait])
      clock.advance(wait)
      expect(await job.result()).toBe('done')
      expect(await job.refresh()).toMatchObject({ attempts: 1, history: [] })
      expect(starts[1]! - starts[0]!).toBe(wait)
      await worker.stop()
    },
  )

  it('R098: a busy queue delays neither the due jobs of another, nor the heartbeats', async () => {
    const beats: number[] = []
    const queue = (await place()).queue({
      around: (store) =>
        changed(store, {
          heartbeat: (worker, leaseMs) => {
            beats.push(performance.now())
            return store.heartbeat(worker, leaseMs)
          },
        }),
    })
    const types = defineTypes(queue, { started() {} })
    await types.act.enqueueMany(
      Array.from({ length: 20 }, (_, i) => ({ name: `busy-${i}`, ms: 10_000, obey: true })),
      { queue: 'q1' },
    )
    const options = { lease: '3s', stopTimeout: '0ms' } as const
    const busy = queue.work({ ...options, queues: ['q1'], concurrency: 1 })
    await until('the busy worker is busy', () => busy.running.length === 1)
    queue.work({ ...options, queues: ['q2'] })
    const { job } = await types.count.enqueue({ name: 'due' }, { queue: 'q2', delay: '1s' })
    await job.result()
    const { finishedAt, runAfter } = await job.refresh()
    expect(finishedAt!.getTime() - runAfter.getTime()).toBeLessThan(1_000)
    await until('there were heartbeats', () => beats.length >= 6)
    expect(Math.max(...beats.slice(2).map((beat, i) => beat - beats[i]!))).toBeLessThan(3_000)
    expect(busy.running).toHaveLength(1)
  })

  it('R098: a worker that was told no order of its queues runs the due job of one, however many wait in another', async () => {
    const { queue } = (await place()).clockQueue()
    const busy = queue.define('busy', { ...anything, queue: 'q1', run: () => sleep(50) })
    const due = queue.define('due', { ...anything, queue: 'q2', run: () => 'done' })
    await busy.enqueueMany(Array<null>(100).fill(null))
    const { job } = await due.enqueue(null)
    const worker = queue.work({ concurrency: 2, stopTimeout: '0ms' })
    await untilStatus(queue, job.id, 'succeeded')
    expect(await queue.count({ queue: ['q1'], status: ['pending'] })).toBeGreaterThan(0)
    await worker.stop()
  })
})
