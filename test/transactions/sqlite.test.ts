import { symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { jobtable, type Queue } from '../../src/index.js'
import { openDriver, type Driver } from '../../src/stores/sqlite/driver.js'
import { sqliteStore } from '../../src/stores/sqlite/index.js'
import { newJob } from '../../src/testing/new-job.js'
import { runIn, type Transaction, type Work } from '../../src/transactions/transaction.js'
import { PRESENT, temporaryFolder } from '../stores/sqlite/support.js'

/** A transaction of whichever library this Node has. */
function transactionOn(driver: Driver): Transaction {
  return {
    library: 'a test',
    database: 'sqlite',
    run: ({ sql, params }) => driver.prepare(sql).all(...params),
    isOpen: () => true,
  }
}

const driver = PRESENT[0]!
let folder: ReturnType<typeof temporaryFolder>
let product: Driver
beforeEach(() => {
  folder = temporaryFolder()
  product = openDriver(folder.file, { driver })
})
afterEach(() => {
  product.close()
  folder.remove()
})

describe('the SQLite store in a transaction of the product', () => {
  const insertIn = (path: string, tx: Partial<Transaction> = {}) => {
    const store = sqliteStore({ path, driver })
    return () => store.insertIn({ ...transactionOn(product), ...tx }, [newJob()])
  }

  it('says that the tables are missing and makes none, since that would wait for the very transaction', () => {
    product.exec('CREATE TABLE orders (id)')
    expect(insertIn(folder.file)).toThrow(expect.objectContaining({ code: 'schema_missing' }))
    expect(product.prepare('SELECT name FROM sqlite_schema').all()).toEqual([['orders']])
  })

  it('refuses tables of a newer jobtable', async () => {
    const store = sqliteStore({ path: folder.file, driver })
    await store.migrate()
    await store.close()
    product.exec('INSERT INTO jobtable_migrations (version, applied_at) VALUES (1000, 0)')
    expect(insertIn(folder.file)).toThrow(expect.objectContaining({ code: 'schema_too_new' }))
  })

  it('refuses a transaction in another file, where no worker of the queue would find the job', () => {
    expect(insertIn(join(folder.folder, 'other.db'))).toThrow(/in .*app\.db, and this queue in .*other\.db: open the queue on/)
  })

  it('refuses one that cannot reach a queue in memory', () => {
    expect(insertIn(':memory:')).toThrow(/this queue is in memory/)
  })

  it('refuses one in PostgreSQL', () => {
    expect(insertIn(folder.file, { library: 'pg', database: 'postgres' })).toThrow(/of pg is one of PostgreSQL/)
  })

  it('takes another name of the same file for the same file', async () => {
    const link = join(folder.folder, 'link.db')
    symlinkSync(folder.file, link)
    const store = sqliteStore({ path: link, driver })
    await store.migrate()
    expect(store.insertIn(transactionOn(product), [newJob()])).toMatchObject([{ type: 'inserted' }])
    await store.close()
  })
})

describe('a queue that is closed, or has not been opened', () => {
  let queue: Queue
  beforeEach(() => {
    queue = jobtable(`sqlite:${folder.file}`, { driver })
  })
  afterEach(() => queue.close())

  it('does not open for a transaction', () => {
    product.exec('BEGIN IMMEDIATE')
    const tx = { inTransaction: true, prepare: () => ({ raw: () => ({ safeIntegers: () => ({ all: () => [] }) }) }) }
    expect(() => queue.enqueue('report', null, { tx })).toThrow(/in a database in memory/)
    product.exec('ROLLBACK')
    expect(product.prepare('SELECT name FROM sqlite_schema').all()).toEqual([])
  })

  it('refuses to enqueue when it is closed', async () => {
    await queue.close()
    const tx = { inTransaction: true, prepare: () => ({}) }
    expect(() => queue.enqueue('report', null, { tx })).toThrow(expect.objectContaining({ code: 'queue_closed' }))
  })

  it('refuses two transactions in one call', () => {
    const [one, other] = [0, 1].map(() => ({ inTransaction: true, prepare: () => ({}) }))
    const type = queue.define('report', { payload: anything, idempotency: { none: 'a test' } })
    expect(() => type.enqueueMany(['a', 'b'], (payload) => ({ tx: payload === 'a' ? one! : other! }))).toThrow(/one commit/)
  })
})

const anything = {
  '~standard': { version: 1, vendor: 'test', validate: (value: unknown) => ({ value: value as string }) },
} as const

it('work goes on at once as long as no statement answers with a promise, and waits from there on', async () => {
  function* work(): Work<unknown[]> {
    const sum: unknown[] = []
    for (const sql of ['a', 'b', 'c']) sum.push(...(yield { sql, params: [] }).flat())
    return sum
  }
  const run = (promised: string) => ({
    ...transactionOn(product),
    run: ({ sql }: { sql: string }) => (sql === promised ? Promise.resolve([[sql]]) : [[sql]]),
  })
  expect(runIn(run('none'), work())).toEqual(['a', 'b', 'c'])
  const later = runIn(run('b'), work())
  expect(later).toBeInstanceOf(Promise)
  expect(await later).toEqual(['a', 'b', 'c'])
})
