import { describe, expect, it } from 'vitest'
import type { Driver, SqlRow, SqlValue } from '../../../src/stores/sqlite/driver.js'
import { newJob } from '../../../src/testing/new-job.js'
import { openStore } from './support.js'

/** The connection, noting the text of every statement it prepares. */
function noting(connection: Driver, change: (sql: string) => string = (sql) => sql): Set<string> {
  const statements = new Set<string>()
  const { prepare } = connection
  connection.prepare = (sql) => {
    const changed = change(sql)
    statements.add(changed)
    return prepare(changed)
  }
  return statements
}

function plan(connection: Driver, sql: string): string[] {
  const params: SqlValue[] = Array.from({ length: 12 }, () => null).slice(0, numberOfParams(sql))
  return connection
    .prepare(`EXPLAIN QUERY PLAN ${sql}`)
    .all(...params)
    .map((row: SqlRow) => String(row[3]))
}

function numberOfParams(sql: string): number {
  const numbered = Array.from(sql.matchAll(/\?(\d+)/g), ([, number]) => Number(number))
  return numbered.length > 0 ? Math.max(...numbered) : (sql.match(/\?/g) ?? []).length
}

const worker = { id: 'w', host: 'h', pid: 1, process: null, queues: ['default'], types: ['mail'], concurrency: 1 }
const claim = { workerId: 'w', token: 't', queues: ['default'], types: ['mail'], limit: 10 }
const entry = { attempt: 1, kind: 'permanent', code: 'c', message: 'm' } as const

