/** What only PostgreSQL can do, or get wrong, with transactions of handlers. */
import pg from 'pg'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { z } from 'zod'
import { jobtable, type JobContext, type Queue } from '../../src/index.js'
import { silent } from '../transactions/places.js'
import { emptyDatabase } from '../support/postgres/database.js'

let url: string
let pool: pg.Pool
let queue: Queue
beforeEach(async () => {
  url = await emptyDatabase()
  pool = new pg.Pool({ connectionString: url })
  queue = jobtable(url, { logger: silent })
  await queue.open()
  await pool.query('CREATE TABLE rows (n integer)')
})
afterEach(async () => {
  await queue.close()
  await pool.end()
})

const count = async (): Promise<number> => (await pool.query<{ n: number }>('SELECT count(*)::int AS n FROM rows')).rows[0]!.n
const define = (on: Queue, run: (job: JobContext<unknown>) => unknown) =>
  on.define('work', {
    payload: z.unknown(),
    idempotency: { none: 'a test' },
    retry: { maxAttempts: 1 },
    run: run as () => string,
  })

async function inTransaction<T>(on: pg.Pool, work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
  const client = await on.connect()
  try {
    await client.query('BEGIN')
    const answer = await work(client)
    await client.query('COMMIT')
    return answer
  } finally {
    client.release(true)
  }
}

it('a transaction whose completion failed cannot be committed, whatever is made of the error', async () => {
  const told: unknown[] = []
  const type = define(queue, async (job) => {
    await pool.query(`UPDATE jobs SET claim_token = 'another'`)
    await inTransaction(pool, async (client) => {
      await client.query('INSERT INTO rows (n) VALUES (1)')
      await job.complete(client).catch((error: unknown) => told.push(error))
    })
    await pool.query(`UPDATE jobs SET status = 'canceled', claim_token = NULL, locked_by = NULL, finished_at = now()`)
  })
  await type.enqueue(null)
  await queue.drain()
  expect(told).toMatchObject([{ code: 'lease_lost' }])
  expect(await count()).toBe(0)
})

it('a transaction waits for locks as long as its product says, after it has completed its job, too', async () => {
  const seen: unknown[] = []
  const type = define(queue, async (job) => {
    void job.stream('text').write('its last words')
    await inTransaction(pool, async (client) => {
      await client.query(`SET LOCAL lock_timeout = '7s'`)
      await job.complete(client)
      seen.push((await client.query<object>('SHOW lock_timeout')).rows[0])
    })
  })
  const { job } = await type.enqueue(null)
  await queue.drain()
  expect([(await job.refresh()).status, (await queue.readStream(job.id, 'text'))?.text]).toEqual(['succeeded', 'its last words'])
  expect(seen).toEqual([{ lock_timeout: '7s' }])
})

it('a transaction of another database is refused, and says so', async () => {
  const elsewhere = new pg.Pool({ connectionString: await emptyDatabase() })
  const other = jobtable('', {
    store: (await import('../../src/stores/postgres/index.js')).postgresStore({ connection: elsewhere }),
  })
  await other.open()
  const told: unknown[] = []
  const type = define(queue, async (job) => {
    await inTransaction(elsewhere, (client) => job.checkpoint(client, 'rows')).catch((error: unknown) => told.push(error))
    return 'done'
  })
  const { job } = await type.enqueue(null)
  await queue.drain()
  expect(told).toMatchObject([{ code: 'config_invalid', message: expect.stringContaining('another database') as string }])
  expect(await job.result()).toBe('done')
  await other.close()
  await elsewhere.end()
})

it('the claim that ended with its completion is not taken for a lost one while the handler goes on', async () => {
  const seen: unknown[] = []
  const type = define(queue, async (job) => {
    await inTransaction(pool, (client) => job.complete(client, 'whole'))
    // What a heartbeat of a worker does when it misses a claim.
    ;(job as unknown as { leaseLost(): void }).leaseLost()
    await queue.get(job.id)
    await new Promise((resolve) => setImmediate(resolve))
    await queue.get(job.id)
    seen.push(job.signal.aborted)
  })
  const { job } = await type.enqueue(null)
  const worker = queue.work()
  const ended = new Promise((resolve) => worker.on('succeeded', resolve))
  worker.on('lease_lost', () => seen.push('lease_lost'))
  await ended
  await worker.stop()
  expect(seen).toEqual([false])
  expect(await job.result()).toBe('whole')
})

it('job.transaction says when the error of a statement was swallowed, for nothing was committed', async () => {
  const type = define(queue, ({ transaction }) =>
    transaction('rows', async (tx) => {
      await tx.query('INSERT INTO rows (n) VALUES (1)')
      await tx.query('no statement').catch(() => {})
    }),
  )
  const { job } = await type.enqueue(null)
  await queue.drain()
  expect(await job.refresh()).toMatchObject({
    status: 'failed',
    lastError: expect.stringMatching(/was swallowed.*syntax error at or near "no"/) as string,
  })
  expect([await count(), await queue.steps(job.id)]).toEqual([0, []])
})

