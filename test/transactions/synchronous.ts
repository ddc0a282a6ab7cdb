/** What holds in a transaction whose function must not return a promise. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { z } from 'zod'
import type { EnqueueResult, ProductTransaction } from '../../src/index.js'
import { onSqlite, type Product } from './places.js'

export interface SynchronousConnection<Tx extends ProductTransaction> {
  /** Commits what the function did, or rolls it back when it throws. */
  atOnce(work: (tx: Tx) => void): void
  refused(): Record<string, [object, RegExp]>
  close(): Promise<void>
}

export function describeSynchronous<Tx extends ProductTransaction>(
  open: (file: string) => Promise<SynchronousConnection<Tx>>,
): void {
  let product: Product
  let connection: SynchronousConnection<Tx>
  let docs = 0
  const newDoc = (): string => `synchronous ${++docs}`
  beforeAll(async () => {
    product = await onSqlite()
    connection = await open(product.database)
  })
  afterAll(async () => {
    await connection?.close()
    await product?.close()
  })

  const inside = async <T>(work: (tx: Tx) => Promise<T>): Promise<T> => {
    let answer: Promise<T> | undefined
    connection.atOnce((tx) => {
      answer = work(tx)
    })
    return answer!
  }

  it('has enqueued when the function returns: one, many, and their duplicates', async () => {
    const [a, b] = [newDoc(), newDoc()]
    let many: Promise<EnqueueResult<string>[]> | undefined
    const first = await inside((tx) => {
      const one = product.report.enqueue({ doc: a }, { tx })
      many = product.report.enqueueMany([{ doc: a }, { doc: b }], { tx })
      return one
    })
    expect(await product.queue.count({ idempotencyKey: JSON.stringify([b]) })).toBe(1)
    const [again, other] = await many!
    expect([first.duplicate, again!.duplicate, other!.duplicate]).toEqual([false, true, false])
    expect(again!.job.id).toBe(first.job.id)
    expect((await first.job.refresh()).toJSON()).toEqual(first.job.toJSON())
  })

  it('has taken the key of a finished job over when the function returns', async () => {
    const doc = newDoc()
    const { job: failed } = await product.report.enqueue({ doc, fail: true })
    await product.queue.drain()
    const { job, duplicate } = await inside((tx) => product.report.enqueue({ doc }, { tx }))
    expect(duplicate).toBe(false)
    expect((await failed.refresh()).supersededBy).toBe(job.id)
  })

  it('a rollback enqueues nothing', async () => {
    const doc = newDoc()
    const undo = (): void =>
      connection.atOnce((tx) => {
        void product.report.enqueue({ doc }, { tx })
        throw new Error('undone')
      })
    expect(undo).toThrow('undone')
    expect(await product.queue.count({ idempotencyKey: JSON.stringify([doc]) })).toBe(0)
  })

  it('what is refused is thrown within the function, which rolls back what it did before', async () => {
    const [before, taken] = [newDoc(), newDoc()]
    await product.report.enqueue({ doc: taken })
    const refused: [object, RegExp][] = [
      [{ doc: 1 }, /doc/],
      [{ doc: taken, copies: 2 }, /copies/],
    ]
    for (const [payload, message] of refused) {
      const enqueue = (): void =>
        connection.atOnce((tx) => {
          void product.report.enqueue({ doc: before }, { tx })
          void product.report.enqueue(payload as { doc: string }, { tx })
        })
      expect(enqueue).toThrow(message)
    }
    expect(await product.queue.count({ idempotencyKey: JSON.stringify([before]) })).toBe(0)
  })

  it('an asynchronous payload schema comes too late: it is refused, and nothing is written', async () => {
    const late = product.queue.define('late', {
      payload: z.object({ doc: z.string() }).refine(async () => true),
      idempotency: { none: 'a test' },
    })
    await expect(inside((tx) => late.enqueue({ doc: 'a' }, { tx }))).rejects.toMatchObject({ code: 'transaction_over' })
    expect(await product.queue.count({ type: ['late'] })).toBe(0)
  })

  it('a file that still exists answers; a job in place of one that has vanished comes too late, and is not written', async () => {
    const file = product.queue.define('file', {
      payload: z.object({ doc: z.string() }),
      idempotency: { key: ['doc'], onDuplicate: 'return_existing_file' },
      run: (job) => job.file('a.txt', 'a'),
    })
    const { job } = await inside((tx) => file.enqueue({ doc: 'a' }, { tx }))
    await product.queue.drain()
    const again = await inside((tx) => file.enqueue({ doc: 'a' }, { tx }))
    expect([again.duplicate, again.job.id]).toEqual([true, job.id])
    await product.queue.files.delete((await job.result()).key)
    await expect(inside((tx) => file.enqueue({ doc: 'a' }, { tx }))).rejects.toMatchObject({ code: 'transaction_over' })
    expect(await product.queue.count({ type: ['file'] })).toBe(1)
  })

  it('what is no transaction is refused within the function', () => {
    for (const [what, [tx, message]] of Object.entries(connection.refused())) {
      const enqueue = (): void => connection.atOnce(() => void product.report.enqueue({ doc: newDoc() }, { tx: tx as Tx }))
      expect(enqueue, what).toThrow(message)
    }
  })

  it('a worker takes the job after the commit', async () => {
    const worker = product.queue.work({ pollInterval: '10m' })
    await worker.idle()
    const doc = newDoc()
    const { job } = await inside((tx) => product.report.enqueue({ doc }, { tx }))
    expect(await job.result({ timeout: '10s' })).toBe(`report of ${doc}`)
    await worker.stop()
  })

  it('a handler completes its job, or notes a checkpoint, before the function returns', async () => {
    const [done, noted] = [newDoc(), newDoc()]
    const type = product.queue.define('synchronous', {
      payload: z.enum(['complete', 'checkpoint']),
      idempotency: { none: 'a test' },
      result: z.object({ ok: z.boolean() }),
      run: async ({ payload, complete, checkpoint, recorded }) => {
        connection.atOnce((tx) => {
          void product.report.enqueue({ doc: payload === 'complete' ? done : noted }, { tx })
          void (payload === 'complete' ? complete(tx, { ok: true }) : checkpoint(tx, 'rows', 7))
        })
        return { ok: (await recorded('rows'))?.value === 7 }
      },
    })
    const jobs = await type.enqueueMany(['complete', 'checkpoint'])
    await product.queue.drain()
    for (const { job } of jobs) expect(await job.result()).toEqual({ ok: true })
    expect(await product.queue.count({ idempotencyKey: JSON.stringify([done]) })).toBe(1)
    expect(await product.queue.count({ idempotencyKey: JSON.stringify([noted]) })).toBe(1)
  })

  it('what is wrong with a completion is thrown within the function, which rolls back what it did before', async () => {
    const doc = newDoc()
    const thrown: unknown[] = []
    const wrong = product.queue.define('wrong_result', {
      payload: z.null(),
      idempotency: { none: 'a test' },
      result: z.object({ ok: z.boolean() }),
      run: ({ complete }) => {
        const undone = (): void =>
          connection.atOnce((tx) => {
            void product.report.enqueue({ doc }, { tx })
            void complete(tx, 'no object')
          })
        expect(undone).toThrow(expect.objectContaining({ code: 'result_invalid' }))
        thrown.push('within')
        return { ok: true }
      },
    })
    const { job } = await wrong.enqueue(null)
    await product.queue.drain()
    expect(thrown).toEqual(['within'])
    expect(await product.queue.count({ idempotencyKey: JSON.stringify([doc]) })).toBe(0)
    expect((await job.refresh()).lastError).toMatch(/had not been committed/)
  })

  it('a result schema that has to be waited for comes too late: the job does not succeed', async () => {
    const late = product.queue.define('late_result', {
      payload: z.null(),
      idempotency: { none: 'a test' },
      result: z.object({ ok: z.boolean() }).refine(async () => true),
      run: async ({ complete }) => {
        await expect(inside((tx) => complete(tx, { ok: true }))).rejects.toMatchObject({ code: 'transaction_over' })
        return { ok: true }
      },
    })
    const { job } = await late.enqueue(null)
    await product.queue.drain()
    expect(await job.refresh()).toMatchObject({
      status: 'failed',
      lastError: expect.stringMatching(/had not been committed/) as string,
    })
  })
}
