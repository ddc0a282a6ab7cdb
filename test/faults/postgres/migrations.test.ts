import pg from 'pg'
import { describe, expect, it, onTestFinished } from 'vitest'
import { SCHEMA_VERSION } from '../../../src/stores/postgres/schema.js'
import { Database } from '../../../src/stores/postgres/database.js'
import { dialect } from '../../../src/stores/postgres/dialect.js'
import { postgresStore } from '../../../src/stores/postgres/index.js'
import { postgresSchema } from '../../../src/stores/postgres/migrate.js'
import type { Store } from '../../../src/store.js'
import { newJob } from '../../../src/testing/new-job.js'
import type { Work } from '../../../src/transactions/transaction.js'
import { emptyDatabase, pooled } from '../../support/postgres/database.js'
import { absence } from '../../support/postgres/pgbouncer.js'
import { query } from '../../support/postgres/server.js'
import { Child, startChild, startChildren } from '../support/child.js'
import { folder, until } from '../support/place.js'
import { anything, defineTypes } from '../support/types.js'
import { queueOn, testServer, timed, working } from './support.js'

const VERSIONS = [{ version: 1 }, { version: 2 }, { version: 3 }, { version: 4 }, { version: 5 }]
/** With its triggers. */
const UNDO_4 = ['deleted', 'deleted_events', 'truncated'].map((name) => `DROP FUNCTION jobtable_${name} CASCADE`).join('; ')
const UNDO_5 = 'DROP INDEX jobs_created; CREATE INDEX jobs_created ON jobs (created_at)'
const site = (url: string) => ({ url, folder: folder(), writable: () => true })

/** Makes each trigger that a migration of this database creates take this long, once its tables are there. Seconds. */
async function slowDown(url: string, seconds: number): Promise<void> {
  await query(
    url,
    `CREATE FUNCTION slow() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(${seconds}); END $$`,
  )
  await query(url, `CREATE EVENT TRIGGER slow ON ddl_command_end WHEN TAG IN ('CREATE TRIGGER') EXECUTE FUNCTION slow()`)
}

const asleep = async (url: string): Promise<boolean> =>
  (await query(url, `SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'`)).length > 0

const advisoryLocks = (url: string): Promise<unknown[]> =>
  query(
    url,
    `SELECT * FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`,
  )

describe('migrating', { timeout: 60_000 }, () => {
  it('eight processes at once make the tables once, and all of them work', async () => {
    const url = await emptyDatabase()
    const children = await startChildren(site(url), 8)
    expect(await query(url, 'SELECT version FROM jobtable_migrations ORDER BY version')).toEqual(VERSIONS)
    const ids = await Promise.all(children.map((child) => child.order({ do: 'enqueue_counts', count: 1, inFlight: 1 })))
    expect(new Set(ids.flat()).size).toBe(8)
    expect(children.flatMap((child) => child.errors)).toEqual([])
    expect(await advisoryLocks(url)).toEqual([])
  })

  const ways: [string, (url: string) => Promise<string>][] = [['', async (url) => url]]
  const reason = absence()
  if (reason === undefined) ways.push([' behind PgBouncer', pooled])
  else it.skip(`a process that is killed while it migrates behind PgBouncer holds up nobody (skipped: ${reason})`)

  it.each(ways)('a process that is killed while it migrates holds up nobody, and leaves no lock%s', async (_, way) => {
    const url = await emptyDatabase()
    await slowDown(url, 1)
    const through = await way(url)
    const first = new Child(site(through), {})
    onTestFinished(() => first.kill())
    await until('it is in the middle', () => asleep(url))
    await first.kill()
    // The server notices when the statement that it is at is over.
    expect(await timed(startChild(site(through)))).toBeLessThan(15_000)
    expect(await query(url, 'SELECT version FROM jobtable_migrations ORDER BY version')).toEqual(VERSIONS)
    expect(await advisoryLocks(url)).toEqual([])
  })
})

