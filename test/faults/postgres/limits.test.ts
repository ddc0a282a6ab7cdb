import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { jobtable, TransientError, type Queue } from '../../../src/index.js'
import type { Store } from '../../../src/store.js'
import { postgresStore } from '../../../src/stores/postgres/index.js'
import { settling, succeeded } from '../../../src/testing/conformance/bench.js'
import { newJob } from '../../../src/testing/new-job.js'
import { TestServer } from '../../support/postgres/server.js'
import { recordingLog, until } from '../support/place.js'
import { anything } from '../support/types.js'
import { queueOn, testServer, working } from './support.js'

let server: TestServer
let schemas = 0
beforeAll(async () => void (server = await TestServer.create()))
afterAll(() => server.remove())
const fresh = (): { schema: string } => ({ schema: `s${++schemas}` })

/** A pool of the product's own, named so that its connections can be counted, and a queue on it. */
function pooledQueue(url: string, name: string, max: number, schema: string): { pool: pg.Pool; queue: Queue } {
  const pool = new pg.Pool({ connectionString: url, max, application_name: name })
  // A product is told of broken idle connections, too.
  pool.on('error', () => {})
  onTestFinished(() => pool.end())
  const store = postgresStore({ connection: pool, schema })
  const queue = jobtable(pool, { logger: recordingLog(), store })
  onTestFinished(() => queue.close())
  return { pool, queue }
}

describe('a pool that the handlers use too', { timeout: 30_000 }, () => {
  it.each([1, 2, 10])('of %d serves twenty jobs at a time, and no more connections than these are opened', async (max) => {
    const name = `pool of ${max}`
    const { pool, queue } = pooledQueue(server.url(), name, max, fresh().schema)
    let most = 0
    const type = queue.define('type', {
      ...anything,
      run: async () => {
        await pool.query('SELECT pg_sleep(0.02)')
        most = Math.max(most, pool.totalCount)
        return 'done'
      },
    })
    const { worker, errors } = working(queue, { concurrency: 20, lease: '5s' })
    const lost: unknown[] = []
    worker.on('lease_lost', (event) => lost.push(event))
    const jobs = (await type.enqueueMany(Array(40).fill(null))).map(({ job }) => job)
    expect(await Promise.all(jobs.map((job) => job.result({ timeout: '15s' })))).toEqual(Array(40).fill('done'))
    expect([lost, errors]).toEqual([[], []])
    expect(most).toBeLessThanOrEqual(max)
  })
})

it('more workers than the server has connections for take turns, and all jobs end', { timeout: 60_000 }, async () => {
  const small = await testServer({ max_connections: '12' })
  await queueOn(small.url()).open()
  const runs: string[] = []
  const errors = new Set<string>()
  const pairs = Array.from({ length: 5 }, (_, i) => pooledQueue(small.url(), `worker ${i}`, 4, 'public'))
  for (const { pool, queue } of pairs) {
    queue.define('type', {
      ...anything,
      retry: { maxAttempts: 50, backoff: { base: '50ms', factor: 1 } },
      run: async (job) => {
        await pool.query('SELECT pg_sleep(0.1)').catch((cause: unknown) => {
          throw new TransientError('no connection', { cause })
        })
        runs.push(job.id)
      },
    })
  }
  const workers = pairs.map(({ queue }) => queue.work({ concurrency: 20 }))
  for (const worker of workers) worker.on('error', (error) => errors.add((error as { code: string }).code))
  const enqueued = await until('a connection is free', () =>
    pairs[0]!.queue.enqueueMany('type', Array(40).fill(null)).catch(() => undefined),
  )
  await Promise.all(enqueued.map(({ job }) => job.result({ timeout: '40s' })))
  expect(runs.sort()).toEqual(enqueued.map(({ job }) => job.id).sort())
  expect([...errors].filter((code) => code !== 'store_unavailable')).toEqual([])
})

