import { describe, expect, it } from 'vitest'
import { startChildren } from './support/child.js'
import { DATABASES } from './support/databases.js'
import { until } from './support/place.js'
import { defineTypes } from './support/types.js'

const LEASE = { lease: '2s' } as const

describe.each(DATABASES)('a handler that blocks the event loop, on $name', { timeout: 90_000 }, ({ place }) => {
  it('for some leases runs once, and is named in a warning', async () => {
    const here = await place()
    const queue = here.queue()
    const { act } = defineTypes(queue)
    const [first, other] = await startChildren(here, 2)
    const holder = await first!.work(LEASE)
    const { job } = await act.enqueue({ name: 'blocks', ms: 7_000, block: true })
    await until('it runs', () => here.runsOf(job.id).length === 1)
    await other!.work(LEASE)
    expect(await job.result({ timeout: '30s' })).toBe('blocks')
    expect(here.runsOf(job.id)).toHaveLength(1)
    expect(await job.refresh()).toMatchObject({ status: 'succeeded', attempts: 1, history: [] })
    const warning = await first!.saw('warning')
    expect(warning.message).toMatch(/^the event loop stood still for [67]\.\d s while these jobs ran/)
    expect(warning.message).toContain(`act ${job.id}`)
    // The worker goes on under the lease that its thread has kept.
    const { job: next } = await act.enqueue({ name: 'next', ms: 0 })
    await next.result({ timeout: '20s' })
    expect((await queue.stats()).workers.map(({ id }) => id)).toContain(holder)
    expect([...first!.errors, ...other!.errors]).toEqual([])
  })

  it('beyond the timeout of its job loses the claim, and the job runs elsewhere', async () => {
    const here = await place()
    const queue = here.queue()
    const { brief } = defineTypes(queue)
    const [first, other] = await startChildren(here, 2)
    await first!.work(LEASE)
    const { job } = await brief.enqueue({ name: 'blocks', ms: 30_000, block: true })
    await until('it runs', () => here.runsOf(job.id).length === 1)
    await other!.work(LEASE)
    await until('it runs elsewhere', () => here.runsOf(job.id).length === 2)
    expect(here.runsOf(job.id)).toMatchObject([
      { pid: first!.pid, attempt: 1 },
      { pid: other!.pid, attempt: 2 },
    ])
    expect(first!.all('ended')).toEqual([])
  })
})
