import { describe, expect, it } from 'vitest'
import { startChild, startChildren } from './support/child.js'
import { DATABASES } from './support/databases.js'
import { until, untilStatus } from './support/place.js'
import { defineTypes } from './support/types.js'

const LEASE = { lease: '1s', pollInterval: '200ms' } as const

describe.each(DATABASES)('duplicate execution on $name', { timeout: 90_000 }, ({ place }) => {
  it('R001: a delayed job is claimed once, and not before it is due, however long it has waited', async () => {
    const here = await place()
    const queue = here.queue()
    const types = defineTypes(queue)
    const [one, two] = await startChildren(here, 2)
    await Promise.all([one!.work(LEASE), two!.work(LEASE)])
    const { job } = await types.act.enqueue({ name: 'tick', ms: 0 }, { delay: '3s' })
    expect(await job.result()).toBe('tick')
    const runs = here.runsOf(job.id)
    expect(runs).toHaveLength(1)
    expect(runs[0]!.at).toBeGreaterThanOrEqual(job.runAfter.getTime())
    expect(await job.refresh()).toMatchObject({ status: 'succeeded', attempts: 1, lockedBy: null })
  })

  it('R003: a job runs once for as long as its worker is alive, however much longer than the lease it takes', async () => {
    const here = await place()
    const queue = here.queue()
    const types = defineTypes(queue)
    const [one, two] = await startChildren(here, 2)
    const holder = await one!.work(LEASE)
    const { job } = await types.act.enqueue({ name: 'long', ms: 4_000 })
    await one!.saw('started', { id: job.id })
    await two!.work(LEASE)
    const leases = new Set<number>()
    const ended = untilStatus(queue, job.id, 'succeeded', 'failed')
    await until('the lease has moved forward four times', async () => {
      const { workers } = await queue.stats()
      leases.add(workers.find(({ id }) => id === holder)!.leaseUntil)
      return leases.size > 4
    })
    expect((await ended).attempts).toBe(1)
    expect(here.runsOf(job.id)).toHaveLength(1)
    expect([...leases]).toEqual([...leases].sort((a, b) => a - b))
  })

  it('R005: a job that is over does not run again when the worker that ran it dies', async () => {
    const here = await place()
    const queue = here.queue()
    const types = defineTypes(queue)
    const first = await startChild(here)
    await first.work(LEASE)
    const { job } = await types.act.enqueue({ name: 'once', ms: 50 })
    await job.result()
    const before = await job.refresh()
    await first.kill()
    const second = await startChild(here)
    const worker = await second.work(LEASE)
    await until('the dead worker is forgotten', async () => {
      const { workers } = await queue.stats()
      return workers.length === 1 && workers[0]!.id === worker
    })
    // The pass that forgot the dead worker has looked for its claims too; what it took back would run before this one.
    await (await types.act.enqueue({ name: 'next', ms: 0 })).job.result()
    expect(here.runsOf(job.id)).toHaveLength(1)
    expect((await job.refresh()).toJSON()).toEqual(before.toJSON())
    expect(await here.sql(`SELECT locked_by, locked_at, claim_token FROM jobs WHERE id = ?`, job.id)).toEqual([
      [null, null, null],
    ])
  })
})
