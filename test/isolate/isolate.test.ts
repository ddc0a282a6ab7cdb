import { createHash } from 'node:crypto'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import type * as Jobtable from '../../src/index.js'
import type * as SqliteStores from '../../src/stores/sqlite/index.js'
import type { Isolation, JobFile, JobTypeOptions, Queue } from '../../src/index.js'
import type { Store } from '../../src/store.js'
import type { Settlement } from '../../src/transition.js'
import { changed, recordingLog, until, untilStatus, type Log } from '../faults/support/place.js'

// As it is built: what runs in the other process or thread is a file of the package.
const built = new URL('../../dist/index.js', import.meta.url).href
const { jobtable } = (await import(built)) as typeof Jobtable
const { sqliteStore } = (await import(new URL('./stores/sqlite/index.js', built).href)) as typeof SqliteStores

const handler = (name: string): URL => new URL(`handlers/${name}.mjs`, import.meta.url)
const payload = z.object({ act: z.string(), value: z.unknown().optional() })
type Payload = z.infer<typeof payload>
type Options = Partial<JobTypeOptions<typeof payload, { none: string }, unknown, string>>

function folder(): string {
  const made = mkdtempSync(join(tmpdir(), 'jobtable-isolate-'))
  onTestFinished(() => rmSync(made, { recursive: true, force: true, maxRetries: 5 }))
  return made
}

function setUp(isolate: Options['isolate'], options: Options = {}, store?: Store) {
  const logger: Log = recordingLog()
  const queue: Queue = jobtable(`sqlite:${join(folder(), 'app.db')}`, { logger, durability: 'relaxed', ...(store && { store }) })
  onTestFinished(() => queue.close())
  const type = queue.define('acts', {
    payload,
    idempotency: { none: 'each one is another act of the test' },
    retry: { maxAttempts: 1 },
    stages: ['drawing', 'done'],
    ...options,
    isolate: isolate!,
    run: options.run ?? handler('acts'),
  })
  const worker = queue.work({ concurrency: 5, pollInterval: '100ms' })
  const run = async (act: string, value?: Payload['value']) => (await type.enqueue({ act, value })).job
  return { queue, type, worker, run, logger }
}

interface Where {
  pid: number
  thread: number
  main: boolean
}

