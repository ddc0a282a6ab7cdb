import { describe, expect, it } from 'vitest'
import { startChild } from './support/child.js'
import { DATABASES } from './support/databases.js'
import { defineTypes } from './support/types.js'

describe.each(DATABASES)('starvation on $name', ({ place }) => {
  it('R091: jobs that take their worker down with them go behind the healthy ones', { timeout: 90_000 }, async () => {
    const here = await place()
    const queue = here.queue()
    const types = defineTypes(queue)
    const options = { lease: '1s', concurrency: 2, pollInterval: '200ms' } as const
    const hung = await types.act.enqueueMany(
      ['hung-1', 'hung-2'].map((name) => ({ name, ms: 600_000 })),
      { maxAttempts: 10 },
    )
    const first = await startChild(here)
    await first.work(options)
    for (const { job } of hung) await first.saw('started', { id: job.id, attempt: 1 })
    const healthy = await types.act.enqueueMany(Array.from({ length: 5 }, (_, i) => ({ name: `healthy-${i}`, ms: 10 })))
    await first.kill()
    const second = await startChild(here)
    await second.work(options)
    for (const { job } of hung) await second.saw('started', { id: job.id, attempt: 2 })
    await second.kill()
    const third = await startChild(here)
    await third.work(options)
    await Promise.all(healthy.map(({ job }) => job.result()))
    for (const { job } of hung) await third.saw('started', { id: job.id, attempt: 3 })
    const thirdStarts = here.ledger().filter(({ name, attempt }) => name.startsWith('hung') && attempt === 3)
    const lastHealthy = Math.max(
      ...here
        .ledger()
        .filter(({ name }) => name.startsWith('healthy'))
        .map(({ at }) => at),
    )
    for (const { at } of thirdStarts) expect(at).toBeGreaterThanOrEqual(lastHealthy)
  })
})
