import { describe, expect, it } from 'vitest'
import { TransientError, type JobContext } from '../../src/index.js'
import { DATABASES } from '../faults/support/databases.js'
import { defineJob } from './support.js'

describe.each(DATABASES)('job.step on $name', ({ place }) => {
  it('a step that is recorded is not run by a later attempt, which gets its value', async () => {
    const runs: string[] = []
    const values: unknown[] = []
    const { queue, enqueue, drain } = defineJob(await place(), async ({ step, attempt }) => {
      values.push(await step('make', () => (runs.push('make'), { made: 'ü🙂', at: [1, null] })))
      values.push(await step('nothing', () => void runs.push('nothing')))
      if (attempt === 1) throw new TransientError('once more')
      return 'done'
    })
    const job = await enqueue()
    await drain()
    expect((await job.refresh()).status).toBe('succeeded')
    expect(runs).toEqual(['make', 'nothing'])
    expect(values).toEqual([{ made: 'ü🙂', at: [1, null] }, undefined, { made: 'ü🙂', at: [1, null] }, undefined])
    expect(await queue.steps(job.id)).toMatchObject([
      { name: 'make', kind: 'step', state: 'done', attempt: 1, value: '{"made":"ü🙂","at":[1,null]}' },
      { name: 'nothing', kind: 'step', state: 'done', attempt: 1, value: null },
    ])
  })

  it('a step that threw is run again by the next attempt', async () => {
    let runs = 0
    const { enqueue, drain } = defineJob(await place(), ({ step }) =>
      step('flaky', () => {
        if (++runs < 3) throw new TransientError('not yet')
        return runs
      }),
    )
    const job = await enqueue()
    await drain()
    expect(await job.result()).toBe(3)
  })

  it('steps run beside each other, and each is recorded', async () => {
    const runs: number[] = []
    const { enqueue, drain } = defineJob(await place(), async ({ step, attempt }) => {
      const all = await Promise.all([1, 2, 3].map((n) => step(`part:${n}`, async () => (runs.push(n), n * n))))
      if (attempt === 1) throw new TransientError('once more')
      return all
    })
    const job = await enqueue()
    await drain()
    expect(await job.result()).toEqual([1, 4, 9])
    expect(runs).toEqual([1, 2, 3])
  })

  it('what is done is told by job.recorded, whatever its kind, and may be asked for afterwards', async () => {
    const told: unknown[] = []
    const { enqueue, drain } = defineJob(await place(), async ({ step, effect, recorded }) => {
      const look = async (): Promise<void> => void told.push(await recorded('made'), await recorded('sent'))
      await look()
      await step('made', () => 1)
      await effect('sent', { request: 1, onUnknown: 'hold', run: async () => (await look(), null) })
      await look()
    })
    const job = await enqueue()
    await drain()
    expect((await job.refresh()).status).toBe('succeeded')
    expect(told).toEqual([undefined, undefined, { value: 1 }, undefined, { value: 1 }, { value: null }])
  })

  it.each<[string, (job: JobContext<Record<string, unknown>>) => unknown, RegExp]>([
    ['a step without a function', ({ step }) => step('a', undefined as never), /job\.step\("a", fn\) needs a function/],
    ['a transaction without a function', ({ transaction }) => transaction('x', undefined as never), /"x", fn\) needs a function/],
    ['a transaction without anything', ({ transaction }) => transaction(undefined as never), /needs a function/],
    ['an effect without options', ({ effect }) => effect('e', undefined as never), /pass \{ request, run, onUnknown \}/],
    ['an effect without a request', ({ effect }) => effect('e', { onUnknown: 'hold', run: () => 1 } as never), /request must be/],
  ])('%s fails the job for good, and says what to pass', async (_, run, message) => {
    const { enqueue, drain } = defineJob(await place(), run)
    const job = await enqueue()
    await drain()
    expect(await job.refresh()).toMatchObject({
      status: 'failed',
      attempts: 1,
      lastError: expect.stringMatching(message) as string,
    })
  })

  it('one name twice in one attempt fails the job, with what to do', async () => {
    const { enqueue, drain } = defineJob(await place(), async ({ step }) => {
      await step('same', () => 1)
      await step('same', () => 2)
    })
    const job = await enqueue()
    await drain()
    expect(await job.refresh()).toMatchObject({
      status: 'failed',
      lastError: expect.stringMatching(/same was asked for twice.*same:1/),
    })
  })

  it('a value that is no JSON fails the job, and is not recorded', async () => {
    const { queue, enqueue, drain } = defineJob(await place(), ({ step }) => step('big', () => 1n as never))
    const job = await enqueue()
    await drain()
    expect(await job.refresh()).toMatchObject({ status: 'failed', history: [{ code: 'result_invalid' }] })
    expect(await queue.steps(job.id)).toEqual([])
  })

  it('a step of a stale holder is not recorded, and its handler is told that the claim is lost', async () => {
    const here = await place()
    const told: unknown[] = []
    let end!: () => void
    const ended = new Promise<void>((resolve) => (end = resolve))
    const { queue, enqueue, drain } = defineJob(here, async ({ step, id, attempt, signal }) => {
      if (attempt > 1) return 'by the next one'
      await here.sql(`UPDATE jobs SET claim_token = 'another' WHERE id = ?`, id)
      told.push(await step('late', () => 1).catch((error: unknown) => error), signal.reason)
      await here.sql(`UPDATE jobs SET claim_token = NULL, locked_by = NULL, status = 'retrying' WHERE id = ?`, id)
      end()
      return 'unheard'
    })
    const job = await enqueue()
    await drain()
    await ended // The worker does not wait for a handler whose claim it has lost.
    await drain()
    expect(told).toMatchObject([{ code: 'lease_lost' }, { reason: 'lease_lost' }])
    expect(await queue.steps(job.id)).toEqual([])
    expect(await job.result()).toBe('by the next one')
  })

  it('a step survives a repair, and goes with its job', async () => {
    const here = await place()
    let broken = true
    let runs = 0
    const { queue, clock } = here.clockQueue()
    const type = { payload: (await import('zod')).z.unknown(), idempotency: { none: 'a test' } } as const
    queue.define('work', {
      ...type,
      retry: { maxAttempts: 1 },
      run: async (job: JobContext<unknown>) => {
        await job.step('once', () => ++runs)
        if (broken) throw new Error('broken')
      },
    })
    const { job } = await queue.enqueue('work', null)
    await queue.drain({ lease: '36500d' })
    expect((await job.refresh()).status).toBe('failed')
    broken = false
    await queue.retry(job.id)
    await queue.drain({ lease: '36500d' })
    expect((await job.refresh()).status).toBe('succeeded')
    expect(runs).toBe(1)
    clock.advance('8d')
    expect(await queue.prune()).toBe(1)
    expect(await queue.steps(job.id)).toEqual([])
  })
})
