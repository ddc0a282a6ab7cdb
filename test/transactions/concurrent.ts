/** What holds between transactions that are open at the same time. SQLite has one at a time. */
import { expect, it } from 'vitest'
import type { ProductTransaction } from '../../src/index.js'
import { query } from '../support/postgres/server.js'
import type { Library } from './suite.js'

export function concurrently<Tx extends ProductTransaction>({ open, on }: Library<Tx>): void {
  it.each(['commits', 'rolls back'])('of two at the same time with one key the second waits until the first %s', async (end) => {
    const { database, report, queue, close } = await on()
    const connection = await open(database)
    let finish!: () => void
    const finished = new Promise<void>((resolve) => (finish = resolve))
    let enqueued!: (id: string) => void
    const first = new Promise<string>((resolve) => (enqueued = resolve))

    const one = connection.transaction(async (tx) => {
      enqueued((await report.enqueue({ doc: 'a' }, { tx })).job.id)
      await finished
      if (end === 'rolls back') throw new Error('undone')
    })
    const id = await first
    let answered = false
    const other = connection.transaction(async (tx) => {
      const answer = await report.enqueue({ doc: 'a' }, { tx })
      answered = true
      // Whatever came out, this transaction can still do what it wants.
      await report.enqueue({ doc: 'b' }, { tx })
      return answer
    })
    await waiting(database)
    expect(answered).toBe(false)
    finish()
    if (end === 'commits') await one
    else await expect(one).rejects.toThrow('undone')
    const { job, duplicate } = await other
    expect([duplicate, job.id === id]).toEqual(end === 'commits' ? [true, true] : [false, false])
    expect(await queue.count()).toBe(2)
    await connection.close()
    await close()
  })
}

/** Resolves when a session of this database waits for another one's transaction. */
async function waiting(url: string): Promise<void> {
  for (;;) {
    const [row] = await query<{ waits: boolean }>(
      url,
      `SELECT count(*) > 0 AS waits FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'transactionid'`,
    )
    if (row!.waits) return
  }
}
