import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it, onTestFinished } from 'vitest'
import { jobtable } from '../../src/index.js'
import { sqliteStore } from '../../src/stores/sqlite/index.js'
import { startChild } from './support/child.js'
import { DATABASES } from './support/databases.js'
import { changed, recordingLog, until } from './support/place.js'
import { anything, defineTypes } from './support/types.js'

describe.each(DATABASES)('a function that works within a budget, on $name', { timeout: 90_000 }, ({ place }) => {
  it('R135: claims nothing in its last third, and what it is killed with runs again in the next call', async () => {
    const here = await place()
    const queue = here.queue()
    const { act } = defineTypes(queue)
    await act.enqueueMany(Array.from({ length: 20 }, (_, i) => ({ name: `short-${i}`, ms: 300 })))
    const call = { do: 'run_once', options: { budget: '3s', concurrency: 2, lease: '5s' } } as const
    const killed = await startChild(here)
    void killed.order(call).catch(() => {}) // It is not answered.
    await until('it is in the middle', () => killed.all('started').length === 2)
    await killed.kill()
    let counted = 0
    for (let finished = false; !finished;) {
      const child = await startChild(here)
      const began = Date.now()
      const result = await child.order(call)
      // The process is there to be asked when it has stopped, and has claimed nothing in the margin of a second.
      expect(child.all('started').every(({ at }) => at < began + 2_500)).toBe(true)
      counted += result.succeeded
      finished = result.finished
      await child.kill()
    }
    expect(counted).toBe(20)
    expect(await queue.count({ status: ['succeeded'] })).toBe(20)
    expect(here.ledger().length).toBeLessThanOrEqual(22)
  })

  it('hands back what does not end in time, which spends no attempt', async () => {
    const here = await place()
    const queue = here.queue()
    const type = queue.define('long', { ...anything, run: (job) => sleep(60_000, undefined, { signal: job.signal }) })
    const { job } = await type.enqueue(null)
    expect(await queue.runOnce({ budget: '1s' })).toEqual({ succeeded: 0, failed: 0, retrying: 1, canceled: 0, finished: false })
    expect(await job.refresh()).toMatchObject({ status: 'retrying', attempts: 0, lockedBy: null })
  })

  it('ends at once when nothing is due, and says so', async () => {
    const here = await place()
    const queue = here.queue()
    defineTypes(queue, { started() {} })
    expect(await queue.runOnce({ budget: '10m' })).toEqual({ succeeded: 0, failed: 0, retrying: 0, canceled: 0, finished: true })
  })

  it('is refused a budget that is none, before anything starts', async () => {
    const here = await place()
    const queue = here.queue()
    defineTypes(queue, { started() {} })
    await expect(queue.runOnce({ budget: 'soon' as never })).rejects.toMatchObject({ code: 'duration_invalid' })
    expect((await queue.stats()).workers).toEqual([])
  })
})

it('a function that works within a budget ends within it though the database has stopped to answer', async () => {
  const real = sqliteStore({ path: ':memory:' })
  const never = (): Promise<never> => new Promise(() => {})
  const store = changed(real, { settle: never, report: never, heartbeat: never, retire: never })
  const queue = jobtable('', { logger: recordingLog(), store })
  onTestFinished(() => queue.close())
  const type = queue.define('long', { ...anything, run: (job) => sleep(60_000, undefined, { signal: job.signal }) })
  await type.enqueue(null)
  const ends: string[] = []
  const budget = sleep(1_000).then(() => ends.push('the budget'))
  const run = queue.runOnce({ budget: '1s' }).then((result) => {
    ends.push('the run')
    return result
  })
  await Promise.all([budget, run])
  expect(ends).toEqual(['the run', 'the budget'])
  expect(await run).toMatchObject({ succeeded: 0, finished: false })
})
