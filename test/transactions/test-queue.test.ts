import pg from 'pg'
import { expect, it } from 'vitest'
import { z } from 'zod'
import { testQueue } from '../../src/testing/index.js'
import { openDriver } from '../../src/stores/sqlite/driver.js'
import { emptyDatabase } from '../support/postgres/database.js'
import { PRESENT, temporaryFolder } from '../stores/sqlite/support.js'

const receipt = { payload: z.object({ order: z.string() }), idempotency: { none: 'a test' } } as const

it('a test queue in the database of a test joins its transactions, by its own clock: PostgreSQL', async () => {
  const database = await emptyDatabase()
  const queue = testQueue({ database })
  await queue.open()
  const type = queue.define('receipt', { ...receipt, run: ({ payload }) => payload.order })
  const client = new pg.Client({ connectionString: database })
  await client.connect()
  await client.query('BEGIN')
  const { job } = await type.enqueue({ order: 'o1' }, { tx: client, delay: '1h' })
  await client.query('COMMIT')
  await client.end()
  expect(job.createdAt).toEqual(new Date(queue.clock.now()))
  await queue.runFor('2h')
  expect(await job.result()).toBe('o1')
  await queue.assertEnqueued(type, { order: 'o1' })
  await queue.close()
})

it('a test queue in the database of a test joins its transactions, by its own clock: SQLite', async () => {
  const { file, remove } = temporaryFolder()
  const queue = testQueue({ database: `sqlite:${file}` })
  await queue.open()
  const type = queue.define('receipt', { ...receipt, run: ({ payload }) => payload.order })
  const driver = openDriver(file, { driver: PRESENT[0]! })
  const statement = (sql: string) => ({
    raw: () => statement(sql),
    safeIntegers: () => statement(sql),
    all: (...params: string[]) => driver.prepare(sql).all(...params),
  })
  driver.exec('BEGIN IMMEDIATE')
  const { job } = await type.enqueue({ order: 'o1' }, { tx: { inTransaction: true, prepare: statement }, delay: '1h' })
  driver.exec('COMMIT')
  driver.close()
  expect(job.createdAt).toEqual(new Date(queue.clock.now()))
  await queue.runFor('2h')
  expect(await job.result()).toBe('o1')
  await queue.close()
  remove()
})