describe('query plans', () => {
  it('every statement reads jobs by an index or a range of rowids, and a claim sorts nothing', async () => {
    let statements = new Set<string>()
    const { store, connection } = openStore({ path: ':memory:', onOpen: (driver) => void (statements = noting(driver)) })
    await store.migrate()
    await store.register(worker, 1_000)
    await store.heartbeat('w', 1_000)
    await store.insert([newJob({ id: 'a', idempotencyKey: 'k' }), newJob({ idempotencyKey: 'k' }), newJob({ id: 'b' })])
    await store.claim({ ...claim, limit: 1 })
    const write = { id: 'a', token: 't', maxAttempts: 5, keepForMs: null }
    await store.report([{ id: 'a', token: 't', stage: 's' }])
    await store.report([{ id: 'a', token: 't', streams: [{ name: 'n', offset: 0, text: 'x', done: false }] }])
    await store.streams('a')
    await store.readStream('a', 'n', { attempt: 1, offset: 0 }, 10)
    await store.settle([{ ...write, settlement: { status: 'failed', entry, userMessage: 'u' } }])
    await store.settle([{ ...write, settlement: { status: 'succeeded', result: null } }])
    await store.settle([{ ...write, settlement: { status: 'canceled', entry } }])
    await store.settle([{ ...write, settlement: { status: 'retrying', delayMs: 0, attempts: 1, waits: 0, entry } }])
    await store.insert([newJob({ idempotencyKey: 'k', supersedes: { id: 'a', status: 'failed' } })])
    await store.cancel(['b'], null)
    await store.repair(['b'], null)
    await store.events('a')
    await store.list({}, { limit: 5, before: 'b' })
    await store.list({ ids: ['a'], status: ['failed'] }, { limit: 5 })
    await store.list({ idempotencyKey: 'k' }, { limit: 5 })
    await store.list({ held: true }, { limit: 5 })
    await store.count({ type: ['mail'] })
    await store.overview()
    await store.workers()
    await store.lost(5)
    await store.retire('w')
    await store.insert([newJob({ id: 'c' })])
    await store.cancel(['c'], null)
    await store.prune({ succeededMs: 0, failedMs: 0, canceledMs: 0 }, 5)

    const onJobs = [...statements].filter((sql) => /\bjobs\b/.test(sql) && !/^(CREATE|EXPLAIN)/.test(sql))
    expect(onJobs.length).toBeGreaterThan(20)
    for (const sql of onJobs) {
      for (const line of plan(connection(), sql)) {
        expect(line, sql).not.toMatch(/^SCAN jobs(?! USING (COVERING )?INDEX jobs_running)/)
        expect(line, sql).not.toContain('AUTOMATIC')
        if (!/GROUP BY|ORDER BY locked_at|ORDER BY rowid/.test(sql)) expect(line, sql).not.toContain('TEMP B-TREE')
      }
    }
    const taking = onJobs.find((sql) => sql.includes(`SET status = 'running'`))!
    expect(plan(connection(), taking)).toContain(
      'SEARCH jobs USING INDEX jobs_claimable (queue=? AND priority=? AND run_after<?)',
    )
    const inDoubt = onJobs.find((sql) => sql.includes('SELECT jobs.rowid FROM job_steps'))!
    expect(plan(connection(), inDoubt)[0]).toMatch(/USING (COVERING )?INDEX job_steps_started/)
    const pruning = onJobs.filter((sql) => sql.includes('lengths'))
    // A look without a lock, and one in the transaction that deletes.
    expect(pruning).toHaveLength(2)
    for (const sql of pruning) {
      const jobs = plan(connection(), sql).filter((line) => line.startsWith('SEARCH jobs USING'))
      expect(jobs).toContain('SEARCH jobs USING COVERING INDEX jobs_finished (status=? AND keep_for>?)')
      expect(jobs.join()).toMatch(/INDEX jobs_finished \(status=\? AND keep_for=\? AND <expr><\?\)/)
    }
    await store.close()
  })

  it('the workers are read without the jobs', async () => {
    let statements = new Set<string>()
    const { store } = openStore({ path: ':memory:', onOpen: (driver) => void (statements = noting(driver)) })
    await store.migrate()
    await store.insert([newJob()])
    statements.clear()
    await store.workers()
    expect([...statements].filter((sql) => /\bjobs\b/.test(sql))).toEqual([])
    await store.close()
  })

  it('pruning visits what it deletes, not what is kept', async () => {
    let visited = 0
    let tokens = 0
    let now = 1_700_000_000_000
    const { store } = openStore({
      path: ':memory:',
      clock: { now: () => now },
      onOpen: (driver) => {
        driver.define('visit', (rowid) => (visited++, rowid === null ? null : 1))
        const seen = 'AND jobs.keep_for = lengths.keep_for'
        noting(driver, (sql) => sql.replaceAll(seen, `${seen} AND visit(jobs.rowid)`))
      },
    })
    await store.migrate()
    await store.register(worker, 1_000_000)
    const finish = async (count: number, keepForMs: number | null): Promise<void> => {
      await store.insert(Array.from({ length: count }, () => newJob({})))
      const { jobs } = await store.claim({ ...claim, token: `${tokens++}`, limit: count })
      await store.settle(
        jobs.map(({ id, claimToken: token }) => ({
          id,
          token,
          maxAttempts: 5,
          keepForMs,
          settlement: { status: 'succeeded', result: null },
        })),
      )
    }
    const retention = { succeededMs: 1_000, failedMs: 1_000, canceledMs: 1_000 }
    await finish(1_000, 500_000)
    await finish(1_000, 600_000)
    await finish(10, 2_000)
    await finish(5, null)
    now += 1_500
    await finish(1_000, 500)
    await finish(1_000, null)
    expect(await store.prune(retention, 100)).toHaveLength(5)
    // One more for the look whether anything is past.
    expect(visited).toBe(6)
    visited = 0
    expect(await store.prune(retention, 100)).toEqual([])
    expect(visited).toBe(0)
    now += 501
    expect(await store.prune(retention, 100)).toHaveLength(10)
    expect(visited).toBe(11)
    await store.close()
  })

  it('a claim reads the rows it takes, whatever stands in front of them', async () => {
    let visited = 0
    const { store } = openStore({
      path: ':memory:',
      onOpen: (driver) => {
        driver.define('visit', (value) => (visited++, value === null ? null : 1))
        noting(driver, (sql) => sql.replaceAll('AND type IN (SELECT', 'AND visit(jobs.rowid) AND type IN (SELECT'))
      },
    })
    await store.migrate()
    await store.register(worker, 60_000)
    const many = (count: number, columns: Parameters<typeof newJob>[0]) =>
      store.insert(Array.from({ length: count }, () => newJob(columns)))
    await many(2_000, { priority: -1, runAfter: { delayMs: 3_600_000 } })
    await many(2_000, { queue: 'other' })
    await many(2_000, {})
    for (let i = 0; i < 100; i++) {
      const { jobs } = await store.claim({ ...claim, token: `${i}`, limit: 10 })
      await store.settle(
        jobs.map(({ id, claimToken }) => ({
          id,
          token: claimToken,
          maxAttempts: 5,
          keepForMs: null,
          settlement: { status: 'succeeded', result: null },
        })),
      )
    }
    visited = 0
    const { jobs } = await store.claim({ ...claim, token: 'last', limit: 10 })
    expect(jobs).toHaveLength(10)
    // One more for the look whether anything is due.
    expect(visited).toBe(11)
    await store.close()
  })

  it('a claim that finds nothing due takes no write lock', async () => {
    let statements = new Set<string>()
    const { store } = openStore({ path: ':memory:', onOpen: (driver) => void (statements = noting(driver)) })
    await store.migrate()
    await store.register(worker, 60_000)
    await store.insert([newJob({ runAfter: { delayMs: 5_000 } }), newJob({ type: 'unknown' })])
    const before = statements.size
    const { jobs, nextDueInMs } = await store.claim(claim)
    expect(jobs).toEqual([])
    expect(nextDueInMs).toBeGreaterThan(4_000)
    expect([...statements].slice(before).filter((sql) => !/^(WITH RECURSIVE|SELECT)/.test(sql))).toEqual([])
    await store.close()
  })
})