it.each([
  [1, 'steps', 'DROP TABLE job_steps; DROP TABLE job_streams'],
  [2, 'streams', 'DROP TABLE job_streams'],
])('tables of version %i, before %s, get theirs, and keep their jobs', async (from, table, drop) => {
  const undo = `${UNDO_5}; ${drop}; ${UNDO_4}; ALTER TABLE jobs DROP COLUMN rev; DELETE FROM jobtable_migrations WHERE version > ${from}`
  const url = await emptyDatabase()
  await (await queueOn(url).open()).insert([newJob({ id: 'kept' })])
  await query(url, undo)
  const store = postgresStore({ connection: url })
  onTestFinished(() => store.close())
  expect(await store.migrate()).toEqual({ from, to: 5 })
  expect((await store.get(['kept']))[0]).toMatchObject({ status: 'pending', rev: 0 })
  expect([await store.steps('kept'), await store.streams('kept')]).toEqual([[], []])
  await query(url, `${undo}; CREATE TABLE job_${table} (mine text)`)
  await expect(store.migrate()).rejects.toMatchObject({ code: 'schema_conflict', data: { table: `job_${table}` } })
})

const createdIndex = async (url: string): Promise<string> =>
  ((await query(url, `SELECT pg_get_indexdef('jobs_created'::regclass) AS def`))[0] as { def: string }).def

