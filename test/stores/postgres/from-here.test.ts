/** Claims that start where the last one ended; which do is tested in places.test.ts. */
import { expect, it, onTestFinished } from 'vitest'
import pg from 'pg'
import { z } from 'zod'
import { jobtable } from '../../../src/index.js'
import type { ClaimRequest, JobRow, Store } from '../../../src/store.js'
import { postgresStore } from '../../../src/stores/postgres/index.js'
import { settling, succeeded } from '../../../src/testing/conformance/bench.js'
import { newJob } from '../../../src/testing/new-job.js'
import { freeSchema, quoted } from '../../support/postgres/database.js'

const MANY = 100
const LONG_AGO = 1_600_000_000_000
const queues = ['default']
const types = ['mail']
let tokens = 0
const request = (limit = MANY): ClaimRequest => ({ workerId: 'w', token: `t${++tokens}`, queues, types, limit })

/** A store with a worker and so many jobs, all due at one time. */
async function backlog(count: number) {
  const place = await freeSchema()
  onTestFinished(() => place.drop())
  const store = postgresStore({ connection: place.url, schema: place.schema })
  onTestFinished(() => store.close())
  await store.migrate()
  await store.register({ id: 'w', host: 'h', pid: 1, process: null, queues, types, concurrency: 1 }, 60_000)
  await store.insert(due('0', count))
  return { ...place, store, jobs: `${quoted(place.schema)}.jobs` }
}

const due = (prefix: string, count: number) =>
  Array.from({ length: count }, (_, i) => newJob({ id: `${prefix}-${String(i).padStart(3, '0')}`, runAfter: { at: LONG_AGO } }))

const claimed = async (store: Store): Promise<JobRow[]> => (await store.claim(request())).jobs

it('are answered in full where jobs that came early stand behind the place as well', async () => {
  const { store, query, jobs } = await backlog(MANY)
  expect(await claimed(store)).toHaveLength(MANY)
  await store.insert(due('1', 50))
  await query(`INSERT INTO ${jobs} (id, type, run_after) SELECT '2-' || i, 'mail', now() FROM generate_series(1, 100) i`)
  expect(await claimed(store)).toHaveLength(MANY)
})

it('say when to look again for what they miss, when their settlements had to wait for a row, too', async () => {
  const { store, query, url, jobs } = await backlog(MANY)
  const [first] = await claimed(store)
  await query(`INSERT INTO ${jobs} (id, type, run_after) VALUES ('missed', 'mail', '2000-01-01')`)
  const other = new pg.Client(url)
  onTestFinished(() => other.end())
  await other.connect()
  await other.query(`BEGIN; SELECT 1 FROM ${jobs} WHERE id = '${first!.id}' FOR UPDATE`)
  const answer = await store.claim(request(), [settling(first!, succeeded)])
  expect(answer.jobs).toEqual([])
  expect(answer.settled).toEqual(['locked'])
  expect(answer.nextDueInMs).toBeLessThanOrEqual(100)
})

it('do not make drain() end while something is due that they missed', async () => {
  const { query, url, schema, jobs } = await backlog(0)
  const queue = jobtable(url, { store: postgresStore({ connection: url, schema }) })
  onTestFinished(() => queue.close())
  let ran = 0
  const mail = queue.define('mail', {
    payload: z.object({ last: z.boolean().optional() }),
    idempotency: { none: 'each is counted' },
    run: async ({ payload }) => {
      ran++
      if (payload.last) await query(`INSERT INTO ${jobs} (id, type, payload, priority) VALUES ('beside', 'mail', '{}', 7)`)
    },
  })
  await Promise.all(Array.from({ length: 1_000 }, (_, i) => mail.enqueue({ last: i === 999 })))
  await queue.drain({ concurrency: 200 })
  expect(ran).toBe(1_001)
})
