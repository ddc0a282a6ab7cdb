/**
 * What holds when a handler completes its job, or remembers a checkpoint, in a transaction of the product's. The product's own
 * rows are jobs here: every library can write those.
 */
import { expect, it } from 'vitest'
import { z } from 'zod'
import { PermanentError, TransientError, type JobContext, type ProductTransaction } from '../../src/index.js'
import type { Product } from './places.js'

interface Within<Tx extends ProductTransaction> {
  product(): Product
  /** Commits what the function did, or rolls it back when it fails. */
  transaction(work: (tx: Tx) => Promise<unknown>): Promise<unknown>
  newDoc(): string
}

type Run = (job: JobContext<unknown>) => unknown

export function completion<Tx extends ProductTransaction>({ product, transaction, newDoc }: Within<Tx>): void {
  let types = 0
  const define = (run: Run) =>
    product().queue.define(`writes-${++types}`, {
      payload: z.unknown(),
      idempotency: { none: 'a test' },
      retry: { backoff: () => 0, jitter: false },
      run: run as () => string,
    })
  const enqueueAndDrain = async (run: Run) => {
    const { job } = await define(run).enqueue(null)
    const events: string[] = []
    const worker = product().queue.work()
    for (const event of ['succeeded', 'failed', 'lease_lost'] as const)
      worker.on(event, ({ id }) => events.push(`${event} ${id === job.id}`))
    await worker.idle()
    await worker.stop()
    return { job: await job.refresh(), events: events.filter((event) => event.endsWith('true')) }
  }
  const rowsOf = (doc: string) => product().queue.count({ idempotencyKey: JSON.stringify([doc]) })
  const enqueue = (doc: string, tx: Tx) => product().report.enqueue({ doc }, { tx })

  it('a job is completed in the commit of the rows, and its end is told once', async () => {
    const doc = newDoc()
    const seen: unknown[] = []
    const { job, events } = await enqueueAndDrain(async (context) => {
      await transaction(async (tx) => {
        await enqueue(doc, tx)
        await context.complete(tx, { answer: 42, text: "ü'$1?" })
      })
      seen.push((await product().queue.get(context.id))!.status, await rowsOf(doc))
      return 'not looked at'
    })
    expect(seen).toEqual(['succeeded', 1])
    expect([job.status, await job.result(), job.lockedBy, job.history]).toEqual([
      'succeeded',
      { answer: 42, text: "ü'$1?" },
      null,
      [],
    ])
    expect(events).toEqual(['succeeded true'])
  })

  it('what its streams got last is in the commit of the completion', async () => {
    const seen: unknown[] = []
    const { job } = await enqueueAndDrain(async ({ id, attempt, stream, complete }) => {
      await stream('text').write(`attempt ${attempt}`)
      await transaction(async (tx) => {
        await stream('text').write(', to the end')
        await complete(tx, attempt)
        await stream('text')
          .write(', and beyond')
          .catch((error: unknown) => seen.push((error as { code: string }).code))
        if (attempt === 1) throw new TransientError('the rest failed')
      })
      seen.push(await product().queue.readStream(id, 'text'))
    })
    const whole = { attempt: 2, offset: 0, text: 'attempt 2, to the end', done: true }
    expect([job.status, ...seen]).toEqual(['succeeded', 'lease_lost', 'lease_lost', whole])
  })

  it('a rollback takes both back, and the next attempt does both', async () => {
    const doc = newDoc()
    const { job } = await enqueueAndDrain(({ attempt, complete }) =>
      transaction(async (tx) => {
        await enqueue(doc, tx)
        await complete(tx, attempt)
        if (attempt === 1) throw new TransientError('the rest failed')
      }),
    )
    expect([job.status, job.attempts, await job.result(), await rowsOf(doc)]).toEqual(['succeeded', 2, 2, 1])
  })

  it('what a handler throws after its job was completed changes nothing', async () => {
    const { job, events } = await enqueueAndDrain(async ({ complete }) => {
      await transaction((tx) => complete(tx))
      throw new PermanentError('too late')
    })
    expect([job.status, job.lastError, events]).toEqual(['succeeded', null, ['succeeded true']])
  })

  it('a handler that swallows the failure of its transaction does not succeed', async () => {
    const { job } = await enqueueAndDrain(async ({ complete }) => {
      const over = transaction(async (tx) => {
        await complete(tx)
        throw new Error('undone')
      })
      await over.catch(() => {})
    })
    expect(job).toMatchObject({ status: 'failed', lastError: expect.stringContaining('had not been committed') as string })
  })

  it('a second completion is refused, and the job fails with its transaction', async () => {
    const doc = newDoc()
    const { job } = await enqueueAndDrain(({ complete }) =>
      transaction(async (tx) => {
        await enqueue(doc, tx)
        await complete(tx, 1)
        await complete(tx, 2)
      }),
    )
    expect(job).toMatchObject({ status: 'failed', lastError: expect.stringContaining('not completed twice') as string })
    expect(await rowsOf(doc)).toBe(0)
  })

  it('a checkpoint is there exactly when the rows are, and later attempts find it', async () => {
    const doc = newDoc()
    const found: unknown[] = []
    const { job } = await enqueueAndDrain(async ({ attempt, checkpoint, recorded }) => {
      found.push(await recorded('rows'))
      if (found.at(-1) === undefined) {
        await transaction(async (tx) => {
          await enqueue(doc, tx)
          await checkpoint(tx, 'rows', { attempt })
          if (attempt === 1) throw new TransientError('rolled back')
        })
        found.push(await recorded('rows'))
      }
      if (attempt === 2) throw new TransientError('after the commit')
      return 'done'
    })
    expect(job.status).toBe('succeeded')
    expect(found).toEqual([undefined, undefined, { value: { attempt: 2 } }, { value: { attempt: 2 } }])
    expect(await rowsOf(doc)).toBe(1)
  })

  it('a checkpoint that is recorded already fails its transaction', async () => {
    const [first, second] = [newDoc(), newDoc()]
    const { job } = await enqueueAndDrain(async ({ checkpoint }) => {
      for (const doc of [first, second]) {
        await transaction(async (tx) => {
          await enqueue(doc, tx)
          await checkpoint(tx, 'rows')
        })
      }
    })
    expect(job).toMatchObject({ status: 'failed', lastError: expect.stringContaining('recorded already') as string })
    expect([await rowsOf(first), await rowsOf(second)]).toEqual([1, 0])
  })

  it('a lost claim fails the whole transaction', async () => {
    const [completing, noting] = [newDoc(), newDoc()]
    const seen: unknown[] = []
    await enqueueAndDrain(async (context) => {
      const store = await product().queue.open()
      const [row] = await store.get([context.id])
      const canceled = { settlement: { status: 'canceled', entry: null }, maxAttempts: 5, keepForMs: null } as const
      await store.settle([{ id: context.id, token: row!.claimToken, ...canceled }])
      const late = [
        (tx: Tx) => enqueue(completing, tx).then(() => context.complete(tx)),
        (tx: Tx) => enqueue(noting, tx).then(() => context.checkpoint(tx, 'rows')),
      ]
      for (const work of late) seen.push(await transaction(work).catch((error: unknown) => error))
    })
    expect(seen).toMatchObject([{ code: 'lease_lost' }, { code: 'lease_lost' }])
    expect([await rowsOf(completing), await rowsOf(noting)]).toEqual([0, 0])
  })
}