it('an error that was taken back to a savepoint spoils nothing', async () => {
  const type = define(queue, ({ transaction }) =>
    transaction('rows', async (tx) => {
      await tx.query('INSERT INTO rows (n) VALUES (1)')
      await tx.query('SAVEPOINT before')
      await tx.query('no statement').catch(() => tx.query('ROLLBACK TO before'))
    }),
  )
  const { job } = await type.enqueue(null)
  await queue.drain()
  expect((await job.refresh()).status).toBe('succeeded')
  expect(await count()).toBe(1)
})

it('job.transaction takes half of the pool that does not listen, and the others wait', async () => {
  const small = new pg.Pool({ connectionString: url, max: 5 })
  const own = jobtable(small, { logger: silent })
  let open = 0
  let most = 0
  const type = define(own, ({ transaction, id }) =>
    transaction(async (tx) => {
      most = Math.max(most, ++open)
      await tx.query('INSERT INTO rows (n) VALUES (1)')
      // The store has connections left for itself.
      expect((await own.get(id))!.status).toBe('running')
      open--
    }),
  )
  await type.enqueueMany(Array.from({ length: 8 }, () => null))
  expect(await own.drain({ concurrency: 8 })).toMatchObject({ succeeded: 8 })
  expect([most, await count()]).toEqual([2, 8])
  await own.close()
  await small.end()
})

it.each([1, 2])('job.transaction needs a third connection, and says so to a pool of %i', async (max) => {
  const few = new pg.Pool({ connectionString: url, max })
  const own = jobtable(few, { logger: silent })
  const type = define(own, ({ transaction }) => transaction(async () => {}))
  const { job } = await type.enqueue(null)
  await own.drain()
  expect((await job.refresh()).lastError).toMatch(/pool of at least 3.*job\.complete/)
  await own.close()
  await few.end()
})

it('what goes wrong in job.transaction is told as the product made it, and costs no connection', async () => {
  const few = new pg.Pool({ connectionString: url, max: 3 })
  let connects = 0
  few.on('connect', () => connects++)
  const own = jobtable(few, { logger: silent })
  const told: unknown[] = []
  const refused = Object.assign(new Error('connect ECONNREFUSED 10.0.0.1:443'), { code: 'ECONNREFUSED' })
  const type = define(own, ({ transaction, payload }) =>
    transaction(async (tx) => {
      await tx.query('INSERT INTO rows (n) VALUES (1)')
      if (payload === 'throw') throw refused
      await tx.query('INSERT INTO nosuch (n) VALUES (1)')
    }).catch((error: unknown) => {
      told.push(error)
      throw error
    }),
  )
  await type.enqueueMany(['query', 'throw', 'query', 'throw'])
  await own.drain({ concurrency: 1 })
  expect(told).toMatchObject([{ code: '42P01' }, refused, { code: '42P01' }, refused])
  expect(connects).toBeLessThanOrEqual(3)
  expect(await count()).toBe(0)
  await own.close()
  await few.end()
})

it('a statement of jobtable in job.transaction that fails is explained', async () => {
  const type = define(queue, ({ transaction }) =>
    transaction('rows', async (tx) => void (await tx.query('ALTER TABLE job_steps RENAME TO elsewhere'))),
  )
  const { job } = await type.enqueue(null)
  await queue.drain()
  expect((await job.refresh()).lastError).toContain('jobtable migrate')
})

it('job.transaction ends when its job is told to stop, at a statement and while it waits for a connection, and lets go of what it locked', async () => {
  const few = new pg.Pool({ connectionString: url, max: 3 })
  const own = jobtable(few, { logger: silent })
  await pool.query('INSERT INTO rows (n) VALUES (0)')
  const begun: string[] = []
  const type = own.define('work', {
    payload: z.string(),
    idempotency: { none: 'a test' },
    run: ({ transaction, payload }) =>
      transaction(async (tx) => {
        begun.push(payload)
        await tx.query('UPDATE rows SET n = 1')
        await tx.query('SELECT pg_sleep(3600)')
      }),
  })
  const worker = own.work({ concurrency: 2 })
  const { job: first } = await type.enqueue('first')
  await vi.waitUntil(() => begun.length === 1, { timeout: 10_000 })
  const { job: second } = await type.enqueue('second')
  await vi.waitUntil(() => worker.running.length === 2, { timeout: 10_000 })
  await second.cancel()
  await expect(second.result()).rejects.toMatchObject({ code: 'job_canceled' })
  expect((await first.refresh()).status).toBe('running')
  await first.cancel()
  await expect(first.result()).rejects.toMatchObject({ code: 'job_canceled' })
  // Would wait for as long as the server is at the statement.
  await pool.query('UPDATE rows SET n = n + 10')
  expect((await pool.query('SELECT n FROM rows')).rows).toEqual([{ n: 10 }])
  expect(begun).toEqual(['first'])
  await worker.stop()
  await own.close()
  await few.end()
})

it('what is reported after the completion does not wait for the transaction, which would wait for it', async () => {
  const type = define(queue, (job) =>
    inTransaction(pool, async (client) => {
      await job.stage('before')
      await job.complete(client, 'whole')
      await job.stage('after')
      job.progress(1)
      await expect(job.file('late.txt', 'text')).rejects.toMatchObject({ code: 'lease_lost' })
    }),
  )
  const { job } = await type.enqueue(null)
  await queue.drain()
  expect(await job.refresh()).toMatchObject({ status: 'succeeded', stage: 'before', progress: null })
  expect((await job.events()).map(({ message }) => message)).toEqual(['before'])
})