describe.each<Isolation>(['thread', 'process'])('a handler in a %s of its own', { timeout: 60_000 }, (isolate) => {
  it('runs there, one job after another in the same one', async () => {
    const { run } = setUp(isolate)
    const first = (await (await run('where')).result()) as Where
    expect(first.main).toBe(isolate === 'process')
    expect(first.pid === process.pid).toBe(isolate === 'thread')
    expect(await (await run('where')).result()).toEqual(first)
  })

  it('its steps are remembered, and not run again', async () => {
    const { run } = setUp(isolate, { retry: { maxAttempts: 3, backoff: () => 0 } })
    const job = await run('steps')
    const { first, again, none } = (await job.result()) as { first: number; again: number; none: boolean }
    expect([first === process.pid, again, none]).toEqual([isolate === 'thread', 1, true])
    expect((await job.refresh()).attempts).toBe(2)
    const same = await run('twice')
    await expect(same.result()).rejects.toMatchObject({ message: expect.stringContaining('asked for twice') as string })
  })

  it('its effects are begun in the table before they are called, and held when nobody knows', async () => {
    const { queue, run } = setUp(isolate)
    const job = await run('effect', { amount: 5 })
    const { body, key } = (await job.result()) as { body: object; key: string }
    expect(await queue.steps(job.id)).toMatchObject([{ state: 'done', request: JSON.stringify(body), key }])
    const broken = await run('effect', 'break')
    await expect(broken.result()).rejects.toMatchObject({ code: 'job_failed' })
    expect((await broken.refresh()).held).toBe(true)
    expect(await queue.steps(broken.id)).toMatchObject([{ state: 'started' }])
  })

  it('a transaction is refused, with what to use', async () => {
    const { run } = setUp(isolate)
    const job = await run('transaction')
    await expect(job.result()).rejects.toMatchObject({
      message: expect.stringContaining('use job.step and job.effect') as string,
    })
  })

  it('is given its job, and gives back its result', async () => {
    const { run } = setUp(isolate)
    const job = await run('echo', { deep: [1, 'two', null] })
    expect(await job.result()).toEqual({
      value: { deep: [1, 'two', null] },
      facts: {
        id: job.id,
        type: 'acts',
        queue: 'default',
        attempt: 1,
        maxAttempts: 1,
        idempotencyKey: null,
        traceContext: null,
        createdAt: job.createdAt.toISOString(),
      },
    })
    expect(await (await run('nothing')).result()).toBeUndefined()
  })

  it('reports stages, progress and log lines as any other', async () => {
    const { run, logger } = setUp(isolate)
    const job = await run('report')
    expect(await job.result()).toBe('reported')
    expect(await job.refresh()).toMatchObject({ stage: 'done', progress: 0.5 })
    const events = await job.events()
    expect(events.map(({ kind, message }) => [kind, message])).toEqual([
      ['stage', 'drawing'],
      ['log', 'half of it'],
      ['stage', 'done'],
    ])
    expect(logger.lines).toContainEqual(expect.objectContaining({ level: 'info', message: 'half of it' }))
  })

  it('writes streams as any other, in order, and an error of a write fails its job, awaited or not', async () => {
    const { queue, run } = setUp(isolate)
    const job = await run('stream', 500)
    const text = Array.from({ length: 500 }, (_, i) => `${i} `).join('')
    expect(await job.result()).toBe(text.length)
    expect(await queue.readStream(job.id, 'text')).toEqual({ attempt: 1, offset: 0, text, done: true })
    expect(await queue.readStream(job.id, 'notes')).toMatchObject({ text: 'not awaited', done: true })
    const long = await run('longStream')
    await expect(long.result()).rejects.toMatchObject({ code: 'job_failed' })
    expect(await long.refresh()).toMatchObject({ history: [{ code: 'too_large' }] })
    const bad = await run('badStream')
    await expect(bad.result()).rejects.toMatchObject({ message: expect.stringContaining('is no name of a stream') as string })
  })

  it('stores files, small and large ones, piece by piece', async () => {
    const { run } = setUp(isolate)
    const small = (await (await run('file')).result()) as JobFile
    expect([small.name, small.contentType, String(await small.bytes())]).toEqual(['out.txt', 'text/plain', 'hello file'])
    const large = (await (await run('bigFile', 100)).result()) as JobFile
    const hash = createHash('sha256')
    for (let i = 0; i < 100; i++) hash.update(Buffer.alloc(65_536, i))
    expect([large.size, large.sha256]).toEqual([6_553_600, hash.digest('hex')])
  })

  it.each([
    ['bigFile', 'succeeded'],
    ['brokenFile', 'failed'],
    ['brokenAtOnce', 'failed'],
  ] as const)('waits with its file until a slow database has noted it: %s', async (act, status) => {
    const store = sqliteStore({ path: join(folder(), 'app.db') })
    const report: Store['report'] = async (reports) => {
      await sleep(50)
      return store.report(reports)
    }
    const { run, queue } = setUp(isolate, {}, changed(store, { report }))
    const job = await untilStatus(queue, (await run(act, 3)).id, 'succeeded', 'failed')
    expect(job.status).toBe(status)
    if (status === 'failed') expect(job.history).toMatchObject([{ kind: 'permanent', code: 'not_found' }])
  })

  it.each([
    ['badName', 'config_invalid'],
    ['unknownStage', 'misconfigured'],
    ['brokenFile', 'not_found'],
    ['circular', 'result_invalid'],
  ])('fails as any other when a verb or its result is wrong: %s', async (act, code) => {
    const { run, queue } = setUp(isolate)
    const job = await untilStatus(queue, (await run(act)).id, 'failed')
    expect(job.history).toMatchObject([{ kind: 'permanent', code: code === 'config_invalid' ? 'misconfigured' : code }])
  })

  it.each<[object, string, string]>([
    [{ status: 429 }, 'rate_limited', 'rate_limited'],
    [{ status: 404 }, 'permanent', 'not_found'],
    [{ code: 'ECONNREFUSED' }, 'transient', 'connection_refused'],
    [
      { name: 'PermanentError', blame: 'user', code: 'too_many_pages', userMessage: 'Too many pages.' },
      'permanent',
      'too_many_pages',
    ],
    [{ name: 'RetryAfter', delayMs: 60_000 }, 'rate_limited', 'retry_after'],
  ])('throws errors that are told apart as any other: %j', async (fields, kind, code) => {
    const { run, queue } = setUp(isolate, { retry: { maxAttempts: 5 } })
    const { id } = await run('throw', fields)
    const job = await until('it has thrown', async () => {
      const found = (await queue.get(id))!
      return found.history.length > 0 ? found : undefined
    })
    expect(job.history).toMatchObject([{ kind, code, message: 'it went wrong' }])
    if ('userMessage' in fields) expect(job.userMessage).toBe('Too many pages.')
  })

  it("is asked for by the type's own classify, which sees the error's fields", async () => {
    const seen: unknown[] = []
    const { run, queue } = setUp(isolate, {
      classify: (error) => {
        seen.push({ ...(error as object) })
        return { kind: 'permanent', code: 'own_word', blame: 'provider' }
      },
    })
    const job = await untilStatus(queue, (await run('throw', { status: 503, hint: 'later' })).id, 'failed')
    expect(job.history).toMatchObject([{ kind: 'permanent', code: 'own_word' }])
    expect(seen).toMatchObject([{ status: 503, hint: 'later' }])
  })

  it('tells the cause of its error', async () => {
    const { run, queue } = setUp(isolate)
    const job = await untilStatus(queue, (await run('throwCause')).id, 'failed')
    expect(job.history[0]).toMatchObject({ code: 'connection_refused', message: 'outside (caused by: inside)' })
  })

  it('is killed at its timeout when it never lets go, and the next job runs', async () => {
    const { run, queue } = setUp(isolate, { timeout: '300ms' })
    const stuck = await run('loop')
    expect((await untilStatus(queue, stuck.id, 'failed')).history).toMatchObject([{ code: 'timeout' }])
    expect(await (await run('nothing')).result()).toBeUndefined()
  })

  it.each(['loop', 'ignore', 'obey'])('is ended when its job is canceled: %s', async (act) => {
    const { run, queue } = setUp(isolate)
    const job = await run(act)
    await untilStatus(queue, job.id, 'running')
    await job.cancel()
    expect((await untilStatus(queue, job.id, 'canceled')).attempts).toBe(1)
  })

  it('takes down nothing else when it crashes, and its job runs again', async () => {
    const { run, queue, type } = setUp(isolate, { retry: { maxAttempts: 2, backoff: { base: '50ms' }, jitter: false } })
    const beside = await type.enqueue({ act: 'obey' })
    const crashing = await run('exit')
    const job = await untilStatus(queue, crashing.id, 'failed')
    expect(job.history).toMatchObject([
      { kind: 'unknown_outcome', code: 'worker_lost', message: expect.stringContaining('code 7') as string },
      { kind: 'unknown_outcome', code: 'worker_lost' },
    ])
    expect(await beside.job.refresh()).toMatchObject({ status: 'running' })
    await beside.job.cancel()
  })

  it('takes no more memory than it may', async () => {
    const { run, queue } = setUp({ in: isolate, memoryMb: 48 })
    const job = await untilStatus(queue, (await run('memory')).id, 'failed')
    const message = expect.stringMatching(/limit of memory, memoryMb: 48|reaching memory limit/) as string
    expect(job.history).toMatchObject([{ code: 'worker_lost', message }])
  })

  it('leaves nothing to the job after it', async () => {
    const { run } = setUp(isolate)
    await (await run('leaves')).result()
    const next = await run('quiet')
    await next.result()
    expect(await next.refresh()).toMatchObject({ stage: null, progress: null })
    expect(await next.events()).toEqual([])
  })

  it('is not started with what cannot be sent to it, and the job fails at once', async () => {
    const unsendable = z.object({ act: z.string(), value: z.unknown().transform(() => () => 'a function') })
    const { run, queue } = setUp(isolate, { payload: unsendable as never, retry: { maxAttempts: 5 } })
    const job = await untilStatus(queue, (await run('nothing', 'something')).id, 'failed')
    expect(job.history).toMatchObject([{ kind: 'permanent', code: 'payload_invalid' }])
  })

  it('hands its job back when the worker stops, and is ended', async () => {
    const { run, queue, worker } = setUp(isolate)
    const job = await run('loop')
    await untilStatus(queue, job.id, 'running')
    await worker.stop({ timeout: '100ms' })
    expect(await job.refresh()).toMatchObject({ status: 'retrying', attempts: 0 })
  })

  it('has ended before its job is handed back, and before another may run it', async () => {
    const file = join(folder(), 'alive')
    const store = sqliteStore({ path: ':memory:' })
    const ending: Settlement[] = []
    const settle: Store['settle'] = async (settlements) => {
      ending.push(...settlements.map(({ settlement }) => settlement))
      rmSync(file)
      return store.settle(settlements)
    }
    const { run, worker } = setUp(isolate, {}, changed(store, { settle }))
    await run('writes', file)
    await until('it runs', () => existsSync(file))
    await worker.stop({ timeout: '0s' })
    expect(ending).toMatchObject([{ status: 'retrying', attempts: 0 }])
    expect(existsSync(file)).toBe(false)
  })

  it('has ended when its attempt is given up because its claim is lost', async () => {
    const file = join(folder(), 'alive')
    const store = sqliteStore({ path: ':memory:' })
    let stolen = false
    const report: Store['report'] = async (reports) => (stolen ? reports.map(() => 'lost') : store.report(reports))
    const { run, worker } = setUp(isolate, {}, changed(store, { report }))
    const lost = new Promise<void>((resolve) => worker.on('lease_lost', () => resolve()))
    stolen = true
    await run('saysAndWrites', file)
    await lost
    rmSync(file)
    await worker.stop({ timeout: '0s' })
    expect(existsSync(file)).toBe(false)
  })

  it.each(['no-default', 'broken', 'missing'])('whose module cannot be used fails at once, and says why: %s', async (name) => {
    const { run, queue } = setUp(isolate, { run: handler(name), retry: { maxAttempts: 5 } })
    const job = await untilStatus(queue, (await run('nothing')).id, 'failed')
    expect(job.history).toMatchObject([{ kind: 'permanent', code: 'misconfigured' }])
    expect(job.lastError).toContain(`${name}.mjs`)
  })
})

it('processes that come and go leave no listeners behind', { timeout: 60_000 }, async () => {
  const { run, queue } = setUp('process')
  const listeners = (): number => process.listenerCount('exit')
  await untilStatus(queue, (await run('exit')).id, 'failed')
  const before = listeners()
  for (let i = 0; i < 3; i++) await untilStatus(queue, (await run('exit')).id, 'failed')
  expect(listeners()).toBe(before)
})

describe('an isolated type that is defined wrongly', () => {
  const define = (options: object) => () =>
    jobtable(':memory:').define('wrong', { payload, idempotency: { none: 'a test' }, ...options })

  it.each<[string, object]>([
    ['a function', { isolate: 'process', run: () => null }],
    ['an unknown place', { isolate: 'elsewhere', run: handler('acts') }],
    ['too little memory', { isolate: { in: 'thread', memoryMb: 1 }, run: handler('acts') }],
    ['a module without isolation', { run: handler('acts') }],
  ])('is refused: %s', (_, options) => {
    expect(define(options)).toThrow(expect.objectContaining({ code: 'config_invalid' }) as Error)
  })
})