describe('a role with a timeout', () => {
  it.each(['statement_timeout', 'lock_timeout'])(
    '%s: a call that it ends is rejected by name, and the worker goes on',
    async (setting) => {
      const role = `hasty_${setting}`
      const { schema } = fresh()
      await server.query(`CREATE ROLE ${role} LOGIN SUPERUSER`)
      await server.query(`ALTER ROLE ${role} SET ${setting} = '100ms'`)
      const url = Object.assign(new URL(server.url()), { username: role }).href
      const queue = queueOn(url, { schema })
      const type = queue.define('type', { ...anything, run: () => 'done' })
      const { worker, errors } = working(queue, { pollInterval: '100ms' })
      await worker.ready()
      const other = new pg.Client({ connectionString: server.url() })
      await other.connect()
      onTestFinished(() => other.end())
      await other.query(`BEGIN; LOCK TABLE ${schema}.jobs IN ACCESS EXCLUSIVE MODE`)
      await expect(type.enqueue(null)).rejects.toMatchObject({ code: 'store_busy' })
      await until('the worker has noticed', () => errors.includes('store_busy'))
      await other.query('COMMIT')
      const { job } = await type.enqueue(null)
      expect(await job.result({ timeout: '20s' })).toBe('done')
      expect(new Set(errors)).toEqual(new Set(['store_busy']))
    },
  )
})

/** A store on tables of its own, where the first statement like this fails with this code. */
async function failingOnce(statement: RegExp, code: string): Promise<{ store: Store; failed(): boolean }> {
  const pool = new pg.Pool({ connectionString: server.url(), max: 1 })
  onTestFinished(() => pool.end())
  let failed = false
  pool.on('connect', (client) => {
    const ask = client.query.bind(client) as (query: unknown) => Promise<unknown>
    client.query = ((query: string | { text: string }) => {
      if (failed || !statement.test(typeof query === 'string' ? query : query.text)) return ask(query)
      failed = true
      return Promise.reject(Object.assign(new Error('ended by the server'), { code }))
    }) as typeof client.query
  })
  const store = postgresStore({ connection: pool, ...fresh() })
  onTestFinished(() => store.close())
  await store.migrate()
  return { store, failed: () => failed }
}

