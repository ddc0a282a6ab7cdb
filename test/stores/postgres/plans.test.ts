/**
 * How the server answers the statements of the store, on a table of 100,000 finished jobs and some of every other kind. Each is
 * planned as on a connection of the store's own pool, and as on one whose settings are somebody else's: a product's pool, or what a
 * pooler gives.
 */
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { array } from '../../../src/stores/postgres/array.js'
import { claim } from '../../../src/stores/postgres/claim.js'
import { openPool, PLANNED_FREELY, type PgClient, type PgPool } from '../../../src/stores/postgres/connections.js'
import { dialect } from '../../../src/stores/postgres/dialect.js'
import { list } from '../../../src/stores/postgres/find.js'
import { postgresStore } from '../../../src/stores/postgres/index.js'
import { insertAll } from '../../../src/stores/postgres/insert.js'
import { cancelAll, get, repairAll } from '../../../src/stores/postgres/people.js'
import { prune } from '../../../src/stores/postgres/prune.js'
import { scout } from '../../../src/stores/postgres/scout.js'
import { reportAll, settleAll, settleFree } from '../../../src/stores/postgres/settle.js'
import { readStream, streamsOf } from '../../../src/stores/postgres/streams.js'
import { beat, lostClaims } from '../../../src/stores/postgres/workers.js'
import { newJob } from '../../../src/testing/new-job.js'
import type { FencedSettlement } from '../../../src/store.js'
import type { Query, Values, Work } from '../../../src/transactions/transaction.js'
import { freeSchema, quoted } from '../../support/postgres/database.js'

const place = await freeSchema()
const { text } = dialect(place.schema)
const jobs = `${quoted(place.schema)}.jobs`
const DAY = 86_400_000

let ownPool: PgPool
let foreignPool: pg.Pool
beforeAll(async () => {
  ownPool = await openPool(place.url, { tuned: true, connectMs: 10_000 })
  foreignPool = new pg.Pool({ connectionString: place.url })
  const store = postgresStore({ connection: place.url, schema: place.schema })
  await store.migrate()
  await store.register({ id: 'w', host: 'h', pid: 1, process: null, queues: ['default'], types: ['mail'], concurrency: 1 }, DAY)
  await store.close()
  // Statistics are made when a test says so.
  await place.query(`ALTER TABLE ${jobs} SET (autovacuum_enabled = off)`)
})
afterAll(async () => {
  await ownPool.end()
  await foreignPool.end()
  await place.drop()
})

/** The statements that the work asks, when the answer to each is as given. */
function statements(work: Work<unknown>, ...answers: Values[][]): Query[] {
  const asked: Query[] = []
  let step = work.next()
  for (const answer of [...answers, undefined]) {
    if (step.done) break
    asked.push(step.value)
    if (answer) step = work.next(answer)
  }
  return asked
}

interface PlanNode {
  'Node Type': string
  'Relation Name'?: string
  'Index Name'?: string
  'Actual Rows': number
  'Actual Loops': number
  'Rows Removed by Filter'?: number
  'Shared Hit Blocks': number
  'Shared Read Blocks': number
  Plans?: PlanNode[]
}

interface Explained {
  /** What reads jobs, as `Index Scan jobs_pkey`. */
  reads: string[]
  /** Rows of jobs that were looked at by an index. */
  visited: number
  /** Pages that were looked at, in memory or not. */
  pages: number
}

/** Freely: as statements that read much are planned on either. */
type Planner = 'own' | 'foreign' | 'own, taken back' | 'foreign, taken back'

/** Runs the statement, takes back what it did, and tells how it was done. */
async function explain(planner: Planner, { sql, params }: Query): Promise<Explained> {
  const [whose, free] = planner.split(', ')
  const client: PgClient = whose === 'own' ? await ownPool.connect() : await foreignPool.connect()
  const ask = async (query: string, values: readonly unknown[] = []) =>
    (await client.query({ text: query, values, rowMode: 'array' })).rows
  const explaining = 'EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON)'
  try {
    await ask(free ? `BEGIN; ${PLANNED_FREELY}` : 'BEGIN')
    let rows: unknown[][]
    if (planner === 'own') {
      await ask(`PREPARE asked AS ${sql}`)
      const values = params.map((value) => (typeof value === 'string' ? pg.escapeLiteral(value) : String(value ?? 'NULL')))
      rows = await ask(`${explaining} EXECUTE asked${values.length > 0 ? `(${values.join(', ')})` : ''}`)
      await ask('DEALLOCATE asked')
    } else {
      rows = await ask(`${explaining} ${sql}`, params)
    }
    await ask('ROLLBACK')
    const [{ Plan: plan }] = rows[0]![0] as [{ Plan: PlanNode }]
    return summary(plan)
  } finally {
    client.release(true)
  }
}

