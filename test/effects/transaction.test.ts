import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { JobtableError, TransientError, type JobTransaction } from '../../src/index.js'
import { testQueue } from '../../src/testing/index.js'
import { DATABASES, type AnyPlace } from '../faults/support/databases.js'
import { changed } from '../faults/support/place.js'
import { quoted } from '../support/postgres/database.js'
import { defineJob } from './support.js'

describe.each(DATABASES)('job.transaction on $name', ({ name, place: makePlace }) => {
  const onSqlite = name === 'SQLite'
  /** A place with a table of the product's beside the jobs. */
  async function place(): Promise<{ here: AnyPlace; table: string; rows(): Promise<unknown[][]> }> {
    const here = await makePlace()
    await here.queue().open()
    await here.sql('CREATE TABLE credits (amount integer NOT NULL)')
    const [schema] = onSqlite ? [] : await here.sql('SELECT current_schema()')
    const table = schema ? `${quoted(String(schema[0]))}.credits` : 'credits'
    return { here, table, rows: () => here.sql('SELECT amount FROM credits ORDER BY amount') }
  }
  /** In the words of the database; at once on SQLite. */
  const write = (tx: JobTransaction, table: string, amount: number): object[] | Promise<object[]> =>
    onSqlite
      ? tx.run(`INSERT INTO ${table} (amount) VALUES (?) RETURNING amount`, [amount])
      : tx.query(`INSERT INTO ${table} (amount) VALUES ($1) RETURNING amount`, [amount])
  const then = <T, U>(value: T | Promise<T>, fn: (value: T) => U | Promise<U>): U | Promise<U> =>
    value instanceof Promise ? value.then(fn) : fn(value)

  it('its rows and its value are there together, and a later attempt does not run it again', async () => {
    const { here, table, rows } = await place()
    let runs = 0
    const { queue, enqueue, drain } = defineJob(here, async ({ transaction, attempt }) => {
      const written = await transaction('credit', (tx) => (runs++, then(write(tx, table, 5), (answer) => ({ answer }))))
      if (attempt === 1) throw new TransientError('after the commit')
      return written
    })
    const job = await enqueue()
    await drain()
    expect([await job.result(), await rows(), runs]).toEqual([{ answer: [{ amount: 5 }] }, [[5]], 1])
    expect(await queue.steps(job.id)).toMatchObject([{ name: 'credit', kind: 'checkpoint', state: 'done', attempt: 1 }])
  })

  it('its failure takes back its rows, comes as it was thrown, and it runs again', async () => {
    const { here, table, rows } = await place()
    const thrown: unknown[] = []
    const undone = new TransientError('undone')
    const { enqueue, drain } = defineJob(here, ({ transaction, attempt }) =>
      transaction('credit', (tx) =>
        then(write(tx, table, attempt), () => {
          if (attempt === 1) throw undone
        }),
      ).catch((error: unknown) => {
        thrown.push(error)
        throw error
      }),
    )
    const job = await enqueue()
    await drain()
    expect([(await job.refresh()).status, await rows()]).toEqual(['succeeded', [[2]]])
    expect(thrown).toEqual([undone])
  })

  it('without a name it completes the job with its value', async () => {
    const { here, table, rows } = await place()
    const { enqueue, drain } = defineJob(here, async ({ transaction }) => {
      await transaction((tx) => then(write(tx, table, 8), () => ({ credited: 8 })))
      throw new Error('too late')
    })
    const job = await enqueue()
    await drain()
    expect([await job.result(), await rows()]).toEqual([{ credited: 8 }, [[8]]])
  })

  it.each([
    ['that it has', 'succeeded', false],
    ['that it has not', 'failed', true],
  ])('whether it has completed the job is asked for until the database answers: %s', async (_, status, swallowed) => {
    const { here, table } = await place()
    let lost = 0
    const { queue, enqueue } = defineJob(
      here,
      async ({ transaction }) => {
        const done = transaction((tx) =>
          then(write(tx, table, 8), () => {
            lost = 3
            if (swallowed) throw new Error('undone')
            return null
          }),
        )
        await (swallowed ? done.catch(() => null) : done)
      },
      {
        around: (store) =>
          changed(store, {
            get: async (ids) => {
              if (lost-- > 0) throw new JobtableError('store_unavailable', 'the connection broke')
              return store.get(ids)
            },
          }),
      },
    )
    const job = await enqueue()
    const ends: string[] = []
    const worker = queue.work()
    for (const event of ['succeeded', 'failed', 'lease_lost'] as const) worker.on(event, () => ends.push(event))
    await worker.idle()
    await worker.stop()
    lost = 0
    expect([ends, (await job.refresh()).status]).toEqual([[status], status])
  })

  it.each([['with a name'], ['that completes the job']])(
    'a function that ends the transaction itself is told so, and nothing is recorded of it: %s',
    async (how) => {
      const { here, table } = await place()
      const { queue, enqueue, drain } = defineJob(here, async ({ transaction }) => {
        const end = (tx: JobTransaction): object[] | Promise<object[]> =>
          then(write(tx, table, 3), () => (onSqlite ? tx.run('COMMIT') : tx.query('COMMIT')))
        await (how === 'with a name' ? transaction('rows', end as () => object[]) : transaction(end as () => object[]))
      })
      const job = await enqueue()
      await drain()
      expect(await job.refresh()).toMatchObject({
        status: 'failed',
        attempts: 1,
        history: [{ code: 'misconfigured', message: expect.stringContaining('ended its transaction, such as COMMIT') as string }],
      })
      expect(await queue.steps(job.id)).toEqual([])
    },
  )

  it('jobs are enqueued and checkpoints noted in it', async () => {
    const { here, table, rows } = await place()
    const { queue, enqueue, drain } = defineJob(here, ({ transaction, checkpoint }) =>
      transaction('all', (tx) =>
        then(write(tx, table, 1), () => {
          // On SQLite both are done when the function returns.
          const both = Promise.all([queue.enqueue('next', {}, { tx }), checkpoint(tx, 'other', 2)])
          return onSqlite ? null : both.then(() => null)
        }),
      ),
    )
    const job = await enqueue()
    await drain()
    expect([(await job.refresh()).status, await rows()]).toEqual(['succeeded', [[1]]])
    expect(await queue.count({ type: ['next'] })).toBe(1)
    expect((await queue.steps(job.id)).map((step) => step.name)).toEqual(['other', 'all'])
  })

  it('a lost claim fails it, with its rows', async () => {
    const { here, table, rows } = await place()
    const told: unknown[] = []
    const { enqueue, drain } = defineJob(here, async ({ id, transaction }) => {
      const lost = here.sql(`UPDATE jobs SET claim_token = 'another' WHERE id = ?`, id)
      await lost
      await transaction('credit', (tx) => then(write(tx, table, 1), () => null)).catch((error: unknown) => told.push(error))
      await here.sql(
        `UPDATE jobs SET claim_token = NULL, locked_by = NULL, status = 'canceled', finished_at = updated_at WHERE id = ?`,
        id,
      )
    })
    await enqueue()
    await drain()
    expect(told).toMatchObject([{ code: 'lease_lost' }])
    expect(await rows()).toEqual([])
  })

  it.each<[string, unknown]>([
    ['true', true],
    ['a Date', new Date(0)],
    ['an object', {}],
    ['undefined', undefined],
  ])('a parameter that is %s fails the job for good, and says what to pass', async (_, value) => {
    const { here, table, rows } = await place()
    const { enqueue, drain } = defineJob(here, ({ transaction }) =>
      transaction('wrong', (tx) => then(write(tx, table, value as number), () => null)),
    )
    const job = await enqueue()
    await drain()
    expect(await job.refresh()).toMatchObject({
      ...{
        status: 'failed',
        attempts: 1,
        lastError: expect.stringMatching(/parameter 1 .*must be a text, a number or null/) as string,
      },
    })
    expect(await rows()).toEqual([])
  })

  it('the methods of the other database say which one to take', async () => {
    const { here } = await place()
    const { enqueue, drain } = defineJob(here, ({ transaction }) =>
      transaction('wrong', (tx) => (onSqlite ? tx.query('SELECT 1') : tx.run('SELECT 1')) as never),
    )
    const job = await enqueue()
    await drain()
    expect((await job.refresh()).lastError).toMatch(onSqlite ? /on SQLite.*method run/ : /on PostgreSQL.*method query/)
  })
})

describe('job.transaction', () => {
  it('on SQLite refuses a function that returns a promise, and rolls back what it did', async () => {
    const queue = testQueue()
    const type = queue.define('async', {
      payload: z.null(),
      idempotency: { none: 'a test' },
      run: async ({ transaction, id }) => {
        await transaction('late', async (tx) => {
          tx.run(`UPDATE jobs SET stage = 'touched' WHERE id = ?`, [id])
          await Promise.resolve()
          return tx.run('SELECT 1') as never
        })
      },
    })
    const { job } = await type.enqueue(null)
    await queue.drain()
    expect(await job.refresh()).toMatchObject({
      status: 'failed',
      stage: null,
      lastError: expect.stringMatching(/must not.*job\.complete/) as string,
    })
    await queue.close()
  })

  it('works in a test queue, which is in memory', async () => {
    const queue = testQueue()
    const type = queue.define('memory', {
      payload: z.null(),
      idempotency: { none: 'a test' },
      run: async ({ transaction }) => transaction((tx) => tx.run<{ two: number }>('SELECT 1 + 1 AS two')[0]!.two),
    })
    const { job } = await type.enqueue(null)
    await queue.drain()
    expect(await job.result()).toBe(2)
    await queue.close()
  })
})
