/** Claims of many rows start where the last one ended: what came to stand before that place must not wait for long. */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { postgresStore } from '../../../src/stores/postgres/index.js'
import type { JobRow, Store } from '../../../src/store.js'
import { freeSchema, quoted, type TestSchema } from '../../support/postgres/database.js'

const MANY = 150
/** Longer than a claim of many rows may be followed by others that do not look from the very beginning. */
const WINDOW_MS = 1_100

let place: TestSchema
let store: Store
let claims = 0

beforeEach(async () => {
  place = await freeSchema()
  store = postgresStore({ connection: place.url, schema: place.schema })
  await store.migrate()
  await store.register({ id: 'w', host: 'h', pid: 1, process: null, queues: [], types: [], concurrency: 1 }, 600_000)
})
afterEach(async () => {
  await store.close()
  await place.drop()
})

const claim = async (queues: string[], limit = MANY): Promise<{ ids: string[]; jobs: JobRow[]; nextDueInMs: number | null }> => {
  const answer = await store.claim({ workerId: 'w', token: `t${++claims}`, queues, types: ['mail'], limit })
  return { ...answer, ids: answer.jobs.map(({ id }) => id) }
}

/** By another program. All are due, and those of one call at one time. */
const insert = (queue: string, prefix: string, n: number, { secondsAgo = 0, priority = 0 } = {}): Promise<unknown> =>
  place.query(
    `INSERT INTO ${quoted(place.schema)}.jobs (id, type, queue, priority, run_after)
     SELECT $1 || lpad(i::text, 5, '0'), 'mail', $2, $3, now() - $4::float8 * interval '1 second' FROM generate_series(1, $5::int) i`,
    [`${prefix}-`, queue, priority, secondsAgo, n],
  )

/** Claims until it is among them, and answers with these. */
async function claimUntil(id: string, queues: string[]): Promise<string[]> {
  for (;;) {
    const { ids } = await claim(queues)
    if (ids.length < MANY || ids.includes(id)) return ids
    await sleep(20)
  }
}

it('each job of a backlog is claimed once, in order, though many have one time', async () => {
  await insert('default', 'job', 2_000)
  const all: string[] = []
  for (let ids = ['']; ids.length > 0;) all.push(...(ids = (await claim(['default'])).ids))
  expect(all).toEqual(Array.from({ length: 2_000 }, (_, i) => `job-${String(i + 1).padStart(5, '0')}`))
})

it('an earlier job and one of a new priority, inserted by others, are claimed while the backlog goes on', async () => {
  await insert('default', 'job', 60_000)
  await claim(['default'])
  await insert('default', 'early', 1, { secondsAgo: 60 })
  expect(await claimUntil('early-00001', ['default'])).toHaveLength(MANY)
  await insert('default', 'urgent', 1, { priority: -5 })
  expect(await claimUntil('urgent-00001', ['default'])).toHaveLength(MANY)
})

it('a claim that found too little says when to ask again, and what was in front is claimed then', async () => {
  await insert('default', 'job', MANY)
  await claim(['default'])
  await insert('default', 'early', 1, { secondsAgo: 60 })
  const { ids, nextDueInMs } = await claim(['default'])
  if (ids.length === 0) {
    expect(nextDueInMs).toBeLessThanOrEqual(1_000)
    await sleep(nextDueInMs! + 5)
    expect((await claim(['default'])).ids).toEqual(['early-00001'])
  } else expect(ids).toEqual(['early-00001'])
})

it('a job that was handed back comes again', async () => {
  await insert('default', 'job', 60_000)
  const [row] = (await claim(['default'])).jobs
  await claim(['default'])
  const settlement = { status: 'retrying', delayMs: null, attempts: 0, waits: 0, entry: null } as const
  await store.settle([{ id: row!.id, token: row!.claimToken, settlement, maxAttempts: 5, keepForMs: null }])
  expect(await claimUntil(row!.id, ['default'])).toHaveLength(MANY)
})

it('workers of other queues do not keep one from looking at the beginning of its own', async () => {
  await insert('a', 'a', 40 * MANY)
  await insert('b', 'b', 4 * MANY)
  await claim(['b'])
  await sleep(WINDOW_MS)
  await claim(['a'])
  await insert('b', 'early', 1, { secondsAgo: 60 })
  expect((await claim(['b'])).ids).toContain('early-00001')
})

it('a claim of few rows finds at once whatever is due', async () => {
  await insert('default', 'job', 10 * MANY)
  await claim(['default'])
  await insert('default', 'early', 1, { secondsAgo: 60 })
  expect((await claim(['default'], 10)).ids).toContain('early-00001')
})
