import { describe, expect, it } from 'vitest'
import { PermanentError, RetryAfter, TransientError } from '../../src/index.js'
import { DATABASES } from './support/databases.js'
import { startChild } from './support/child.js'
import { gate, recordingLog, until, untilStatus } from './support/place.js'
import { anything, defineTypes } from './support/types.js'

const OVER = ['succeeded', 'failed', 'canceled'] as const
describe.each(DATABASES)('cancellation on $name', ({ place }) => {
  describe('R104: a job whose cancellation was asked for', () => {
    const throwing = (error: Error) => () => {
      throw error
    }

    it.each<[string, () => unknown, 'canceled' | 'succeeded', number]>([
      ['throws what is worth a retry', throwing(new TransientError('late')), 'canceled', 1],
      ['throws what is not', throwing(new PermanentError('late')), 'canceled', 1],
      ['asks to run again later', throwing(new RetryAfter(0)), 'canceled', 0],
      ['returns all the same', () => 'done', 'succeeded', 0],
    ])('is never started again when its handler %s', async (_, end, status, entries) => {
      // With another's request, noticed or not: the handler ends before or after its worker has heard of it.
      for (const heard of [false, true]) {
        const here = await place()
        const { queue, clock } = here.clockQueue()
        const { queue: other } = here.clockQueue({}, clock)
        const finish = gate()
        let runs = 0
        let aborted = false
        const type = queue.define('type', {
          ...anything,
          run: async (job) => {
            runs++
            job.signal.addEventListener('abort', () => (aborted = true))
            await finish.opened
            return end()
          },
        })
        const { job } = await type.enqueue(null)
        const worker = queue.work()
        await untilStatus(queue, job.id, 'running')
        expect(await other.cancel(job.id)).toMatchObject({ status: 'running', cancelRequested: true })
        if (heard) await until('the handler has been told', () => aborted)
        finish.open()
        const ended = await untilStatus(queue, job.id, ...OVER)
        expect([ended.status, ended.attempts, ended.history.length]).toEqual([status, 1, entries])
        clock.advance('10d')
        await worker.idle()
        expect(runs).toBe(1)
        expect((await job.refresh()).toJSON()).toEqual(ended.toJSON())
        await worker.stop()
      }
    })

    it('is canceled, not run again, when its worker is killed', { timeout: 60_000 }, async () => {
      const here = await place()
      const queue = here.queue()
      const types = defineTypes(queue)
      const options = { lease: '1s', pollInterval: '200ms' } as const
      const first = await startChild(here)
      await first.work(options)
      const { job } = await types.act.enqueue({ name: 'doomed', ms: 60_000 }, { maxAttempts: 5 })
      await first.saw('started', { id: job.id })
      await job.cancel()
      await first.kill()
      const second = await startChild(here)
      await second.work(options)
      expect(await untilStatus(queue, job.id, ...OVER)).toMatchObject({
        status: 'canceled',
        attempts: 1,
        history: [{ kind: 'lost', attempt: 1 }],
      })
      expect(here.runsOf(job.id)).toHaveLength(1)
      await expect(job.result()).rejects.toMatchObject({ code: 'job_canceled' })
    })
  })

  it('R106: a canceled job frees its slot at once, and no later worker cancels it again', async () => {
    const here = await place()
    const log = recordingLog()
    const queue = here.queue({ logger: log })
    const types = defineTypes(queue, { started() {} })
    const one = await types.act.enqueue({ name: 'one', ms: 60_000, obey: true })
    const two = await types.act.enqueue({ name: 'two', ms: 0 })
    const worker = queue.work({ concurrency: 1 })
    await untilStatus(queue, one.job.id, 'running')
    await one.job.cancel()
    expect(await two.job.result({ timeout: '20s' })).toBe('two')
    const canceled = await one.job.refresh()
    const ended = (await two.job.refresh()).finishedAt!
    expect(ended.getTime() - canceled.finishedAt!.getTime()).toBeLessThan(1_000)
    expect(canceled).toMatchObject({ status: 'canceled', lockedBy: null })
    await worker.stop()
    const before = { job: canceled.toJSON(), events: await one.job.events(), lines: log.lines.length }
    for (let restart = 0; restart < 2; restart++) {
      const next = queue.work({ concurrency: 1 })
      const canceledAgain: unknown[] = []
      next.on('canceled', (event) => canceledAgain.push(event))
      await next.idle()
      await next.stop()
      expect(canceledAgain).toEqual([])
    }
    const after = await one.job.refresh()
    expect({ job: after.toJSON(), events: await one.job.events(), lines: log.lines.length }).toEqual(before)
  })
})
