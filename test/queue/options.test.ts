import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { jobtable, type Queue } from '../../src/queue.js'
import { sqliteStore } from '../../src/stores/sqlite/index.js'
import { modelStore } from '../../src/testing/index.js'
import { testQueue } from '../../src/testing/test-queue.js'
import type { JobContext } from '../../src/worker/context.js'

const payload = z.object({})
const idempotency = { none: 'every one is meant' }
const opened: Queue[] = []
const opening = <Q extends Queue>(queue: Q): Q => (opened.push(queue), queue)
let folder: string
beforeEach(() => void (folder = mkdtempSync(join(tmpdir(), 'jobtable-options-'))))
afterEach(async () => {
  await Promise.all(opened.splice(0).map((queue) => queue.close()))
  rmSync(folder, { recursive: true })
})

describe('the URL', () => {
  it('is not looked at where a store stands in its place', async () => {
    const queue = opening(jobtable('postgres://ann:secret@db/app', { store: modelStore() }))
    expect(queue.name).toBe('model')
    await queue.enqueue('mail', {})
    expect(await queue.count()).toBe(1)
  })
  it('with a store of another kind gives files no place, which whoever stores one is told', async () => {
    const queue = opening(jobtable('postgres://db/app', { store: modelStore() }))
    await expect(queue.files.delete('a')).rejects.toMatchObject({
      code: 'config_invalid',
      message: expect.stringContaining('give the queue the option files') as string,
    })
  })
  it('without files, keeps them beside the database of the store', async () => {
    const store = sqliteStore({ path: join(folder, 'app.db') })
    const queue = opening(jobtable('sqlite:elsewhere.db', { store }))
    queue.define('report', { payload, idempotency, run: (job) => job.file('a.txt', 'a') })
    await queue.enqueue('report', {})
    await queue.drain()
    expect(existsSync(join(folder, 'app.db.files'))).toBe(true)
  })
  it.each([
    ['sqlite://app.db', 'sqlite:app.db'],
    ['sqlite://data/app.db', 'sqlite:data/app.db'],
    ['sqlite://', 'sqlite:app.db'],
  ])('%s is refused, with what was meant', (url, meant) => {
    expect(() => jobtable(url)).toThrow(
      expect.objectContaining({
        code: 'config_invalid',
        message: expect.stringMatching(new RegExp(`write ${meant} .* or sqlite:///absolute/path`)) as string,
      }),
    )
  })
  it('takes an absolute path after three slashes or one', () => {
    expect(opening(jobtable('sqlite:///var/app.db')).name).toBe('sqlite:/var/app.db')
    expect(opening(jobtable('sqlite:/var/app.db')).name).toBe('sqlite:/var/app.db')
  })
})

describe('looking', () => {
  it('inspect says that there is no database, and makes none', async () => {
    const file = join(folder, 'app.db')
    const queue = opening(jobtable(`sqlite:${file}`))
    expect(await queue.inspect()).toEqual([
      { level: 'error', code: 'database_missing', message: expect.stringContaining(file) as string },
    ])
    expect(existsSync(file)).toBe(false)
  })
  it('why reads the job and the workers, not the whole table', async () => {
    const overview = (): never => expect.unreachable('the whole table was read')
    const queue = opening(jobtable('', { store: { ...sqliteStore({ path: ':memory:' }), overview } }))
    const { job } = await queue.enqueue('mail', {})
    expect(await queue.why(job.id)).toBe('It is due, but no worker is running.')
  })
})

describe('a worker', () => {
  it.each([[[]], [''], [[' ']]])('is refused the queues %j', async (queues) => {
    const queue = opening(testQueue())
    queue.define('mail', { payload, idempotency, run: () => {} })
    expect(() => queue.work({ queues: queues as string[] })).toThrow(expect.objectContaining({ code: 'config_invalid' }))
    await expect(queue.drain({ queues: queues as string[] })).rejects.toMatchObject({ code: 'config_invalid' })
  })
})

describe('a type', () => {
  it.each([
    { base: '1s', factor: 0 },
    { base: '1s', factor: -2 },
    { base: '1s', factor: Number.NaN },
    { base: '1s', factor: Infinity },
    { base: '1s', factor: '2' },
    { base: '0s' },
    { base: `${'9'.repeat(400)}s` },
  ])('is refused the backoff %j', (backoff) => {
    const retry = { backoff } as never
    expect(() => opening(testQueue()).define('mail', { payload, idempotency, retry })).toThrow(
      expect.objectContaining({ code: 'config_invalid', message: expect.stringContaining('mail: backoff.') as string }),
    )
  })
  it('may have a backoff that shrinks', () => {
    const retry = { backoff: { base: '1s', factor: 0.5 } } as const
    expect(opening(testQueue()).define('mail', { payload, idempotency, retry }).name).toBe('mail')
  })
})

