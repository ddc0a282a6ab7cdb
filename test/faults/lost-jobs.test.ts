import { describe, expect, it } from 'vitest'
import { DATABASES } from './support/databases.js'
import { anything } from './support/types.js'

describe.each(DATABASES)('lost jobs on $name', ({ place }) => {
  it('R007: a worker leaves the jobs of a type that it does not know as they are, and the queue says so', async () => {
    const { queue } = (await place()).clockQueue()
    const known = queue.define('known', { ...anything, run: () => 'done' })
    for (let i = 0; i < 3; i++) await queue.enqueue('of_the_next_release', { i })
    const { job } = await known.enqueue(null)
    const worker = queue.work()
    expect(await job.result()).toBe('done')
    const left = await queue.list({ type: ['of_the_next_release'] })
    expect(left).toMatchObject([1, 2, 3].map(() => ({ status: 'pending', attempts: 0 })))
    expect(await queue.why(left[0]!.id)).toContain('knows the type of_the_next_release')
    const counts = (await queue.stats()).counts.filter(({ type }) => type === 'of_the_next_release')
    expect(counts).toMatchObject([{ status: 'pending', count: 3, due: 3 }])
    await worker.stop()
  })

  it('R007: a job whose type name no worker could ever define is refused when it is enqueued', async () => {
    const { queue } = (await place()).clockQueue()
    for (const name of ['', 'a b', 'a|b', 'x\ud83d', 'x'.repeat(101)]) {
      await expect(queue.enqueue(name, {}), JSON.stringify(name)).rejects.toMatchObject({ code: 'config_invalid' })
    }
    expect(await queue.count()).toBe(0)
  })
})
