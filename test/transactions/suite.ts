/**
 * What holds in the transactions of every library that can wait within one. Each library's test says how to begin one, and what of
 * it is no transaction.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import type { ProductTransaction } from '../../src/index.js'
import { completion } from './completion.js'
import type { Product } from './places.js'

export interface Library<Tx extends ProductTransaction> {
  open(database: string): Promise<Connection<Tx>>
  on(): Promise<Product>
}

export interface Connection<Tx extends ProductTransaction> {
  /** Commits what the function did, or rolls it back when it rejects. */
  transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T>
  /** The library's own objects that are no transactions, and what the error says of each. */
  refused(): Record<string, [object, RegExp]>
  /** The statements that the library has sent, where it tells; with its own BEGIN and COMMIT or without. */
  statements?(): readonly string[]
  close(): Promise<void>
}

class RollBack extends Error {}

export function describeTransactions<Tx extends ProductTransaction>({ open, on }: Library<Tx>): void {
  let product: Product
  let connection: Connection<Tx>
  let docs = 0
  const newDoc = (): string => `doc ${++docs}`
  beforeAll(async () => {
    product = await on()
    connection = await open(product.database)
  })
  afterAll(async () => {
    await connection?.close()
    await product?.close()
  })

  const rolledBack = async (work: (tx: Tx) => Promise<unknown>): Promise<void> => {
    const error = new RollBack()
    const over = connection.transaction(async (tx) => {
      await work(tx)
      throw error
    })
    await expect(over).rejects.toBe(error)
  }
  /** The ids of the jobs with the key of this document, the newest first. */
  const idsOf = async (doc: string): Promise<string[]> =>
    (await product.queue.list({ idempotencyKey: JSON.stringify([doc]) })).map(({ id }) => id)

  it('a commit enqueues, and nobody sees the job before it', async () => {
    const doc = newDoc()
    const { job, duplicate } = await connection.transaction(async (tx) => {
      const answer = await product.report.enqueue({ doc }, { tx, priority: 3 })
      expect(await product.queue.get(answer.job.id)).toBeUndefined()
      return answer
    })
    expect(duplicate).toBe(false)
    expect((await product.queue.get(job.id))?.toJSON()).toEqual(job.toJSON())
    await product.queue.drain()
    expect(await job.result()).toBe(`report of ${doc}`)
  })

  it('a rollback enqueues nothing', async () => {
    const doc = newDoc()
    await rolledBack((tx) => product.report.enqueue({ doc }, { tx }))
    expect(await idsOf(doc)).toEqual([])
  })

  it('a duplicate of a job that was committed before is answered by that one, and the transaction goes on', async () => {
    const [doc, other] = [newDoc(), newDoc()]
    const before = await product.report.enqueue({ doc })
    const [again, fresh] = await connection.transaction(async (tx) => [
      await product.report.enqueue({ doc }, { tx }),
      await product.report.enqueue({ doc: other }, { tx }),
    ])
    expect([again.duplicate, again.job.id]).toEqual([true, before.job.id])
    expect(again.job.toJSON()).toEqual(before.job.toJSON())
    expect(await idsOf(other)).toEqual([fresh.job.id])
  })

  it('a duplicate of a job of the same transaction is answered by that one', async () => {
    const doc = newDoc()
    const [first, second] = await connection.transaction(async (tx) => [
      await product.report.enqueue({ doc }, { tx }),
      await product.report.enqueue({ doc }, { tx }),
    ])
    expect([second.duplicate, second.job.id]).toEqual([true, first.job.id])
    expect(await idsOf(doc)).toEqual([first.job.id])
  })

  it('another payload under the same key is refused, and the transaction goes on', async () => {
    const [doc, other] = [newDoc(), newDoc()]
    await product.report.enqueue({ doc })
    await connection.transaction(async (tx) => {
      await expect(async () => product.report.enqueue({ doc, copies: 2 }, { tx })).rejects.toThrow(/copies/)
      await product.report.enqueue({ doc: other }, { tx })
    })
    expect(await idsOf(other)).toHaveLength(1)
  })

  it('a failed job gives its key to one in the transaction, and keeps it in a rollback', async () => {
    const doc = newDoc()
    const { job: failed } = await product.report.enqueue({ doc, fail: true })
    await product.queue.drain()
    await rolledBack((tx) => product.report.enqueue({ doc }, { tx }))
    expect((await failed.refresh()).supersededBy).toBeNull()

    const { job, duplicate } = await connection.transaction((tx) => product.report.enqueue({ doc }, { tx }))
    expect(duplicate).toBe(false)
    expect((await failed.refresh()).supersededBy).toBe(job.id)
    expect(await idsOf(doc)).toEqual([job.id, failed.id])
    expect(await product.queue.steps(job.id)).toMatchObject([{ name: 'print', state: 'done', value: '"printed"' }])
  })

  it('an id that is taken is refused, and the transaction goes on', async () => {
    const [doc, other] = [newDoc(), newDoc()]
    const { job } = await product.report.enqueue({ doc })
    await connection.transaction(async (tx) => {
      const taken = async () => product.report.enqueue({ doc: newDoc() }, { tx, id: job.id })
      await expect(taken).rejects.toMatchObject({ code: 'duplicate_id' })
      await product.report.enqueue({ doc: other }, { tx })
    })
    expect(await idsOf(other)).toHaveLength(1)
  })

  it('many are enqueued in order, duplicates among them too', async () => {
    const [a, b] = [newDoc(), newDoc()]
    const answers = await connection.transaction((tx) => product.report.enqueueMany([{ doc: a }, { doc: b }, { doc: a }], { tx }))
    expect(answers.map(({ duplicate }) => duplicate)).toEqual([false, false, true])
    expect(answers.map(({ job }) => job.payload)).toEqual([{ doc: a }, { doc: b }, { doc: a }])
    await expect(connection.transaction((tx) => product.report.enqueueMany([], () => ({ tx })))).resolves.toEqual([])
  })

  it('by name, and with everything that JSON and a delay can hold', async () => {
    const runAfter = new Date('2040-01-02T03:04:05.678Z')
    const payload = { text: `"'?$1 :name \\ 🙂`, number: 0.1, list: [null, true] }
    const options = {
      runAfter,
      queue: 'slow',
      maxAttempts: 3,
      traceContext: '00-abc-def-01',
      id: `own-${newDoc().replace(' ', '-')}`,
    }
    const { job } = await connection.transaction((tx) => product.queue.enqueue('elsewhere', payload, { ...options, tx }))
    expect((await product.queue.get(job.id))?.toJSON()).toEqual(job.toJSON())
    expect(job).toMatchObject({ id: options.id, payload, runAfter, queue: 'slow', maxAttempts: 3 })
  })

  it('a payload that is refused is thrown at once, so that the function of the transaction ends with it', async () => {
    const count = await product.queue.count()
    await connection.transaction(async (tx) => {
      expect(() => product.report.enqueue({ doc: 1 as unknown as string }, { tx })).toThrow(/doc/)
    })
    expect(await product.queue.count()).toBe(count)
  })

  it('what is no transaction is refused at once, with what to pass', async () => {
    const refused = Object.entries(connection.refused())
    expect(refused).not.toEqual([])
    for (const [what, [tx, message]] of refused) {
      const enqueue = () => product.report.enqueue({ doc: newDoc() }, { tx: tx as Tx })
      expect(enqueue, what).toThrow(message)
      expect(enqueue, what).toThrow(expect.objectContaining({ code: 'config_invalid' }))
    }
  })

  it('says that the tables are missing', async ({ skip }) => {
    const { untabled } = product
    if (!untabled) return skip('a file has one set of tables')
    const enqueued = connection.transaction((tx) => untabled.enqueue('report', {}, { tx }))
    await expect(enqueued).rejects.toMatchObject({
      code: 'schema_missing',
      message: expect.stringContaining('migrate') as string,
    })
  })

  it('one round trip enqueues one, and many', async ({ skip }) => {
    const { statements } = connection
    if (!statements) return skip('the library is in the process itself')
    for (const docs of [[newDoc()], [newDoc(), newDoc(), newDoc()]]) {
      await connection.transaction(async (tx) => {
        const before = statements().length
        await product.report.enqueueMany(
          docs.map((doc) => ({ doc })),
          { tx },
        )
        expect(statements().slice(before)).toEqual([expect.stringContaining('jobs')])
      })
    }
  })

  it('a worker takes the job after the commit, and not before', async () => {
    const ran: string[] = []
    const type = product.queue.define('wake', {
      payload: z.object({ name: z.string() }),
      idempotency: { none: 'a test' },
      run: ({ payload: { name } }) => void ran.push(name),
    })
    const worker = product.queue.work({ pollInterval: '10m' })
    await worker.idle()
    const { job } = await connection.transaction(async (tx) => {
      const answer = await type.enqueue({ name: 'inside' }, { tx })
      await worker.idle()
      expect(ran).toEqual([])
      return answer
    })
    await job.result({ timeout: '10s' })
    expect(ran).toEqual(['inside'])
    await worker.stop()
  })

  describe('a handler', () => {
    completion<Tx>({ product: () => product, transaction: (work) => connection.transaction(work), newDoc })
  })
}
