import { describe, expect, it } from 'vitest'
import { gate, until, untilStatus } from './support/place.js'
import { DATABASES } from './support/databases.js'
import { startChildren } from './support/child.js'
import { defineTypes } from './support/types.js'
describe.each(DATABASES)('shutdown on $name', ({ place }) => {
  describe('with processes', { timeout: 90_000 }, () => {
    it('R080: heartbeats go on while a stopping worker waits for its last job, so that nobody else runs it', async () => {
      const here = await place()
      const queue = here.queue()
      const types = defineTypes(queue)
      const [first, second] = await startChildren(here, 2)
      await first!.work({ lease: '1s', stopTimeout: '20s' })
      const { job } = await types.act.enqueue({ name: 'last', ms: 4_000 })
      await first!.saw('started', { id: job.id })
      await second!.work({ lease: '1s', pollInterval: '200ms' })
      first!.terminate()
      expect(await job.result()).toBe('last')
      expect(await first!.exited()).toBe(0)
      expect(first!.all('aborted')).toEqual([])
      expect(here.runsOf(job.id)).toHaveLength(1)
      expect(await job.refresh()).toMatchObject({ attempts: 1, history: [] })
    })

    it('R082: a job that ignores its signal is handed back at the deadline, and the next worker need not wait for the lease', async () => {
      const here = await place()
      const queue = here.queue()
      const types = defineTypes(queue)
      const [first, second] = await startChildren(here, 2)
      await first!.work({ lease: '30s', stopTimeout: '1s' })
      const { job } = await types.act.enqueue({ name: 'deaf', ms: 60_000 })
      await first!.saw('started', { id: job.id })
      await second!.work({ lease: '30s', pollInterval: '200ms' })
      const asked = performance.now()
      first!.terminate()
      expect(await first!.saw('aborted', { id: job.id })).toMatchObject({ reason: 'shutdown' })
      const rerun = second!.saw('started', { id: job.id })
      expect(await first!.exited()).toBe(0)
      await rerun
      expect(performance.now() - asked).toBeLessThan(10_000)
      expect(await job.refresh()).toMatchObject({ status: 'running', attempts: 1, history: [] })
      expect(first!.all('event')).toMatchObject([{ event: 'retrying', id: job.id }])
    })

    it('SIGTERM while a hundred jobs run: each has ended or is handed back, none has spent an attempt for it, and the process ends in time', async () => {
      const here = await place()
      const queue = here.queue()
      const types = defineTypes(queue)
      const [child] = await startChildren(here, 1)
      const few = Array.from({ length: 40 })
      const acts = [
        ...few.map((_, i) => ({ name: `ends-${i}`, ms: 1_000 })),
        ...few.map((_, i) => ({ name: `obeys-${i}`, ms: 60_000, obey: true })),
        ...few.map((_, i) => ({ name: `deaf-${i}`, ms: 60_000 })),
      ]
      const added = await types.act.enqueueMany(acts.filter((_, i) => i % 6 !== 5)) // A hundred of them.
      await child!.work({ concurrency: 100, stopTimeout: '3s' })
      await until('all of them run', () => child!.all('started').length === 100)
      const asked = performance.now()
      child!.terminate()
      expect(await child!.exited()).toBe(0)
      expect(performance.now() - asked).toBeLessThan(8_000)
      const after = await Promise.all(added.map(({ job }) => job.refresh()))
      const ended = after.filter(({ payload }) => (payload as { name: string }).name.startsWith('ends'))
      expect(ended.map(({ status, attempts }) => [status, attempts])).toEqual(ended.map(() => ['succeeded', 1]))
      const handedBack = after.filter((job) => !ended.includes(job))
      expect(handedBack.length).toBeGreaterThan(60)
      expect(handedBack.map(({ status, attempts, lockedBy, history }) => ({ status, attempts, lockedBy, history }))).toEqual(
        handedBack.map(() => ({ status: 'retrying', attempts: 0, lockedBy: null, history: [] })),
      )
    })
  })

  it('R086: a queue works again after its worker was stopped, as often as one likes, and leaves nothing behind', async () => {
    const queue = (await place()).queue()
    const types = defineTypes(queue, { started() {} })
    const resources: number[] = []
    for (let cycle = 0; cycle < 20; cycle++) {
      const worker = queue.work()
      const added = await types.count.enqueueMany(Array.from({ length: 5 }, (_, i) => ({ name: `${cycle}-${i}` })))
      await Promise.all(added.map(({ job }) => job.result()))
      await worker.stop()
      expect(worker.totals).toEqual({ succeeded: 5, failed: 0, retrying: 0, canceled: 0 })
      resources.push(process.getActiveResourcesInfo().length)
    }
    expect((await queue.stats()).workers).toEqual([])
    // A pool may open a few connections more as it goes; one thing left behind by each of the others would be nineteen.
    expect(resources.at(-1)! - resources[0]!).toBeLessThan(10)
  })

  it('R086: stopping twice is stopping once, and a stopped worker claims nothing more', async () => {
    const queue = (await place()).queue()
    const types = defineTypes(queue, { started() {} })
    const worker = queue.work()
    await worker.ready()
    await Promise.all([worker.stop(), worker.stop(), worker.stopped])
    const { job } = await types.count.enqueue({ name: 'late' })
    const other = queue.work({ queues: ['elsewhere'] })
    await other.idle()
    expect((await job.refresh()).status).toBe('pending')
  })

  it('R086: a stop during the start, and a close during work, end everything and hand back what ran', async () => {
    const here = await place()
    const queue = here.queue()
    const types = defineTypes(queue)
    const finish = gate()
    types.count.handle(async () => {
      await finish.opened
      return null
    })
    const early = queue.work()
    await early.stop()
    const { job } = await types.count.enqueue({ name: 'held' })
    queue.work({ stopTimeout: '0ms' })
    await untilStatus(queue, job.id, 'running')
    await queue.close()
    finish.open()
    const after = here.queue()
    expect(await after.get(job.id)).toMatchObject({ status: 'retrying', attempts: 0, lockedBy: null })
    await until('no worker is left', async () => (await after.stats()).workers.length === 0)
  })

  it('R084: a second stop with less patience hurries the first one, and the job is handed back', async () => {
    const queue = (await place()).queue()
    const types = defineTypes(queue, { started() {} })
    const { job } = await types.act.enqueue({ name: 'long', ms: 600_000, obey: true })
    const worker = queue.work()
    await untilStatus(queue, job.id, 'running')
    const patient = worker.stop({ timeout: '1h' })
    await worker.stop({ timeout: '0ms' })
    await patient
    expect(await job.refresh()).toMatchObject({ status: 'retrying', attempts: 0, lockedBy: null, history: [] })
  })
})