function summary(plan: PlanNode): Explained {
  const nodes: PlanNode[] = []
  const collect = (node: PlanNode): void => {
    nodes.push(node)
    node.Plans?.forEach(collect)
  }
  collect(plan)
  const onJobs = nodes.filter(({ 'Relation Name': relation, 'Index Name': index, 'Node Type': type }) =>
    type.endsWith('Scan') && type !== 'Bitmap Heap Scan' ? relation === 'jobs' || index?.startsWith('jobs_') : false,
  )
  const byIndex = onJobs.filter((node) => node['Index Name'] !== undefined)
  return {
    reads: [...new Set(onJobs.map((node) => `${node['Node Type']} ${node['Index Name'] ?? ''}`.trim()))].toSorted(),
    visited: byIndex.reduce(
      (sum, node) => sum + Math.round((node['Actual Rows'] + (node['Rows Removed by Filter'] ?? 0)) * node['Actual Loops']),
      0,
    ),
    pages: plan['Shared Hit Blocks'] + plan['Shared Read Blocks'],
  }
}

const request = { workerId: 'w', token: 'new', queues: ['default'], types: ['mail'], limit: 10 }
const fromHere = { places: [{ queue: 'default', priority: 0, runAfter: 0, id: '' }], early: ['waiting-1'] }
const entry = { attempt: 1, kind: 'permanent', code: 'c', message: 'm' } as const
const settlements: FencedSettlement[] = [
  { id: 'running-1', token: 't', maxAttempts: 5, keepForMs: null, settlement: { status: 'succeeded', result: null } },
  { id: 'running-2', token: 't', maxAttempts: 5, keepForMs: 5, settlement: { status: 'succeeded', result: '1' } },
  { id: 'running-3', token: 't', maxAttempts: 5, keepForMs: null, settlement: { status: 'failed', entry, userMessage: 'u' } },
]
const keyed = newJob({ id: 'new', type: 'mail', idempotencyKey: 'key-7' })
const streaming = { id: 'running-1', token: 't', streams: [{ name: 'n', offset: 0, text: 'x', done: false }] }
const inserting = { quiet: true }
const retention = { succeededMs: DAY, failedMs: DAY, canceledMs: DAY }

/** The statements, and what they may read jobs by. */
const CASES: [name: string, query: () => Query, indexes: string[]][] = [
  ['an exact claim', () => statements(claim(text, request, []))[0]!, ['jobs_claimable', 'jobs_pkey', 'ctid']],
  [
    'a claim from here',
    () => statements(claim(text, request, [], { from: fromHere }))[0]!,
    ['jobs_claimable', 'jobs_pkey', 'ctid'],
  ],
  ['a scout', () => statements(scout(text, request, fromHere.places))[0]!, ['jobs_claimable']],
  ['a claim that settles', () => statements(claim(text, request, settlements))[0]!, ['jobs_claimable', 'jobs_pkey', 'ctid']],
  ['a settlement', () => statements(settleAll(text, settlements))[0]!, ['jobs_pkey']],
  ['a settlement in the transaction of a product', () => statements(settleAll(text, settlements, 'patient'))[0]!, ['jobs_pkey']],
  ['the look for rows that nobody has locked', () => statements(settleFree(text, settlements))[0]!, ['jobs_pkey']],
  ['the look at what was not settled', () => statements(settleAll(text, settlements), [])[1]!, ['jobs_pkey']],
  ['a report', () => statements(reportAll(text, [{ id: 'running-1', token: 't', stage: 's' }]))[0]!, ['jobs_pkey']],
  ['a report with streams', () => statements(reportAll(text, [streaming]))[0]!, ['jobs_pkey']],
  ['the streams of a job', () => statements(streamsOf(text, 'running-1'))[0]!, ['jobs_pkey']],
  [
    'the text of a stream',
    () => statements(readStream(text, 'running-1', 'n', { attempt: 1, offset: 9 }, 10))[0]!,
    ['jobs_pkey'],
  ],
  ['a heartbeat', () => statements(beat(text, 'w', 30_000))[0]!, ['jobs_running']],
  ['the search for lost claims', () => statements(lostClaims(text, 100, ['mail']))[0]!, ['jobs_running']],
  ['the look for dead workers', () => statements(lostClaims(text, 100, ['mail']), [])[1]!, ['jobs_running']],
  ['pruning', () => statements(prune(text, retention, 500))[0]!, ['jobs_finished', 'ctid']],
  ['an insert', () => statements(insertAll(text, [keyed], inserting))[0]!, []],
  [
    'the look at what stands in its way',
    () => statements(insertAll(text, [keyed], inserting), [])[1]!,
    ['jobs_pkey', 'jobs_key'],
  ],
  ['a job by its id', () => statements(get(text, ['running-1', 'done-5']))[0]!, ['jobs_pkey']],
  ['a cancellation', () => statements(cancelAll(text, ['running-1'], null))[0]!, ['jobs_pkey']],
  ['a repair', () => statements(repairAll(text, ['done-5'], null))[0]!, ['jobs_pkey']],
  [
    'a list by key',
    () => statements(list(text, { idempotencyKey: 'key-7' }, { limit: 20 }))[0]!,
    ['jobs_key', 'jobs_superseded'],
  ],
  ['a list of what is held', () => statements(list(text, { held: true }, { limit: 20 }))[0]!, ['jobs_pkey']],
  ['a page of the list', () => statements(list(text, {}, { limit: 20 }))[0]!, ['jobs_pkey', 'jobs_created']],
]

