import pg from 'pg'
import { describe, expect, it, onTestFinished } from 'vitest'
import { emptyDatabase } from '../../support/postgres/database.js'
import { query } from '../../support/postgres/server.js'
import { startChild, startChildren } from '../support/child.js'
import { folder, Ledger, until } from '../support/place.js'
import { anything, defineTypes } from '../support/types.js'
import { queueOn, working } from './support.js'

/** A connection of the product's own, which ends with the test. */
async function connected(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  onTestFinished(() => client.end())
  return client
}

describe('an enqueue whose key is in the hands of a transaction', () => {
  it.each(['ROLLBACK', 'COMMIT'])('waits for its %s, and answers with a job that is there', async (end) => {
    const url = await emptyDatabase()
    const queue = queueOn(url)
    const { keyed } = defineTypes(queue)
    await queue.open()
    const product = await connected(url)
    await product.query('BEGIN')
    const first = await keyed.enqueue({ key: 1 }, { tx: product })
    const second = keyed.enqueue({ key: 1 })
    await until('it waits', async () => {
      const waiting = await query(
        url,
        `SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
      )
      return waiting.length > 0
    })
    await product.query(end)
    const { job, duplicate } = await second
    expect([duplicate, job.id === first.job.id]).toEqual(end === 'COMMIT' ? [true, true] : [false, false])
    expect(await queue.get(job.id)).toBeDefined()
    expect(await queue.count()).toBe(1)
  })
})

describe('the size of a payload', { timeout: 60_000 }, () => {
  it.each([7_900, 8_100, 1_000_000])('does not keep one of %d characters from waking an idle worker', async (size) => {
    const url = await emptyDatabase()
    const queue = queueOn(url)
    queue.define('type', { ...anything, run: (job) => (job.payload as string).length })
    const { worker, errors } = working(queue, { pollInterval: '10m' })
    await worker.idle()
    const { job } = await queueOn(url).enqueue('type', 'x'.repeat(size))
    expect(await job.result({ timeout: '10s' })).toBe(size)
    expect(errors).toEqual([])
  })

  it('is no matter even beyond what an enqueue takes: a plain INSERT of 20 MB wakes an idle worker, too', async () => {
    const url = await emptyDatabase()
    const queue = queueOn(url)
    queue.define('type', { ...anything, run: (job) => (job.payload as string).length })
    const { worker, errors } = working(queue, { pollInterval: '10m' })
    await worker.idle()
    await expect(queue.enqueue('type', 'x'.repeat(20_000_000))).rejects.toMatchObject({
      code: 'payload_too_large',
      data: { bytes: 20_000_002, limit: 1_048_576 },
    })
    await query(url, `INSERT INTO jobs (id, type, payload) VALUES ('by-hand', 'type', to_jsonb(repeat('x', 20000000)))`)
    expect(await (await queue.get('by-hand'))!.result({ timeout: '30s' })).toBe(20_000_000)
    expect(errors).toEqual([])
  })
})

it(
  'a moment is the same in every time zone: of the database, of the producer and of the worker',
  { timeout: 60_000 },
  async () => {
    const url = await emptyDatabase()
    await query(url, `ALTER DATABASE ${new URL(url).pathname.slice(1)} SET timezone = 'Asia/Shanghai'`)
    const site = { url, folder: folder(), writable: () => true }
    const producer = await startChild(site, { TZ: 'America/Los_Angeles' })
    const worker = await startChild(site, { TZ: 'Europe/Berlin' })
    await worker.work({})
    const runAfterMs = Date.now() + 2_000
    const [one] = await producer.order({ do: 'enqueue', acts: [{ name: 'zoned', ms: 0 }], options: { runAfterMs } })
    expect(one!.runAfterMs).toBe(runAfterMs)
    const queue = queueOn(url)
    const job = (await queue.get(one!.id))!
    expect(job.runAfter.getTime()).toBe(runAfterMs)
    await job.result({ timeout: '20s' })
    const [run] = new Ledger(site.folder).runsOf(job.id)
    expect(run!.at).toBeGreaterThanOrEqual(runAfterMs)
    expect(run!.at).toBeLessThan(runAfterMs + 2_000)
    const types = await query<{ type: string }>(
      url,
      `SELECT DISTINCT format_type(atttypid, NULL) AS type FROM pg_attribute
     WHERE attrelid IN ('jobs'::regclass, 'job_events'::regclass, 'job_workers'::regclass, 'job_steps'::regclass, 'job_streams'::regclass) AND attname ~ '(_at|_after|_until|^at)$'`,
    )
    expect(types).toEqual([{ type: 'timestamp with time zone' }])
  },
)

it('a missing unique index is told of by the doctor, and made again by whoever starts', async () => {
  const url = await emptyDatabase()
  await queueOn(url).open()
  await query(url, 'DROP INDEX jobs_key')
  const queue = queueOn(url)
  const { keyed } = defineTypes(queue)
  const findings = await queue.inspect()
  expect(findings.filter(({ level }) => level === 'error')).toMatchObject([
    { code: 'index_missing', message: expect.stringContaining('jobs_key') as string },
  ])
  const answers = await Promise.all([keyed.enqueue({ key: 1 }), keyed.enqueue({ key: 1 })])
  expect(answers.filter(({ duplicate }) => duplicate)).toHaveLength(1)
  expect((await queue.inspect()).filter(({ level }) => level === 'error')).toEqual([])
})

it('a transaction that stays open for long does not make claims slower and slower', { timeout: 60_000 }, async () => {
  const url = await emptyDatabase()
  const queue = queueOn(url)
  const { count } = defineTypes(queue, { started() {} })
  await queue.open()
  const reader = await connected(url)
  await reader.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
  await reader.query('SELECT count(*) FROM jobs')
  const { worker, errors } = working(queue, { lease: '1s', concurrency: 50 })
  const rounds: number[] = []
  for (let round = 0; round < 10; round++) {
    const added = await count.enqueueMany(Array.from({ length: 1_000 }, () => ({ name: 'x' })))
    const since = performance.now()
    await Promise.all(added.map(({ job }) => job.result({ timeout: '20s' })))
    rounds.push(performance.now() - since)
  }
  const [early, late] = [rounds.slice(1, 4), rounds.slice(7)].map((some) => Math.min(...some))
  expect(late!).toBeLessThan(Math.max(5 * early!, 2_000))
  expect(errors).toEqual([])
  await worker.stop()
})

describe('a loaded worker that is killed', { timeout: 60_000 }, () => {
  it('leaves no more jobs running than its concurrency and prefetch, and they run again after its lease', async () => {
    const url = await emptyDatabase()
    const queue = queueOn(url)
    const types = defineTypes(queue)
    const site = { url, folder: folder(), writable: () => true }
    const [victim, heir] = await startChildren(site, 2)
    const most = { concurrency: 20, prefetch: 100 }
    for (let i = 0; i < 20; i++) await types.count.enqueueMany(Array.from({ length: 1_000 }, (_, j) => ({ name: `${i}-${j}` })))
    const ledger = new Ledger(site.folder)
    await victim!.work({ lease: '1s', ...most })
    await until('it is in the middle', () => ledger.bytes > 200_000)
    await victim!.kill()
    const running = await queue.count({ status: ['running'] })
    expect(running).toBeLessThanOrEqual(most.concurrency + most.prefetch)
    await heir!.work({ lease: '1s', ...most })
    await until('all have succeeded', async () => (await queue.count({ status: ['succeeded'] })) === 20_000)
    const again = await query<{ n: number }>(url, 'SELECT count(*)::int AS n FROM jobs WHERE attempts = 2')
    expect(again).toEqual([{ n: running }])
    expect(ledger.ledger().length - 20_000).toBeLessThanOrEqual(running)
  })
})
