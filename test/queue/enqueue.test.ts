import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { jobtable } from '../../src/index.js'
import { sqliteStore } from '../../src/stores/sqlite/index.js'
import { testQueue, type TestQueue } from '../../src/testing/test-queue.js'

let queue: TestQueue
beforeEach(() => {
  queue = testQueue()
})
afterEach(() => queue.close())

const anyTime = { none: 'every one is meant' }
const defineMail = (ran: unknown[] = []) =>
  queue.define('mail', {
    payload: z.object({ to: z.string(), copies: z.int().default(1) }),
    idempotency: anyTime,
    run: (job) => {
      ran.push(job.payload)
    },
  })

describe('an enqueued job', () => {
  it('is there when the promise resolves, pending and due now', async () => {
    const { job, duplicate } = await defineMail().enqueue({ to: 'a' })
    expect(duplicate).toBe(false)
    expect((await queue.get(job.id))?.toJSON()).toMatchObject({
      type: 'mail',
      queue: 'default',
      status: 'pending',
      attempts: 0,
      maxAttempts: 5,
      priority: 0,
      payload: { to: 'a' },
      createdAt: queue.clock.now(),
      runAfter: queue.clock.now(),
    })
  })
  it("keeps its input in the table, and gives the schema's output to the handler", async () => {
    const ran: unknown[] = []
    await defineMail(ran).enqueue({ to: 'a' })
    await queue.drain()
    expect(ran).toEqual([{ to: 'a', copies: 1 }])
  })
  it('waits for its delay, or for its moment', async () => {
    const ran: unknown[] = []
    const mail = defineMail(ran)
    await mail.enqueue({ to: 'later' }, { delay: '90s' })
    await mail.enqueue({ to: 'at' }, { runAfter: new Date(queue.clock.now() + 60_000) })
    await mail.enqueue({ to: 'past' }, { runAfter: new Date(0) })
    await queue.drain()
    expect(ran).toEqual([{ to: 'past', copies: 1 }])
    await queue.runFor('60s')
    expect(ran).toHaveLength(2)
    await queue.runFor('30s')
    expect(ran.at(-1)).toEqual({ to: 'later', copies: 1 })
  })
  it('runs in the order of priority, then of time, then of enqueue', async () => {
    const ran: { to: string }[] = []
    const mail = defineMail(ran)
    await mail.enqueueMany([{ to: 'b1' }, { to: 'a1' }, { to: 'b2' }, { to: 'a2' }], ({ to }) => ({
      priority: to.startsWith('a') ? -5 : 5,
    }))
    await mail.enqueue({ to: 'middle' })
    await queue.drain({ concurrency: 1, prefetch: 0 })
    expect(ran.map(({ to }) => to)).toEqual(['a1', 'a2', 'middle', 'b1', 'b2'])
  })
  it('has the id that it was given, which is a handle and no key: a taken one is refused', async () => {
    const mail = defineMail()
    const { job } = await mail.enqueue({ to: 'a' }, { id: 'order-7' })
    expect(job.id).toBe('order-7')
    await expect(mail.enqueue({ to: 'a' }, { id: 'order-7' })).rejects.toMatchObject({
      code: 'duplicate_id',
      data: { id: 'order-7' },
    })
    expect(await queue.count()).toBe(1)
  })
  it("carries the producer's trace to the handler", async () => {
    let seen: string | null = null
    const traced = queue.define('traced', {
      payload: z.object({}),
      idempotency: anyTime,
      run: (job) => void (seen = job.traceContext),
    })
    await traced.enqueue({}, { traceContext: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' })
    await queue.drain()
    expect(seen).toBe('00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01')
  })
})

describe('a payload that is refused', () => {
  it('names the path of the offending value, and stores nothing', async () => {
    const mail = defineMail()
    await expect(mail.enqueue({ to: 5 } as never)).rejects.toMatchObject({
      code: 'payload_invalid',
      message: expect.stringContaining('$.to'),
    })
    await expect(mail.enqueueMany([{ to: 'a' }, { to: 'b', when: () => 1 } as never])).rejects.toMatchObject({
      data: { path: '$.when' },
    })
    expect(await queue.count()).toBe(0)
  })
  it('is checked in the form that the handler will see: a Date arrives as text, so a schema that wants a Date says no at once', async () => {
    // The compiler says no too, in `define`; JavaScript has only this.
    const dated = queue.define('dated', {
      payload: z.object({ at: z.date() }) as unknown as z.ZodType<{ at: string }, { at: string }>,
      idempotency: anyTime,
    })
    await expect(dated.enqueue({ at: new Date() as unknown as string })).rejects.toMatchObject({ code: 'payload_invalid' })
  })
  it('may come from an asynchronous schema', async () => {
    const schema = z.object({ n: z.number() }).refine(async ({ n }) => n > 0, 'must be positive')
    const strict = queue.define('strict', { payload: schema, idempotency: { key: ['n'], onDuplicate: 'ignore_duplicate' } })
    await expect(strict.enqueue({ n: -1 })).rejects.toThrow('must be positive')
    expect((await strict.enqueue({ n: 1 })).job.idempotencyKey).toBe('[1]')
  })
})

describe('enqueueing by name', () => {
  it('needs no handler and no definition here', async () => {
    const { job } = await queue.enqueue('made_elsewhere', { any: 'thing' }, { priority: 3, queue: 'slow', maxAttempts: 1 })
    expect(job.toJSON()).toMatchObject({ type: 'made_elsewhere', queue: 'slow', priority: 3, maxAttempts: 1 })
    expect((await queue.enqueue('made_elsewhere', {})).job.maxAttempts).toBeNull()
  })
  it('follows the contract of a type that is defined here', async () => {
    defineMail()
    await expect(queue.enqueue('mail', { to: 5 })).rejects.toMatchObject({ code: 'payload_invalid' })
    await expect(
      queue.enqueue('mail', { to: 'a' }, { idempotency: { key: ['x'], onDuplicate: 'ignore_duplicate' } }),
    ).rejects.toMatchObject({
      code: 'config_invalid',
    })
  })
  it('takes the key with it where the contract is elsewhere', async () => {
    const options = { idempotency: { key: ['u1', 7], onDuplicate: 'return_previous_result' } } as const
    const first = await queue.enqueue('made_elsewhere', { a: 1 }, options)
    const second = await queue.enqueue('made_elsewhere', { a: 1 }, options)
    expect([second.duplicate, second.job.id]).toEqual([true, first.job.id])
    await expect(queue.enqueue('made_elsewhere', { a: 2 }, options)).rejects.toMatchObject({
      code: 'idempotency_conflict',
      data: { fields: ['a'] },
    })
  })
})

describe('options that make no sense are refused with what would help', () => {
  it.each([
    [{ delay: '5' }, 'duration_invalid'],
    [{ delay: 5 }, 'duration_invalid'],
    [{ delay: '5s', runAfter: new Date() }, 'config_invalid'],
    [{ runAfter: new Date('x') }, 'config_invalid'],
    [{ priority: 101 }, 'config_invalid'],
    [{ priority: 0.5 }, 'config_invalid'],
    [{ queue: '' }, 'config_invalid'],
    [{ id: 'a b' }, 'config_invalid'],
    [{ id: '..' }, 'config_invalid'],
    [{ maxAttempts: 0 }, 'config_invalid'],
  ])('%j', async (options, code) => {
    await expect(defineMail().enqueue({ to: 'a' }, options as never)).rejects.toMatchObject({ code })
  })
  it('a type defined twice, without idempotency, without schema, or under no name', () => {
    defineMail()
    expect(() => defineMail()).toThrow(expect.objectContaining({ code: 'type_defined_twice' }))
    expect(() => queue.define('x', { payload: z.object({}) } as never)).toThrow(/say idempotency/)
    expect(() => queue.define('x', { idempotency: anyTime } as never)).toThrow(/Standard Schema/)
    expect(() => queue.define('', { payload: z.object({}), idempotency: anyTime })).toThrow(/no type name/)
  })
  it('a second handler, and a worker without any', () => {
    const mail = defineMail()
    expect(() => mail.handle(() => {})).toThrow(expect.objectContaining({ code: 'type_defined_twice' }))
    expect(() => testQueue().work()).toThrow(/no job type has a handler/)
  })
  it('an unknown database, without showing its password', () => {
    expect(() => jobtable('mysql://root:pw42@db/x')).toThrow(expect.objectContaining({ code: 'config_invalid' }))
    expect(() => jobtable('mysql://root:pw42@db/x')).not.toThrow(/pw42/)
  })
})

describe('enqueues in flight at the same time', () => {
  it('share a commit, and each is answered with its own job', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'jobtable-'))
    const store = sqliteStore({ path: join(folder, 'a.db') })
    const commits: number[] = []
    const insert = store.insert.bind(store)
    store.insert = (jobs) => {
      commits.push(jobs.length)
      return insert(jobs)
    }
    const shared = jobtable('sqlite::memory:', { store })
    const answers = await Promise.all(Array.from({ length: 50 }, (_, i) => shared.enqueue('t', { i })))
    expect(answers.map(({ job }) => job.payload)).toEqual(Array.from({ length: 50 }, (_, i) => ({ i })))
    expect(commits.length).toBeLessThanOrEqual(2)
    await shared.close()
    await rm(folder, { recursive: true })
  })
  it('are answered when the queue is closed, and later ones are refused', async () => {
    const last = queue.enqueue('t', {})
    const closing = queue.close()
    expect((await last).job.id).toBeTruthy()
    await closing
    await expect(queue.enqueue('t', {})).rejects.toMatchObject({ code: 'queue_closed' })
    expect(() => queue.work()).toThrow(expect.objectContaining({ code: 'queue_closed' }))
  })
})