/** Where a page begins: at the newest job, or behind one of the middle, of each kind of ids. */
const PAGES: [where: string, query: () => Query][] = [
  ['the first page', () => statements(list(text, {}, { limit: 20 }))[0]!],
  ['a page behind an id of jobtable', () => statements(list(text, {}, { limit: 20, before: timedId(25_000) }))[0]!],
  [
    'a page behind an id of others',
    () => statements(list(text, {}, { limit: 20, before: 'done-50000' }), [[MIDNIGHT - 50_000_000]])[1]!,
  ],
]
const MIDNIGHT = Date.UTC(2026, 0, 1)
const timedId = (i: number): string => {
  const digits = (MIDNIGHT - i * 1_000).toString(16).padStart(12, '0')
  return `${digits.slice(0, 8)}-${digits.slice(8)}-7000-8000-000000000000`
}

const stages = [
  [
    'filled after its statistics were made',
    async () => {
      await place.query(`ANALYZE ${jobs}`)
      await fill()
    },
  ],
  ['analyzed', () => place.query(`ANALYZE ${jobs}`)],
  ['vacuumed', () => place.query(`VACUUM ANALYZE ${jobs}`)],
] as const

/** Everything in one queue and one other, jobs with few lengths of keeping, every third with a key. */
async function fill(): Promise<void> {
  const insert = (columns: string, values: string, count: number) =>
    place.query(`INSERT INTO ${jobs} (id, type, status, ${columns}) SELECT ${values} FROM generate_series(1, ${count}) AS i`)
  await insert(
    'finished_at, keep_for, idempotency_key, locked_by',
    `'done-' || i, 'mail', CASE WHEN i % 10 = 0 THEN 'failed' ELSE 'succeeded' END, now() - i * interval '1 second',
      (i % 3) * 1000, CASE WHEN i % 3 = 0 THEN 'key-' || i END, NULL`,
    100_000,
  )
  await place.query(
    `UPDATE ${jobs} SET created_at = to_timestamp(${MIDNIGHT / 1_000}) - substr(id, 6)::int * interval '1 second'`,
  )
  await place.query(
    `INSERT INTO ${jobs} (id, type, status, finished_at) SELECT id, 'mail', 'succeeded', now() - interval '1 hour' FROM unnest($1::text[]) AS id`,
    [Array.from({ length: 50_000 }, (_, i) => timedId(i))],
  )
  await place.query(`INSERT INTO ${quoted(place.schema)}.job_steps (job_id, name, kind, state, attempt, started_at)
    SELECT 'done-' || i, 'charge', 'effect', CASE WHEN i % 1000 = 0 THEN 'started' ELSE 'done' END, 1, now()
    FROM generate_series(1, 30000) AS i`)
  await insert('priority', `'pending-' || i, 'mail', 'pending', 0`, 3_000)
  await insert('priority, run_after', `'delayed-' || i, 'mail', 'retrying', -1, now() + interval '1 hour'`, 3_000)
  await insert('queue', `'elsewhere-' || i, 'mail', 'pending', 'other'`, 3_000)
  await insert('locked_by, claim_token, locked_at', `'running-' || i, 'mail', 'running', 'w', 't', now()`, 500)
}

