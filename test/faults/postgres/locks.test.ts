/** Rows that a transaction of somebody else's has locked, and does not let go. */
import pg from 'pg'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { Job } from '../../../src/index.js'
import { emptyDatabase } from '../../support/postgres/database.js'
import { query } from '../../support/postgres/server.js'
import { recordingLog, until } from '../support/place.js'
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

  it('does not hold up the settlements of the others, nor what is due after them; its own is written once it is free', async () => {
    const url = await emptyDatabase()
    const log = recordingLog()
    const queue = queueOn(url, { logger: log })
    let finish!: () => void
    const mayFinish = new Promise<void>((resolve) => (finish = resolve))
    const started: number[] = []
    queue.define('type', {
      ...anything,
      run: async ({ payload }) => {
        started.push(payload as number)
        if (payload !== 3) await mayFinish
        return payload
      },
    })
    const jobs = [
      (await queue.enqueue('type', 0)).job,
      (await queue.enqueue('type', 1)).job,
      (await queue.enqueue('type', 2)).job,
    ]
    const { worker, errors } = working(queue, { concurrency: 3 })
    await until('all run', () => started.length === 3)
    const other = await begun(url)
    await lock(other, jobs[0]!.id)
    finish()
    expect(await Promise.all([jobs[1]!.result(), jobs[2]!.result()])).toEqual([1, 2])
    const later = (await queue.enqueue('type', 3)).job
    expect(await later.result()).toBe(3)
    expect((await jobs[0]!.refresh()).status).toBe('running')
    await until('the worker has told of it', () => log.lines.some(({ message }) => /is locked by a transaction/.test(message)))
    await other.query('ROLLBACK')
    expect(await jobs[0]!.result()).toBe(0)
    expect((await jobs[0]!.refresh()).attempts).toBe(1)
    expect(errors).toEqual([])
    await worker.stop()
  })

  it('does not hold up the stages and the streams of the others; its own are written once it is free, in order', async () => {
    const url = await emptyDatabase()
    const queue = queueOn(url)
    let goOn!: () => void
    const mayGoOn = new Promise<void>((resolve) => (goOn = resolve))
    let finish!: () => void
    const mayFinish = new Promise<void>((resolve) => (finish = resolve))
    let running = 0
    queue.define('type', {
      ...anything,
      run: async (job) => {
        running++
        await mayGoOn
        for (const stage of ['one', 'two']) {
          await job.stage(stage)
          await job.stream('text').write(`${stage} `)
        }
        await mayFinish
        await job.stage('three')
      },
    })
    const [locked, free] = [(await queue.enqueue('type', 0)).job, (await queue.enqueue('type', 1)).job]
    const { worker, errors } = working(queue, { concurrency: 2 })
    await until('both run', () => running === 2)
    const other = await begun(url)
    await lock(other, locked.id)
    goOn()
    const textOf = async ({ id }: { id: string }): Promise<string | undefined> => (await queue.readStream(id, 'text'))?.text
    await until('the other has said all', async () => (await textOf(free)) === 'one two ')
    expect((await free.refresh()).stage).toBe('two')
    expect((await locked.refresh()).stage).toBeNull()
    await other.query('ROLLBACK')
    await until('it has said all, too', async () => (await textOf(locked)) === 'one two ')
    finish()
    await Promise.all([locked.result(), free.result()])
    const stages = async (job: Job): Promise<string[]> =>
      (await job.events()).flatMap(({ kind, message }) => (kind === 'stage' ? [message] : []))
    expect(await stages(locked)).toEqual(['one', 'two', 'three'])
    expect(await stages(free)).toEqual(['one', 'two', 'three'])
    expect(errors).toEqual([])
    await worker.stop()
  })

  it('lets a stopping worker go at its deadline, and its job is run by another once it is free', async () => {
    const url = await emptyDatabase()
    const queue = queueOn(url)
    let finish!: () => void
    const mayFinish = new Promise<void>((resolve) => (finish = resolve))
    let runs = 0
    queue.define('type', {
      ...anything,
      retry: { backoff: () => 0 },
      run: async () => {
        if (runs++ === 0) await mayFinish
      },
    })
    const { job } = await queue.enqueue('type', 0)
    const first = working(queue)
    await until('it runs', () => runs === 1)
    const other = await begun(url)
    await lock(other, job.id)
    finish()
    await first.worker.stop({ timeout: '1ms' })
    expect((await job.refresh()).status).toBe('running')
    const second = working(queue)
    await other.query('ROLLBACK')
    await job.result()
    expect(runs).toBe(2)
    await second.worker.stop()
  })

  it('is none where a row of the product refers to it: its job is reported on, remembered, canceled and ended meanwhile', async () => {
    const url = await emptyDatabase()
    const queue = queueOn(url)
    await queue.open()
    await query(url, 'CREATE TABLE parts (job_id text COLLATE "C" REFERENCES jobs (id))')
    const other = await begun(url)
    const refer = (id: string): Promise<unknown> => other.query('INSERT INTO parts (job_id) VALUES ($1)', [id])
    const seen: unknown[] = []
    queue.define('type', {
      ...anything,
      run: async (job) => {
        await refer(job.id)
        await job.stage('halfway')
        await job.step('remembered', () => 1)
        await queue.cancel(job.id)
        seen.push((await (await queue.get(job.id))!.refresh()).stage, (await queue.steps(job.id)).length)
      },
    })
    const { job } = await queue.enqueue('type', 0)
    await refer(job.id)
    const { worker, errors } = working(queue)
    await job.result()
    expect([seen, errors]).toEqual([['halfway', 1], []])
    await worker.stop()
  })
})
