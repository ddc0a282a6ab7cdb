/** Rows that a transaction of somebody else's has locked, and does not let go. */
import pg from 'pg'
import { describe, expect, it, onTestFinished } from 'vitest'
import { emptyDatabase } from '../../support/postgres/database.js'
import { query } from '../../support/postgres/server.js'
import { until } from '../support/place.js'
import { anything } from '../support/types.js'
import { queueOn, working } from './support.js'

/** A transaction that is open until the test is over, if it is not ended before. */
async function begun(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  onTestFinished(() => client.end())
  await client.query('BEGIN')
  return client
}

const lock = (client: pg.Client, id: string): Promise<unknown> =>
  client.query('SELECT id FROM jobs WHERE id = $1 FOR UPDATE', [id])

describe('a row that is locked', { timeout: 60_000 }, () => {
  it('does not hold up the recovery of the others, and is recovered once it is free', async () => {
    const url = await emptyDatabase()
    const queue = queueOn(url)
    const ran: string[] = []
    queue.define('type', { ...anything, retry: { backoff: () => 0 }, run: (job) => void ran.push(job.id) })
    const ids: string[] = []
    for (let i = 0; i < 5; i++) ids.push((await queue.enqueue('type', i)).job.id)
    await query(
      url,
      `UPDATE jobs SET status = 'running', attempts = 1, locked_by = 'gone', claim_token = 'gone', locked_at = now()`,
    )
    const other = await begun(url)
    await lock(other, ids[0]!)
    expect((await (await queue.open()).lost(10)).map(({ id }) => id).sort()).toEqual(ids.slice(1))
    const { worker, errors } = working(queue, { lease: '2s' })
    await until('the others have run', () => ran.length === 4)
    expect([...ran].sort()).toEqual(ids.slice(1))
    await other.query('ROLLBACK')
    await until('it has run, too', () => ran.length === 5)
    expect(errors).toEqual([])
    await worker.stop()
  })
})