describe.each(stages)('on a table %s', (_, prepare) => {
  beforeAll(async () => void (await prepare()))

  it.each(
    CASES.flatMap(([name, query, indexes]) => [
      ['own', name, query, indexes] as const,
      ['foreign', name, query, indexes] as const,
    ]),
  )('with %s settings, %s reads jobs by its index alone', async (planner, _name, query, indexes) => {
    const { reads } = await explain(planner, query())
    const by = reads.map((read) => (read === 'Tid Scan' ? 'ctid' : read.replace(/^.* /, '')))
    expect(
      by.filter((index) => !indexes.includes(index)),
      reads.join(),
    ).toEqual([])
  })

  it.each(
    PAGES.flatMap(([where, query]) => [
      ['own, taken back', where, query] as const,
      ['foreign, taken back', where, query] as const,
    ]),
  )('with %s settings, %s is read by its indexes, and sorts nothing else', async (planner, _where, query) => {
    const { reads, visited } = await explain(planner, query())
    expect(reads).toEqual(['Index Scan jobs_created', 'Index Scan jobs_pkey'])
    // Twenty by each, and all that were created in the moment of the last: five hundred run since the newest.
    expect(visited).toBeLessThan(600)
  })

  it.each(['own', 'foreign'] as const)(
    'with %s settings, a claim looks at what it takes, and at nothing that stands before or behind',
    async (planner) => {
      const [exact] = statements(claim(text, request, []))
      const [here] = statements(claim(text, request, [], { from: fromHere }))
      // Ten jobs, the first row of each of two levels, and those of the delayed ones that tell when to come again.
      expect((await explain(planner, exact!)).visited).toBeLessThan(16)
      expect((await explain(planner, here!)).visited).toBeLessThan(12)
    },
  )
})

it.each(['own', 'foreign'] as const)(
  'while a snapshot is held, with %s settings, a claim from here does not walk over what was claimed before',
  async (planner) => {
    const report = await foreignPool.connect()
    await report.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
    await report.query('SELECT 1')
    const queue = `held-${planner}`
    const fillQueue = (first: number, last: number) =>
      place.query(
        `INSERT INTO ${jobs} (id, type, queue) SELECT '${queue}-' || i, 'mail', '${queue}' FROM generate_series($1::int, $2::int) AS i`,
        [first, last],
      )
    const claimed = { ...request, queues: [queue] }
    await fillQueue(1, 20_000)
    await place.query(`UPDATE ${jobs} SET status = 'running' WHERE queue = '${queue}'`)
    await fillQueue(20_001, 20_100)
    const [{ now }] = (await place.query<{ now: number }>(
      `SELECT date_part('epoch', min(run_after)) * 1000 AS now FROM ${jobs} WHERE queue = '${queue}' AND status = 'pending'`,
    )) as [{ now: number }]
    const [exact] = statements(claim(text, claimed, []))
    const [fromHere] = statements(
      claim(text, claimed, [], { from: { places: [{ queue, priority: 0, runAfter: now, id: '' }], early: [] } }),
    )
    const walked = await explain(planner, exact!)
    const direct = await explain(planner, fromHere!)
    await report.query('ROLLBACK')
    report.release()
    expect([walked.visited, direct.visited].map((rows) => rows >= 10 && rows < 16)).toEqual([true, true])
    expect(walked.pages).toBeGreaterThan(20_000 / 100)
    expect(direct.pages).toBeLessThan(walked.pages / 3)
  },
)

it('an array is read as it was written', async () => {
  const texts = ['a', 'null', 'NULL', '', ' b ', 'c"d', 'e\\f', 'g,h', '{i}', "it's", 'ä', '👍']
  const rows = await place.query<{ items: string[] }>('SELECT $1::text[] AS items', [array(texts)])
  expect(rows).toEqual([{ items: texts }])
})
