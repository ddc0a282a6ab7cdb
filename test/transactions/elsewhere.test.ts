/** What is taken for a transaction of PostgreSQL, and is in another database than the queue, which has jobtable's tables too, or is none at all. */
import pg from 'pg'
import { describe, expect, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import { jobtable, type JobContext, type Queue } from '../../src/index.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { emptyDatabase } from '../support/postgres/database.js'
import { silent } from './places.js'
import { listeningPool } from './postgres.js'

async function queueOn(connection: string | pg.Pool): Promise<Queue> {
  const queue = jobtable('', { store: postgresStore({ connection }), logger: silent })
  onTestFinished(() => queue.close())
  await queue.open()
  return queue
}

function defineReport(queue: Queue) {
  return queue.define('report', {
    payload: z.object({ doc: z.string() }),
    idempotency: { key: ['doc'], onDuplicate: 'return_previous_result' },
    retry: { maxAttempts: 1 },
    run: (): null => {
      throw new Error('no printer')
    },
  })
}

async function inTransaction<T>(pool: pg.Pool, work: (tx: pg.PoolClient) => Promise<T>): Promise<T> {
  const client = await pool.connect()
  try {
    await client.query('BEGIN')
    const answer = await work(client)
    await client.query('COMMIT')
    return answer
  } finally {
    client.release()
  }
}

async function scene() {
  const url = await emptyDatabase()
  const queue = await queueOn(url)
  const there = await emptyDatabase()
  const elsewhere = await queueOn(there)
  const { pool, statements } = listeningPool(there)
  onTestFinished(() => pool.end())
  return { url, queue, report: defineReport(queue), elsewhere, pool, statements }
}

describe('a transaction of another database', () => {
  it('is refused, and nothing is written there', async () => {
    const { url, report, elsewhere, pool, queue } = await scene()
    const name = new URL(url).pathname.slice(1)
    for (const payloads of [[{ doc: 'a' }], [{ doc: 'a' }, { doc: 'b' }]]) {
      await inTransaction(pool, async (tx) => {
        await expect(report.enqueueMany(payloads, { tx })).rejects.toMatchObject({
          code: 'config_invalid',
          message: expect.stringMatching(
            new RegExp(`tx is a transaction of another database.* this queue is in ${name}: nothing`),
          ) as string,
        })
      })
    }
    expect([await queue.count(), await elsewhere.count()]).toEqual([0, 0])
  })

  it('is refused for a job that would take the place of a failed one, and no key is let go', async () => {
    const { report, elsewhere, pool, queue } = await scene()
    const { job } = await report.enqueue({ doc: 'a' }, { id: 'one' })
    await queue.drain()
    const other = await defineReport(elsewhere).enqueue({ doc: 'a' }, { id: 'one' })
    await elsewhere.drain()
    await inTransaction(pool, async (tx) => {
      await expect(report.enqueue({ doc: 'a' }, { tx })).rejects.toMatchObject({ code: 'config_invalid' })
    })
    expect([(await job.refresh()).supersededBy, (await other.job.refresh()).supersededBy]).toEqual([null, null])
  })
})

it('one of the own database is told by the statement that enqueues, which is the only one', async () => {
  const url = await emptyDatabase()
  const report = defineReport(await queueOn(url))
  const { pool, statements } = listeningPool(url)
  onTestFinished(() => pool.end())
  for (const doc of ['a', 'b']) {
    statements.length = 0
    await inTransaction(pool, (tx) => report.enqueue({ doc }, { tx }))
    expect(statements).toEqual(['BEGIN', expect.stringContaining('INSERT INTO'), 'COMMIT'])
  }
})

it('a queue on a pool whose only connection has the transaction does not wait for another one', async () => {
  const pool = new pg.Pool({ connectionString: await emptyDatabase(), max: 1 })
  onTestFinished(() => pool.end())
  const queue = await queueOn(pool)
  const report = defineReport(queue)
  await inTransaction(pool, (tx) => report.enqueue({ doc: 'a' }, { tx }))
  expect(await queue.count()).toBe(1)
})

describe('a connection that does not tell that no transaction is open on it', () => {
  /** As older versions of pg, and whatever else keeps it to itself. */
  async function silentOn(url: string) {
    const client = new pg.Client({ connectionString: url })
    await client.connect()
    onTestFinished(() => client.end())
    return {
      query: ((...args: [string]) => client.query(...args)) as unknown as pg.Client['query'],
      escapeIdentifier: (name: string) => client.escapeIdentifier(name),
    }
  }
  const misuse = { code: 'config_invalid', message: expect.stringContaining('no transaction is open') as string }

  it.each<[string, (job: JobContext<unknown>, tx: object) => Promise<void>]>([
    ['checkpoint', (job, tx) => job.checkpoint(tx as never, 'rows', 1)],
    ['completion', (job, tx) => job.complete(tx as never, 1)],
  ])('gets no %s', async (_, write) => {
    const url = await emptyDatabase()
    const queue = await queueOn(url)
    const tx = await silentOn(url)
    const seen: unknown[] = []
    const type = queue.define('work', {
      payload: z.unknown(),
      idempotency: { none: 'a test' },
      run: async (job) => {
        await write(job, tx).catch((error: unknown) => seen.push(error))
        seen.push((await queue.get(job.id))!.status, await queue.steps(job.id))
        await tx.query('BEGIN')
        await write(job, tx)
        await tx.query('COMMIT')
      },
    })
    const { job } = await type.enqueue(null)
    await queue.drain()
    expect(seen).toMatchObject([misuse, 'running', []])
    expect((await job.refresh()).status).toBe('succeeded')
  })
})
