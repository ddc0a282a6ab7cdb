import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { jobtable, type Queue } from '../../src/queue.js'
import type { QueueOptions } from '../../src/queue-options.js'
import { readBlocks } from '../docs/blocks.js'
import { freeSchema, quoted, type TestSchema } from '../support/postgres/database.js'

const idempotency = { none: 'every one is meant' }
let place: TestSchema
let folder: string
const opened: Queue[] = []

beforeEach(async () => {
  place = await freeSchema()
  folder = mkdtempSync(join(tmpdir(), 'jobtable-postgres-'))
})
afterEach(async () => {
  await Promise.all(opened.splice(0).map((queue) => queue.close()))
  await place.drop()
  rmSync(folder, { recursive: true })
})

function open(database: string | pg.Pool, options: QueueOptions = {}): Queue {
  const queue = jobtable(database, { schema: place.schema, ...options })
  opened.push(queue)
  return queue
}

describe('a file of a job', () => {
  async function store(options: QueueOptions) {
    const queue = open(place.url, options)
    const type = queue.define('report', { payload: z.object({}), idempotency, run: (job) => job.file('a.txt', 'hello') })
    const { job } = await type.enqueue({})
    await queue.drain()
    return job
  }

  it('has no place by default, and the failure names the option that gives it one', async () => {
    const job = await (await store({})).refresh()
    expect(job).toMatchObject({ status: 'failed', attempts: 1 })
    expect(job.history[0]).toMatchObject({ code: 'misconfigured', kind: 'permanent' })
    expect(job.lastError).toMatch(/^there is no place for files beside postgres:\/\/.*: give the queue the option files/)
  })

  it('goes into the folder that the option names', async () => {
    const job = await store({ files: folder })
    expect(String(await (await job.result()).bytes())).toBe('hello')
  })
})

describe('the database', () => {
  it('may be a pool of the product, which stays open when the queue is closed', async () => {
    const pool = new pg.Pool({ connectionString: place.url })
    const queue = open(pool)
    queue.define('mail', { payload: z.object({}), idempotency, run: () => 'sent' })
    const { job } = await queue.enqueue('mail', {})
    await queue.drain()
    expect(await job.result()).toBe('sent')
    await queue.close()
    expect((await pool.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }])
    await pool.end()
  })

  it.each([
    ['postgres://', 'postgres://'],
    ['postgresql://ann:secret@db.example.com:6432/app?sslmode=require', 'postgres://db.example.com:6432/app'],
    ['postgres://db/app?schema=jobs&sslmode=require', 'postgres://db/app?schema=jobs'],
    ['postgres://db/app?schema=public', 'postgres://db/app'],
  ])('%s is called %s', (url, name) => {
    expect(jobtable(url).name).toBe(name)
  })

  it.each(['postgres://ann:p@ss#word@db/app', 'postgres://ann:p#ss@db/app', 'postgres://ann:p/ss@db/app', 'postgres://[db/app'])(
    '%s is no URL, which is told without the password',
    (url) => {
      expect(() => jobtable(url)).toThrow(/is no valid URL: write postgres:\/\/user:password@host:5432\/database, with special/)
      expect(() => jobtable(url)).not.toThrow(/p[@#/]ss|#word/)
    },
  )

  it.each([{ durability: 'relaxed' }, { driver: 'node:sqlite' }] as const)('%j means nothing to it', (options) => {
    expect(() => jobtable('postgres://db/app', options)).toThrow(/means nothing to PostgreSQL: leave it out/)
  })

  it('alone has schemas', () => {
    expect(() => jobtable('sqlite:app.db', { schema: 'jobs' })).toThrow(/schema means nothing to SQLite: leave it out/)
  })
})

it('a role with the rights that the page gives to one that only enqueues can do so, also in a transaction of its own', async () => {
  const owner = open(place.url)
  const type = {
    payload: z.object({ to: z.string() }),
    idempotency: { key: ['to'], onDuplicate: 'return_previous_result' },
  } as const
  owner.define('mail', type)
  await owner.open()
  const role = `web_${process.pid}`
  const page = readBlocks('docs/postgres.md').find(({ code }) => code.includes('CREATE ROLE web'))!
  const grants = page.code.replaceAll(/\bweb\b/g, role).replaceAll(/\bjobtable(?=\.| TO )/g, quoted(place.schema))
  await place.query(`${grants} ALTER ROLE ${role} PASSWORD 'x'`)
  const pool = new pg.Pool({ connectionString: Object.assign(new URL(place.url), { username: role, password: 'x' }).href })
  try {
    const queue = open(pool)
    const mail = queue.define('mail', type)
    const { job } = await mail.enqueue({ to: 'ann' })
    expect((await mail.enqueue({ to: 'ann' })).job.id).toBe(job.id)
    await owner.cancel(job.id)
    expect((await mail.enqueue({ to: 'ann' })).duplicate).toBe(false)
    const client = await pool.connect()
    await client.query('BEGIN')
    await mail.enqueue({ to: 'bob' }, { tx: client })
    await client.query('COMMIT')
    client.release()
    expect(await queue.count({ status: ['pending'] })).toBe(2)
    await expect(queue.prune()).rejects.toMatchObject({ code: 'store_denied' })
  } finally {
    await pool.end()
    await place.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`)
  }
})