it('tables of version 4 get another index of creation, in their own schema, which others may have one beside', async () => {
  const url = await emptyDatabase()
  await (await queueOn(url).open()).insert([newJob({ id: 'kept' })])
  const made = await createdIndex(url)
  expect(made).toMatch(/WHERE \(NOT \(id ~~ '0_/)
  await query(
    url,
    `${UNDO_5}; DELETE FROM jobtable_migrations WHERE version > 4; CREATE SCHEMA other; CREATE TABLE other.mine (id int);
    CREATE INDEX jobs_created ON other.mine (id)`,
  )
  const roleUrl = `${url}?options=${encodeURIComponent('-c search_path=other')}`
  const store = postgresStore({ connection: roleUrl })
  onTestFinished(() => store.close())
  expect(await store.migrate()).toEqual({ from: 4, to: 5 })
  expect(await createdIndex(url)).toBe(made)
  expect(await query(url, `SELECT to_regclass('other.jobs_created') IS NOT NULL AS kept`)).toEqual([{ kept: true }])
  // What a process looks for that knows version 4.
  expect(await query(url, 'SELECT max(works_with) FROM jobtable_migrations')).toEqual([{ max: 1 }])
  expect((await store.list({}, { limit: 5 })).map(({ id }) => id)).toEqual(['kept'])
})

it.each([
  ['a new schema', (store: Store) => store.migrate()],
  ['a printed script', (_: Store, url: string) => query(url, postgresSchema('queue'))],
])('%s gets the tables that an upgrade gives, and keeps its own indexes', async (_, make) => {
  const url = await emptyDatabase()
  await query(url, 'CREATE SCHEMA queue; CREATE TABLE queue.mine (id int); CREATE INDEX jobs_mine ON queue.mine (id)')
  const store = postgresStore({ connection: url, schema: 'queue' })
  onTestFinished(() => store.close())
  await make(store, url)
  expect(await store.migrate()).toEqual({ from: 5, to: 5 })
  const indexes = `SELECT indexname, replace(indexdef, 'queue.', '') AS def FROM pg_indexes WHERE schemaname = 'queue' ORDER BY 1`
  const fresh = await query(url, indexes)
  await query(
    url,
    `DROP INDEX queue.jobs_created; CREATE INDEX jobs_created ON queue.jobs (created_at);
     DELETE FROM queue.jobtable_migrations WHERE version = 5`,
  )
  await store.migrate()
  expect(await query(url, indexes)).toEqual(fresh)
})

it('a long read of the jobs holds a migration up for seconds, which gives way, changes nothing and is made later', async () => {
  const url = await emptyDatabase()
  await (await queueOn(url).open()).insert([newJob({ id: 'kept' })])
  await query(
    url,
    `${UNDO_5}; DROP TABLE job_streams; ${UNDO_4}; ALTER TABLE jobs DROP COLUMN rev; DELETE FROM jobtable_migrations WHERE version > 2`,
  )
  const reader = new pg.Client({ connectionString: url })
  await reader.connect()
  onTestFinished(() => reader.end())
  await reader.query('BEGIN; SELECT * FROM jobs')
  const store = postgresStore({ connection: url })
  onTestFinished(() => store.close())
  await expect(store.migrate()).rejects.toMatchObject({ code: 'store_busy' })
  expect(await query(url, 'SELECT max(version) FROM jobtable_migrations')).toEqual([{ max: 2 }])
  await reader.query('COMMIT')
  expect(await store.migrate()).toEqual({ from: 2, to: 5 })
  expect((await store.get(['kept']))[0]).toMatchObject({ id: 'kept', rev: 0 })
}, 30_000)

describe('a role that may use the tables and nothing else', { timeout: 60_000 }, () => {
  async function restricted(settings: Record<string, string> = {}) {
    const server = await testServer(settings)
    const url = Object.assign(new URL(server.url()), { username: 'app' }).href
    await server.query(`CREATE ROLE app LOGIN`)
    await server.query('REVOKE CREATE ON SCHEMA public FROM PUBLIC')
    const grant = async (): Promise<void> => {
      await server.query('GRANT USAGE ON SCHEMA public TO app')
      await server.query('GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO app')
    }
    return { server, url, grant }
  }

  it('enqueues, works, waits, cancels, repairs and prunes after an owner has migrated, and changes no table', async () => {
    const { server, url, grant } = await restricted({ log_statement: 'ddl' })
    await queueOn(server.url()).open()
    await grant()
    await server.restart() // Its log begins anew.
    const queue = queueOn(url)
    const type = queue.define('type', {
      ...anything,
      run: async (job) => {
        await job.stage('working')
        if (job.payload === 'fail') throw new Error('told to')
        return 'done'
      },
      retry: { maxAttempts: 1 },
    })
    const canceled = await type.enqueue(null, { delay: '1h' })
    await canceled.job.cancel()
    const { worker, errors } = working(queue)
    expect(await (await type.enqueue(null)).job.result({ timeout: '20s' })).toBe('done')
    const failing = await type.enqueue('fail')
    await expect(failing.job.result({ timeout: '20s' })).rejects.toMatchObject({ code: 'job_failed' })
    await failing.job.retry()
    expect((await queue.stats()).counts.length).toBeGreaterThan(0)
    expect((await queue.inspect()).filter(({ level }) => level === 'error')).toEqual([])
    await queue.prune()
    await worker.stop()
    expect(errors).toEqual([])
    expect(server.log).not.toMatch(/statement:|execute/)
  })

  it('is told which command an owner must run while the tables lack something', async () => {
    const { server, url, grant } = await restricted()
    await expect(queueOn(url).open()).rejects.toMatchObject({
      code: expect.stringMatching(/^(store_denied|schema_missing)$/) as string,
      message: expect.stringContaining('jobtable migrate') as string,
    })
    await queueOn(server.url()).open()
    await grant()
    await server.query('DROP INDEX jobs_created')
    const queue = queueOn(url)
    await expect(queue.open()).rejects.toMatchObject({
      code: 'store_denied',
      message: expect.stringContaining('jobtable migrate') as string,
    })
    await queueOn(server.url()).open()
    await queue.open()
  })
})

describe('the tables of the next version', { timeout: 60_000 }, () => {
  /** What a release after this one may do to the tables. */
  const NEXT_VERSION = SCHEMA_VERSION + 1
  const NEXT = (worksWith: number): string => `
    ALTER TABLE jobs ADD COLUMN tenant text NOT NULL DEFAULT 'none';
    ALTER TABLE job_events ADD COLUMN tenant text;
    ALTER TABLE job_workers ADD COLUMN version integer NOT NULL DEFAULT 1;
    CREATE INDEX jobs_tenant ON jobs (tenant) WHERE status = 'pending';
    INSERT INTO jobtable_migrations (version, works_with) VALUES (${NEXT_VERSION}, ${worksWith})`

  /**
   * As `migrate` does it: a worker's statement that has locked one of the tables may wait for another one, and the server ends one of the
   * two then, which is tried again.
   */
  const migrate = (url: string, sql: string): Promise<void> => {
    const database = new Database(url, dialect('public'))
    onTestFinished(() => database.close())
    const work = function* (): Work<void> {
      yield { sql, params: [] }
    }
    return database.run(work, { transaction: true })
  }

  it('are worked on by this one, which goes on while they are brought up', async () => {
    const url = await emptyDatabase()
    const queue = queueOn(url)
    const { count } = defineTypes(queue)
    const seen: string[] = []
    count.handle((job) => {
      seen.push(job.id)
      return null
    })
    const { errors } = working(queue)
    const ids: string[] = []
    const next = { migrated: false }
    const producing = (async () => {
      do ids.push((await count.enqueue({ name: 'x' })).job.id)
      while (!next.migrated || ids.length < 200)
    })()
    await until('jobs run', () => seen.length > 20)
    await migrate(url, NEXT(1))
    const before = seen.length
    await until('jobs run on', () => seen.length > before + 20)
    next.migrated = true
    await producing
    await until('all have run', () => seen.length === ids.length)
    expect([errors, new Set(seen).size]).toEqual([[], ids.length])
    // One that comes now finds them good enough.
    const late = queueOn(url)
    expect(await (await late.open()).migrate()).toEqual({ from: NEXT_VERSION, to: NEXT_VERSION })
    expect((await (await late.get(ids[0]!))!.refresh()).status).toBe('succeeded')
    const after = await late.enqueue('count', { name: 'late' })
    expect(await after.job.result({ timeout: '20s' })).toBe(null)
  })

  it.each([
    { ended: 'migration', ofMigration: '10ms', ofWorker: '1h', tries: 2 },
    // Where the worker has looked too early, the migration looks.
    { ended: 'heartbeat', ofMigration: '5s', ofWorker: '500ms', tries: 1 },
  ])(
    'are brought up though a migration and a heartbeat lock each other out: the server ends the $ended, which is tried again',
    async ({ ofMigration, ofWorker, tries }) => {
      const url = await emptyDatabase()
      await query(url, `ALTER DATABASE ${new URL(url).pathname.slice(1)} SET deadlock_timeout = '${ofWorker}'`)
      const store = await queueOn(url).open()
      await store.register({ id: 'w', host: 'h', pid: 1, process: null, queues: [], types: [], concurrency: 1 }, 60_000)
      await query(url, 'CREATE SEQUENCE tries') // What it gives is not taken back with the transaction.
      const migrated = migrate(
        url,
        `SET LOCAL deadlock_timeout = '${ofMigration}';
        LOCK TABLE jobs IN ACCESS EXCLUSIVE MODE;
        DO $$ BEGIN
          IF nextval('tries') = 1 THEN
            WHILE NOT EXISTS (SELECT 1 FROM pg_locks WHERE relation = 'jobs'::regclass AND NOT granted) LOOP
              PERFORM pg_sleep(0.005);
            END LOOP;
          END IF;
        END $$;
        ${NEXT(1)}`,
      )
      const locked = `SELECT 1 FROM pg_locks WHERE relation = 'jobs'::regclass AND mode = 'AccessExclusiveLock' AND granted`
      await until('it has the jobs', async () => (await query(url, locked)).length > 0)
      expect(await store.heartbeat('w', 60_000)).toMatchObject({ alive: true })
      await migrated
      const [made] = await query<{ n: number }>(url, 'SELECT last_value::int AS n FROM tries')
      expect(made!.n).toBeGreaterThanOrEqual(tries)
      expect(await query(url, 'SELECT max(version) FROM jobtable_migrations')).toEqual([{ max: NEXT_VERSION }])
    },
  )

  it('are refused where they say that they need a newer one', async () => {
    const url = await emptyDatabase()
    await queueOn(url).open()
    await query(url, NEXT(NEXT_VERSION))
    const queue = queueOn(url)
    const type = queue.define('type', { ...anything, run: () => 'done' })
    await expect(type.enqueue(null)).rejects.toMatchObject({ code: 'schema_too_new' })
    const { worker } = working(queue)
    await expect(worker.stopped).rejects.toMatchObject({ code: 'schema_too_new' })
    expect((await queue.inspect()).find(({ level }) => level === 'error')).toMatchObject({ code: 'schema_too_new' })
    expect(await query(url, 'SELECT count(*)::int AS n FROM jobs')).toEqual([{ n: 0 }])
  })
})

it('a lock that somebody holds on the tables makes a worker wait, and not give up', { timeout: 60_000 }, async () => {
  const url = await emptyDatabase()
  const queue = queueOn(url)
  const type = queue.define('type', { ...anything, run: () => 'done' })
  const { worker, errors } = working(queue, { pollInterval: '100ms' })
  await worker.ready()
  const other = new pg.Client({ connectionString: url })
  await other.connect()
  onTestFinished(() => other.end())
  await other.query('BEGIN; LOCK TABLE jobs IN ACCESS EXCLUSIVE MODE')
  await until('the worker has noticed', () => errors.includes('store_unavailable'))
  await other.query('COMMIT')
  const { job } = await until('a job is taken', () => type.enqueue(null).catch(() => undefined))
  expect(await job.result({ timeout: '20s' })).toBe('done')
})