describe('an enqueue', () => {
  it('made again with the same id and the same key is the duplicate that it is', async () => {
    const queue = opening(testQueue())
    const rule = { key: ['to'], onDuplicate: 'ignore_duplicate' } as const
    const type = queue.define('mail', { payload: z.object({ to: z.string() }), idempotency: rule })
    const first = await type.enqueue({ to: 'ann' }, { id: 'welcome-ann' })
    const again = await type.enqueue({ to: 'ann' }, { id: 'welcome-ann' })
    expect([again.duplicate, again.job.id]).toEqual([true, first.job.id])
    await expect(type.enqueue({ to: 'bob' }, { id: 'welcome-ann' })).rejects.toMatchObject({ code: 'duplicate_id' })
    await first.job.cancel()
    await expect(type.enqueue({ to: 'ann' }, { id: 'welcome-ann' })).rejects.toMatchObject({ code: 'duplicate_id' })
  })
})

describe('a handler', () => {
  async function run(handler: (job: JobContext<unknown>) => unknown) {
    const logged: unknown[] = []
    const info = (facts: object, message: string) => void logged.push([message, facts])
    const queue = opening(testQueue({ logger: { debug() {}, info, warn() {}, error() {} }, files: folder }))
    queue.define('work', { payload, idempotency, run: handler as () => void })
    const { job } = await queue.enqueue('work', {})
    await queue.drain()
    return { job: await job.refresh(), logged }
  }

  it('may take its job apart', async () => {
    const { job } = await run(async ({ progress, stage, log, file }) => {
      const { info } = log
      progress(0.5)
      await stage('half')
      info('there')
      return file('a.txt', 'a')
    })
    expect(job).toMatchObject({ status: 'succeeded', attempts: 1, progress: 0.5, stage: 'half' })
    expect((await job.events()).map(({ kind }) => kind)).toEqual(['stage', 'log', 'file'])
  })

  const about = { type: 'work', attempt: 1, jobId: expect.any(String) as string }
  it.each<[args: unknown[], message: string, facts: object, kept: object]>([
    [[{ to: 'ann' }, 'sent'], 'sent', { to: 'ann' }, { facts: { to: 'ann' } }],
    [['sent', { to: 'ann' }], 'sent', { to: 'ann' }, { facts: { to: 'ann' } }],
    [[{ to: 'ann' }], '', { to: 'ann' }, { facts: { to: 'ann' } }],
    [['sent', 3], 'sent', { value: 3 }, { facts: { value: 3 } }],
    [['sent', null], 'sent', {}, {}],
    [[7], '7', {}, {}],
    [[], '', {}, {}],
    [[{ a: 1 }, { b: 2 }], '{ b: 2 }', { a: 1 }, { facts: { a: 1 } }],
  ])('logs %j, in whatever order it comes', async (args, message, facts, kept) => {
    const { job, logged } = await run(({ log }) => (log.info as (...args: unknown[]) => void)(...args))
    expect(job).toMatchObject({ status: 'succeeded', attempts: 1 })
    expect(logged).toEqual([[message, { ...facts, ...about }]])
    const [event] = await job.events()
    expect(event).toMatchObject({ kind: 'log', message })
    expect(JSON.parse(event!.data!)).toEqual({ level: 'info', ...kept })
  })

  it('logs an error by its message, alone or after a text', async () => {
    const { job, logged } = await run(({ log }) => {
      const info = log.info as (...args: unknown[]) => void
      info(new Error('boom'))
      info('sending failed', new Error('boom'))
    })
    expect(logged).toMatchObject([
      ['boom', { err: { message: 'boom' } }],
      ['sending failed', { err: { message: 'boom' } }],
    ])
    expect((await job.events()).map(({ data }) => JSON.parse(data!) as unknown)).toMatchObject([
      { facts: { err: { message: 'boom' } } },
      { facts: { err: { message: 'boom' } } },
    ])
  })
})

it('the files of a database in memory go with it', async () => {
  const queue = testQueue()
  const type = queue.define('type', { payload, idempotency, run: (job) => job.file('a.txt', 'x') })
  const { job } = await type.enqueue({})
  await queue.drain()
  const file = await job.result()
  expect(await file.exists()).toBe(true)
  await queue.close()
  expect(await file.exists()).toBe(false)
})

describe('what TypeScript refuses and JavaScript does not', () => {
  it.each([{ locale: 'fr' }, { durability: 'ful' }, { driver: 'mysql' }])('%j is refused', (options) => {
    expect(() => jobtable('sqlite::memory:', options as never)).toThrow(
      expect.objectContaining({ code: 'config_invalid' }) as never,
    )
  })
  it('a URL that is no text, and a timeout of nothing, are refused', () => {
    expect(() => jobtable(5 as never)).toThrow(/must be a URL, such as sqlite:app\.db, or a pool of the package pg/)
    const queue = opening(testQueue())
    expect(() => queue.define('type', { payload, idempotency, timeout: '0s' })).toThrow(/'none' for no limit/)
  })
})