describe('conflicts between transactions', () => {
  it('that end the settlement of a job are tried again: it succeeds in its first run, and soon', async () => {
    const { schema } = fresh()
    const queue = queueOn(server.url(), { schema })
    await queue.open()
    await server.query(`CREATE SEQUENCE ${schema}.ends`)
    // What a sequence gives is not taken back with the transaction.
    await server.query(`CREATE FUNCTION ${schema}.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        CASE nextval('${schema}.ends')
          WHEN 1 THEN RAISE EXCEPTION 'could not serialize' USING ERRCODE = '40001';
          WHEN 2 THEN RAISE EXCEPTION 'deadlock' USING ERRCODE = '40P01';
          ELSE RETURN NEW;
        END CASE;
      END $$`)
    await server.query(`CREATE TRIGGER refuse BEFORE UPDATE ON ${schema}.jobs FOR EACH ROW
      WHEN (NEW.status = 'succeeded') EXECUTE FUNCTION ${schema}.refuse()`)
    let runs = 0
    const type = queue.define('type', { ...anything, run: () => ++runs })
    const { worker, errors } = working(queue)
    await worker.ready()
    const { job } = await type.enqueue(null)
    expect(await job.result({ timeout: '2s' })).toBe(1)
    expect(await job.refresh()).toMatchObject({ status: 'succeeded', attempts: 1, history: [] })
    expect([runs, errors]).toEqual([1, []])
  })

  it.each([
    ['a deadlock', '40P01'],
    ['a timeout', '55P03'],
  ])(
    'that end the question after a claim what became of its settlements, as %s, do not repeat the claim: no job is left running for nobody',
    async (_, code) => {
      const { store, failed } = await failingOnce(/^\s*SELECT jobs\.id FROM json_to_recordset/, code)
      const [queues, types] = [['default'], ['type']]
      await store.register({ id: 'w', host: 'h', pid: 1, process: null, queues, types, concurrency: 1 }, 60_000)
      await store.insert(['a', 'b', 'c'].map((id) => newJob({ id, type: 'type' })))
      const claim = { workerId: 'w', token: 'first', queues, types, limit: 1 }
      const [a] = (await store.claim(claim)).jobs
      const stale = settling({ ...a!, claimToken: 'stale' }, succeeded)
      const answer = await store
        .claim({ ...claim, token: 'second' }, [stale])
        .catch((error: unknown) => (error as { code: string }).code)
      expect(failed()).toBe(true)
      // A claim without an answer is handed back by its token, see `ClaimLoop`.
      if (code === '55P03') expect(answer).toBe('store_busy')
      else expect(answer).toMatchObject({ jobs: [{ id: 'b' }], settled: ['lost'] })
      expect((await store.get(['b', 'c'])).map((row) => row!.status)).toEqual(['running', 'pending'])
    },
  )

  it('that end the question after an insert who holds a key do not make the other jobs stand in their own way', async () => {
    const { store, failed } = await failingOnce(/^\s*SELECT same\.id IS NOT NULL/, '40P01')
    const keyed = (id: string, idempotencyKey: string) => newJob({ id, type: 'type', idempotencyKey })
    await store.insert([keyed('holder', 'taken')])
    const outcomes = await store.insert([keyed('a', 'free'), keyed('b', 'taken')])
    expect(failed()).toBe(true)
    expect(outcomes).toMatchObject([
      { type: 'inserted', row: { id: 'a' } },
      { type: 'held', holder: { id: 'holder' } },
    ])
  })

  it(
    'do not come from pruning: three at it while four workers end jobs, and the server sees no deadlock',
    { timeout: 60_000 },
    async () => {
      const own = await testServer()
      const queue = queueOn(own.url())
      const workers = Array.from({ length: 4 }, () => {
        const each = queueOn(own.url(), { retention: { succeeded: '36500d' } })
        each.define('type', { ...anything, run: () => 'done' })
        return each.work({ lease: '2s' })
      })
      const stores = await Promise.all([1, 2, 3].map(() => queueOn(own.url()).open()))
      const old = `SELECT id FROM jobs WHERE id LIKE 'old-%'`
      const pruneAll = async (store: Store): Promise<string[]> => {
        const ids: string[] = []
        do ids.push(...(await store.prune({ succeededMs: 86_400_000, failedMs: 0, canceledMs: 0 }, 500)).map(({ id }) => id))
        while ((await own.query(old)).length > 0)
        return ids
      }
      for (let round = 0; round < 5; round++) {
        await own.query(`INSERT INTO jobs (id, type, status, finished_at)
        SELECT 'old-' || i, 'type', 'succeeded', now() - interval '1 year' FROM generate_series(1, 4000) AS i`)
        const added = (await queue.enqueueMany('type', Array(500).fill(null))).map(({ job }) => job)
        const [pruned] = await Promise.all([
          Promise.all(stores.map(pruneAll)),
          ...added.map((job) => job.result({ timeout: '30s' })),
        ])
        expect(pruned.flat()).toHaveLength(4_000)
        expect(new Set(pruned.flat()).size).toBe(4_000)
      }
      await Promise.all(workers.map((worker) => worker.stop()))
      expect(await queue.count({ status: ['succeeded'] })).toBe(2_500)
      expect(own.log).not.toContain('deadlock')
    },
  )
})

it('no lock is left in the sessions of a pool when its workers have stopped', async () => {
  const { queue } = pooledQueue(server.url(), 'locks', 8, fresh().schema)
  const type = queue.define('type', { ...anything, run: () => 'done' })
  const workers = Array.from({ length: 8 }, () => queue.work({ concurrency: 5 }))
  const jobs = (await type.enqueueMany(Array(500).fill(null))).map(({ job }) => job)
  await Promise.all(jobs.map((job) => job.result({ timeout: '20s' })))
  await Promise.all(workers.map((worker) => worker.stop()))
  const [sessions] = await server.query<{ n: number }>(
    `SELECT count(*)::int AS n FROM pg_stat_activity WHERE application_name = 'locks'`,
  )
  expect(sessions!.n).toBeGreaterThan(0)
  expect(await server.query(`SELECT * FROM pg_locks WHERE locktype = 'advisory'`)).toEqual([])
})
