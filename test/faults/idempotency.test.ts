import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { PermanentError, TransientError, type JobFile, type OnDuplicate } from '../../src/index.js'
import type { TestQueue } from '../../src/testing/index.js'
import { startChildren } from './support/child.js'
import { DATABASES } from './support/databases.js'
import { defineTypes } from './support/types.js'

describe.each(DATABASES)('idempotency keys on $name', ({ place }) => {
  async function fresh(): Promise<TestQueue> {
    const here = await place()
    return here.testQueue({ files: here.folder })
  }

  describe('R035: a key that is used again after its job is over', () => {
    const payload = z.object({ id: z.string(), fail: z.boolean().optional() })
    const compare = { compare: 'key' } as const

    async function again(mode: OnDuplicate, end: 'succeeded' | 'failed' | 'canceled') {
      const queue = await fresh()
      const fail = end === 'failed'
      const run = (): string => {
        if (fail) throw new PermanentError('bad parameters')
        return 'R1'
      }
      const type =
        mode === 'return_existing_file'
          ? queue.define('make', {
              payload,
              idempotency: { key: ['id'], onDuplicate: 'return_existing_file', ...compare },
              run: async (job) => job.file('report.txt', run()),
            })
          : queue.define('make', { payload, idempotency: { key: ['id'], onDuplicate: mode, ...compare }, run })
      const first = await type.enqueue({ id: 'K' })
      if (end === 'canceled') await first.job.cancel()
      await queue.drain()
      expect((await first.job.refresh()).status).toBe(end)
      return { queue, first, second: await type.enqueue({ id: 'K' }), rows: await queue.count() }
    }

    it.each(['return_previous_result', 'return_existing_file', 'ignore_duplicate'] as const)(
      'is answered by the job that succeeded, as %s promises',
      async (mode) => {
        const { first, second, rows } = await again(mode, 'succeeded')
        expect([second.duplicate, second.job.id, rows]).toEqual([true, first.job.id, 1])
        const result: unknown = await second.job.result()
        if (mode === 'return_existing_file') expect(String(await (result as JobFile).bytes())).toBe('R1')
        else expect(result).toBe('R1')
      },
    )

    it.each([
      ['return_previous_result', 'failed'],
      ['return_previous_result', 'canceled'],
      ['return_existing_file', 'failed'],
      ['return_existing_file', 'canceled'],
      ['ignore_duplicate', 'canceled'],
    ] as const)('makes a new job under %s after it %s', async (mode, end) => {
      const { first, second, rows } = await again(mode, end)
      expect([second.duplicate, second.job.id === first.job.id, rows]).toEqual([false, false, 2])
      expect((await first.job.refresh()).supersededBy).toBe(second.job.id)
    })

    it('is held by a failed job under ignore_duplicate, and the answer says so', async () => {
      const { first, second, rows } = await again('ignore_duplicate', 'failed')
      expect([second.duplicate, second.job.id, second.job.status, rows]).toEqual([true, first.job.id, 'failed', 1])
    })
  })

  it('R037: keys and types whose parts could run together make jobs of their own', async () => {
    const queue = await fresh()
    const define = (name: string) =>
      queue.define(name, {
        payload: z.object({ parts: z.array(z.string()) }),
        idempotency: { key: ({ parts }) => parts, onDuplicate: 'return_previous_result' },
      })
    const [a, ab] = [define('a'), define('a:b')]
    const answers = [
      await ab.enqueue({ parts: ['c'] }),
      await a.enqueue({ parts: ['b:c'] }),
      await a.enqueue({ parts: ['a|b', 'c'] }),
      await a.enqueue({ parts: ['a', 'b|c'] }),
      await a.enqueue({ parts: ['K'] }),
      await a.enqueue({ parts: ['k'] }),
      await a.enqueue({ parts: ['M'] }),
      await a.enqueue({ parts: ['M '] }),
      await a.enqueue({ parts: ['["x","y"]'] }),
      await a.enqueue({ parts: ['x', 'y'] }),
    ]
    expect(answers.map(({ duplicate }) => duplicate)).toEqual(Array(10).fill(false))
    expect(new Set(answers.map(({ job }) => job.id)).size).toBe(10)
  })

  it('R039: a key belongs to its type, and no answer comes from another', async () => {
    const queue = await fresh()
    const define = (name: string) =>
      queue.define(name, {
        payload: z.object({ id: z.string(), tenant: z.string() }),
        idempotency: { key: ['tenant', 'id'], onDuplicate: 'return_previous_result' },
        run: (job) => `${name} of ${job.payload.tenant}`,
      })
    const [x, y] = [define('x'), define('y')]
    const jobs = [
      await x.enqueue({ id: 'K1', tenant: 't1' }),
      await y.enqueue({ id: 'K1', tenant: 't1' }),
      await x.enqueue({ id: 'K1', tenant: 't2' }),
    ]
    await queue.drain()
    expect(jobs.map(({ duplicate }) => duplicate)).toEqual([false, false, false])
    expect(await Promise.all(jobs.map(({ job }) => job.result()))).toEqual(['x of t1', 'y of t1', 'x of t2'])
    // The same key in another queue of the same type is the same piece of work.
    expect(await x.enqueue({ id: 'K1', tenant: 't1' }, { queue: 'elsewhere' })).toMatchObject({
      duplicate: true,
      job: { id: jobs[0]!.job.id },
    })
  })

  it('R041: a job that waits for its retry holds its key, and holds up nothing else', async () => {
    const queue = await fresh()
    let runs = 0
    const flaky = queue.define('flaky', {
      payload: z.object({ id: z.string() }),
      idempotency: { key: ['id'], onDuplicate: 'return_previous_result' },
      retry: { backoff: { base: '2s' }, jitter: false },
      run: () => {
        if (++runs === 1) throw new TransientError('once')
        return 'R1'
      },
    })
    const other = queue.define('other', { payload: z.null(), idempotency: { none: 'unrelated' }, run: () => 'done' })
    const { job } = await flaky.enqueue({ id: 'K1' })
    const unrelated = await other.enqueueMany(Array<null>(5).fill(null), { delay: '2s' })
    await queue.drain()
    expect((await job.refresh()).status).toBe('retrying')
    queue.clock.advance('500ms')
    expect(await flaky.enqueue({ id: 'K1' })).toMatchObject({ duplicate: true, job: { id: job.id, status: 'retrying' } })
    queue.clock.advance('1500ms')
    await queue.drain()
    const ended = await Promise.all(unrelated.map(async (answer) => answer.job.refresh()))
    expect(ended.map(({ status, finishedAt, runAfter }) => [status, finishedAt!.getTime() - runAfter.getTime()])).toEqual(
      ended.map(() => ['succeeded', 0]),
    )
    expect(await job.result()).toBe('R1')
    expect(await queue.count({ type: ['flaky'] })).toBe(1)
  })

  it('R043: many at once follow the same rule as one by one, whatever the batch repeats', async () => {
    const queue = await fresh()
    let fail = true
    const type = queue.define('each', {
      payload: z.object({ id: z.string(), n: z.number().optional() }),
      idempotency: { key: ['id'], onDuplicate: 'return_previous_result' },
      run: () => {
        if (fail) throw new PermanentError('the first time')
      },
    })
    const told = (answers: { job: { id: string }; duplicate: boolean }[]) =>
      answers.map(({ job, duplicate }) => [job.id, duplicate])
    const ids = (names: string[]) => names.map((id) => ({ id }))

    const [a, a2, b] = told(await type.enqueueMany(ids(['a', 'a', 'b'])))
    expect([a![1], a2, b![1]]).toEqual([false, [a![0], true], false])
    expect(await queue.count()).toBe(2)

    const [b2, c, c2] = told(await type.enqueueMany(ids(['b', 'c', 'c'])))
    expect([b2, c![1], c2]).toEqual([[b![0], true], false, [c![0], true]])
    expect(await queue.count()).toBe(3)

    // All three have failed: the first of each key takes over from its holder, and the second is its duplicate.
    await queue.drain()
    fail = false
    const [a3, a4, b3] = told(await type.enqueueMany(ids(['a', 'a', 'b'])))
    expect([a3![1], a4, b3![1]]).toEqual([false, [a3![0], true], false])
    expect(a3![0]).not.toBe(a![0])

    // A batch with another payload under a key is refused by name, and what it holds besides is stored.
    await expect(type.enqueueMany([{ id: 'd' }, { id: 'd', n: 2 }])).rejects.toMatchObject({
      code: 'idempotency_conflict',
      data: { fields: ['n'] },
    })
    expect(await queue.count({ idempotencyKey: '["d"]' })).toBe(1)
  })

  it('R043: a thousand enqueues of one key in flight at once make one row, and every caller gets its id', async () => {
    const queue = await fresh()
    const type = defineTypes(queue).keyed
    const answers = await Promise.all(Array.from({ length: 1_000 }, () => type.enqueue({ key: 1 })))
    expect(new Set(answers.map(({ job }) => job.id)).size).toBe(1)
    expect(answers.filter(({ duplicate }) => !duplicate)).toHaveLength(1)
    expect(await queue.count()).toBe(1)
  })

  it(
    'eight processes that enqueue a thousand jobs each of the same 100 keys make 100 rows and get the right answers',
    { timeout: 120_000 },
    async () => {
      const here = await place()
      const queue = here.queue()
      await queue.open()
      const children = await startChildren(here, 8)
      const answers = (
        await Promise.all(children.map((child) => child.order({ do: 'enqueue_keys', count: 1_000, keys: 100, inFlight: 20 })))
      ).flat()
      expect(answers).toHaveLength(8_000)
      const rows = (await here.sql(`SELECT idempotency_key, id FROM jobs`)) as [string, string][]
      expect(rows).toHaveLength(100)
      const holder = new Map(rows)
      expect(answers.filter(({ key, id }) => holder.get(`[${key}]`) !== id)).toEqual([])
      const fresh = answers.filter(({ duplicate }) => !duplicate)
      expect(fresh.map(({ key }) => key).sort((a, b) => a - b)).toEqual(Array.from({ length: 100 }, (_, key) => key))
      expect(children.flatMap((child) => child.errors)).toEqual([])
    },
  )
})
