import { describe, expect, it } from 'vitest'
import { startChild, startChildren } from './support/child.js'
import { DATABASES } from './support/databases.js'
import { until } from './support/place.js'
import { defineTypes } from './support/types.js'

/** Far longer than the test: whoever takes over before that has not waited for it. */
const LEASE = { lease: '10m' } as const
const acts = (count: number) => Array.from({ length: count }, (_, i) => ({ name: `held-${i}`, ms: 60_000, obey: true }))

describe.each(DATABASES)('a killed worker on $name', { timeout: 90_000 }, ({ place }) => {
  it('has all of its jobs run again by another on its machine, which does not wait for the lease', async () => {
    const here = await place()
    const queue = here.queue()
    const { act } = defineTypes(queue)
    const [victim, heir] = await startChildren(here, 2)
    const lost = await victim!.work({ ...LEASE, concurrency: 10 })
    const added = await act.enqueueMany(acts(10))
    await until('it holds ten jobs', () => victim!.all('started').length === 10)
    const other = await heir!.work({ ...LEASE, concurrency: 10 })
    await victim!.kill()
    await until('all ten run again', () => heir!.all('started').length === 10)
    for (const { job } of added) {
      expect(await job.refresh()).toMatchObject({
        status: 'running',
        attempts: 2,
        lockedBy: other,
        history: [{ attempt: 1, kind: 'lost', code: 'worker_lost', by: lost }],
      })
    }
    expect((await queue.stats()).workers.map(({ id }) => id)).toEqual([other])
  })

  it('has its jobs run again by the one that is started in its place', async () => {
    const here = await place()
    const queue = here.queue()
    const { act } = defineTypes(queue)
    const victim = await startChild(here)
    await victim.work(LEASE)
    const { job } = await act.enqueue({ name: 'held', ms: 60_000, obey: true })
    await victim.saw('started', { id: job.id })
    await victim.kill()
    const heir = await startChild(here)
    await heir.work(LEASE)
    await heir.saw('started', { id: job.id })
    expect(await job.refresh()).toMatchObject({ status: 'running', attempts: 2 })
  })

  it('is not taken for one that is frozen, whose lease goes on', async () => {
    const here = await place()
    const queue = here.queue()
    const { act } = defineTypes(queue)
    const [frozen, other] = await startChildren(here, 2)
    const holder = await frozen!.work(LEASE)
    const { job } = await act.enqueue({ name: 'held', ms: 60_000, obey: true })
    await frozen!.saw('started', { id: job.id })
    await frozen!.freeze()
    await other!.work(LEASE)
    const killed = await startChild(here)
    await killed.work(LEASE)
    await killed.kill()
    // The look that finds the one finds the other alive.
    await until('the killed one was found', async () => (await queue.stats()).workers.length === 2)
    expect(await job.refresh()).toMatchObject({ status: 'running', attempts: 1, lockedBy: holder })
    frozen!.thaw()
  })
})
