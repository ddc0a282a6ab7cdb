import { expect, describe, it } from 'vitest'
import { newJob } from '../../src/testing/new-job.js'
import { DATABASES } from './support/databases.js'
import { anything } from './support/types.js'

const TABLES = ['job_events', 'job_steps', 'job_streams'] as const

describe.each(DATABASES)('a job that somebody deletes by hand on $name', ({ name, place }) => {
  async function withLeftovers(...ids: string[]) {
    const here = await place()
    const queue = here.queue()
    queue.define('work', {
      ...anything,
      run: async (job) => {
        await job.step('made', () => job.id)
        await job.stream('text').write(`of ${job.id}`)
        await job.stream('text').end()
        await job.stage('made')
      },
    })
    for (const id of ids) await queue.enqueue('work', {}, { id })
    await queue.drain()
    const left = async (): Promise<unknown[][]> =>
      Promise.all(TABLES.map(async (table) => (await here.sql(`SELECT DISTINCT job_id FROM ${table} ORDER BY 1`)).flat()))
    expect(await left()).toEqual(TABLES.map(() => ids.toSorted()))
    return { here, queue, left }
  }

  it('takes its timeline, steps and streams with it, so that the next one of its id begins with none', async () => {
    const { here, queue, left } = await withLeftovers('a', 'b')
    await here.sql(`DELETE FROM jobs WHERE id = 'a'`)
    expect(await left()).toEqual(TABLES.map(() => ['b']))
    await queue.enqueue('work', {}, { id: 'a' })
    expect([await queue.steps('a'), await queue.streamsOf('a')]).toEqual([[], []])
    await queue.drain()
    expect((await queue.get('a'))!.status).toBe('succeeded')
    expect(await queue.steps('a')).toHaveLength(1)
  })

  it('does so when all of them are deleted', async () => {
    const { here, left } = await withLeftovers('a', 'b')
    await here.sql(name === 'PostgreSQL' ? 'TRUNCATE jobs' : 'DELETE FROM jobs')
    expect(await left()).toEqual([[], [], []])
  })
})

it('a version before the trigger still finds the files of the jobs that it prunes, on PostgreSQL', async () => {
  const here = await DATABASES.find(({ name }) => name === 'PostgreSQL')!.place()
  const queue = here.queue()
  await (await queue.open()).insert([newJob({ id: 'a' })])
  await here.sql(`INSERT INTO job_events (job_id, at, kind, attempt, message) VALUES ('a', now(), 'file', 1, 'a/1/x.pdf')`)
  await here.sql(`CREATE TABLE found (message text)`)
  // One transaction of two statements, as it made them.
  await here.sql(`DO $$ BEGIN
    DELETE FROM jobs WHERE id = 'a';
    WITH gone AS (DELETE FROM job_events WHERE job_id = 'a' RETURNING message) INSERT INTO found SELECT message FROM gone;
  END $$`)
  expect(await here.sql('SELECT * FROM found')).toEqual([['a/1/x.pdf']])
  expect(await here.sql('SELECT * FROM job_events')).toEqual([])
})
