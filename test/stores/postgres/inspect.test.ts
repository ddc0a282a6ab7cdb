import pg from 'pg'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { Database } from '../../../src/stores/postgres/database.js'
import { dialect } from '../../../src/stores/postgres/dialect.js'
import { postgresStore } from '../../../src/stores/postgres/index.js'
import { inspect } from '../../../src/stores/postgres/inspect.js'
import { Watcher } from '../../../src/stores/postgres/watch.js'
import { newJob } from '../../../src/testing/new-job.js'
import type { Finding } from '../../../src/store.js'
import { freeSchema, pooled, quoted, type TestSchema } from '../../support/postgres/database.js'
import { absence } from '../../support/postgres/pgbouncer.js'
import { TestServer } from '../../support/postgres/server.js'

let place: TestSchema
const ends: (() => Promise<unknown>)[] = []

beforeEach(async () => {
  place = await freeSchema()
  const store = postgresStore({ connection: place.url, schema: place.schema })
  await store.migrate()
  await store.close()
})
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end()
  await place.drop()
})

async function look(url = place.url, limits: Parameters<typeof inspect>[2] = {}): Promise<Finding[]> {
  const database = new Database(url, dialect(place.schema))
  const watcher = new Watcher(database)
  try {
    return await inspect(database, watcher, limits)
  } finally {
    await watcher.close()
    await database.close()
  }
}

async function find(code: string, limits?: Parameters<typeof inspect>[2]): Promise<Finding[]> {
  return (await look(place.url, limits)).filter((finding) => finding.code === code)
}

/** In the very words of the finding. */
async function obey(message: string, statement: RegExp): Promise<void> {
  await place.query(statement.exec(message)![0])
}

async function session(url = place.url): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url, application_name: 'report' })
  await client.connect()
  ends.push(() => client.end())
  return client
}

const table = (name: string): string => `${quoted(place.schema)}.${name}`
const levels = (findings: readonly Finding[]) => findings.map(({ level, code }) => `${level} ${code}`)

describe('the doctor', () => {
  it('finds nothing wrong with new tables, but that this server may lose commits', async () => {
    const findings = await look()
    expect(levels(findings)).toEqual([
      'ok schema',
      'ok indexes',
      'ok server',
      'warning synchronous',
      'ok snapshots',
      'ok dead_rows',
      'ok size',
      'ok claims',
      'ok listen',
    ])
    expect(findings[3]!.message).toMatch(/^fsync is off and synchronous_commit is on: a crash of the server may take back jobs/)
  })

  it('says that there are no tables, or that they are of a newer version, and asks no further', async () => {
    await place.query(`UPDATE ${table('jobtable_migrations')} SET works_with = 99`)
    expect(levels(await look())).toEqual(['error schema_too_new'])
    await place.drop()
    expect(levels(await look())).toEqual(['error schema_missing'])
  })

  it('names a missing index, and a statement that makes it without a lock', async () => {
    await place.query(`DROP INDEX ${table('jobs_key')}`)
    const [missing] = await find('index_missing')
    expect(missing).toMatchObject({
      level: 'error',
      message: expect.stringMatching(/^the index jobs_key is missing: run `jobtable migrate`/) as string,
    })
    await obey(missing!.message, /CREATE UNIQUE INDEX CONCURRENTLY jobs_key .*/)
    expect(await find('index_missing')).toEqual([])
  })

  it('names an index that is not valid, which no migration touches, and the statement that mends it', async () => {
    const valid = (value: boolean) =>
      place.query(`UPDATE pg_index SET indisvalid = ${value} WHERE indexrelid = to_regclass($1)`, [table('jobs_running')])
    await valid(false)
    const store = postgresStore({ connection: place.url, schema: place.schema })
    expect(await store.migrate()).toEqual({ from: 5, to: 5 })
    await store.close()
    const [invalid] = await find('index_invalid')
    expect(invalid).toMatchObject({
      level: 'error',
      message: expect.stringContaining('the index jobs_running is not valid') as string,
    })
    await obey(invalid!.message, /REINDEX INDEX CONCURRENTLY .*/)
    expect(await find('index_invalid')).toEqual([])
  })

  it('says that autovacuum is off for a table', async () => {
    await place.query(`ALTER TABLE ${table('jobs')} SET (autovacuum_enabled = off)`)
    expect(await find('autovacuum')).toEqual([
      {
        level: 'error',
        code: 'autovacuum',
        message: expect.stringContaining('autovacuum is off for jobs: dead rows pile up') as string,
      },
    ])
  })

  describe('an old snapshot', () => {
    it('is found with the process that holds it, and how to end it', async () => {
      const report = await session()
      await report.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
      await report.query('SELECT 1')
      expect(await find('old_snapshot')).toEqual([])
      const [held] = await find('old_snapshot', { snapshotS: 0 })
      expect(held).toMatchObject({
        level: 'warning',
        message: expect.stringMatching(
          /^process \d+ \(report, idle in transaction\) holds a snapshot for 0 s, so that no row/,
        ) as string,
      })
      const ended = new Promise((resolve) => void report.on('error', resolve))
      await obey(held!.message, /SELECT pg_terminate_backend\(\d+\)/)
      await ended
      expect(await find('old_snapshot', { snapshotS: 0 })).toEqual([])
    })

    it('is also that of a transaction that has written and reads no more', async () => {
      const writer = await session()
      await writer.query(`BEGIN; INSERT INTO ${table('jobs')} (id, type) VALUES ('a', 'mail')`)
      expect(await find('old_snapshot', { snapshotS: 0 })).toHaveLength(1)
      await writer.query('COMMIT')
      expect(await find('old_snapshot', { snapshotS: 0 })).toEqual([])
    })

    it('of another database holds nothing here', async () => {
      const other = await session(Object.assign(new URL(place.url), { pathname: '/postgres' }).href)
      await other.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
      await other.query('SELECT 1')
      expect(await find('old_snapshot', { snapshotS: 0 })).toEqual([])
    })

    it('may be hidden from a role, which is told what to be granted', async () => {
      const report = await session()
      await report.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
      await report.query('SELECT 1')
      const role = `reader_${process.pid}`
      await place.query(`CREATE ROLE ${role} LOGIN PASSWORD 'x'; GRANT USAGE ON SCHEMA ${quoted(place.schema)} TO ${role};
        GRANT SELECT ON ALL TABLES IN SCHEMA ${quoted(place.schema)} TO ${role}`)
      ends.push(() => place.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`))
      const url = Object.assign(new URL(place.url), { username: role, password: 'x' }).href
      const hidden = (await look(url, { snapshotS: 0 })).find(({ code }) => code === 'snapshots')!
      expect(hidden.message).toMatch(
        /^nothing that this role sees holds an old snapshot; \d+ sessions? (is|are) hidden from it: GRANT /,
      )
      await obey(hidden.message, /GRANT pg_read_all_stats TO .*/)
      expect((await look(url, { snapshotS: 0 })).map(({ code }) => code)).toContain('old_snapshot')
    })

    it('may be that of a prepared transaction, and not that of a slot which holds no rows', async () => {
      const server = await TestServer.create({ max_prepared_transactions: '2', wal_level: 'logical' })
      ends.push(() => server.remove())
      const store = postgresStore({ connection: server.url(), schema: place.schema })
      await store.migrate()
      await store.close()
      await server.query(`SELECT pg_create_logical_replication_slot('changes', 'pgoutput')`)
      const prepare = await session(server.url())
      await prepare.query(
        `BEGIN; SET LOCAL jobtable.quiet = 'on'; INSERT INTO ${table('jobs')} (id, type) VALUES ('a', 'mail'); PREPARE TRANSACTION 'it''s left'`,
      )
      const held = (await look(server.url(), { snapshotS: 0 })).filter(({ code }) => code === 'old_snapshot')
      expect(held.map(({ message }) => message)).toEqual([
        expect.stringMatching(
          /^the prepared transaction 'it''s left' holds a snapshot for 0 s.*: COMMIT PREPARED 'it''s left', or ROLLBACK/,
        ),
      ])
    })
  })

  it('finds many dead rows, and VACUUM removes them', async () => {
    await place.query(`ALTER TABLE ${table('jobs')} SET (autovacuum_enabled = off)`)
    const client = await session()
    await client.query(`INSERT INTO ${table('jobs')} (id, type) SELECT i::text, 'mail' FROM generate_series(1, 1000) AS i`)
    await client.query(`UPDATE ${table('jobs')} SET priority = 1`)
    await client.query('SELECT pg_stat_force_next_flush()')
    await client.query('SELECT 1')
    expect(await find('dead_rows')).toEqual([{ level: 'ok', code: 'dead_rows', message: 'few dead rows' }])
    const [many] = await find('dead_rows', { deadRows: 500 })
    expect(many).toMatchObject({
      level: 'warning',
      message: expect.stringMatching(
        /^jobs has 1000 dead rows beside 1000 live ones and was never vacuumed: end what holds/,
      ) as string,
    })
    await obey(many!.message, /VACUUM .*/)
    expect((await find('dead_rows', { deadRows: 500 }))[0]).toMatchObject({ level: 'ok' })
  })

  it('finds an index of waiting jobs that is mostly empty, and REINDEX makes it small', async () => {
    await place.query(`INSERT INTO ${table('jobs')} (id, type) SELECT i::text, 'mail' FROM generate_series(1, 5000) AS i`)
    expect(await find('index_bloat', { indexBytes: 50_000 })).toEqual([])
    await place.query(`DELETE FROM ${table('jobs')}`)
    const [bloat] = await find('index_bloat', { indexBytes: 50_000 })
    expect(bloat).toMatchObject({
      level: 'warning',
      message: expect.stringMatching(/^jobs_claimable has 0\.\d MiB for 0 waiting jobs: run REINDEX/) as string,
    })
    await obey(bloat!.message, /REINDEX INDEX CONCURRENTLY .*/)
    expect(await find('index_bloat', { indexBytes: 50_000 })).toEqual([])
  })

  it('finds running jobs that no living worker holds', async () => {
    await place.query(`INSERT INTO ${table('jobs')} (id, type, status, locked_by) VALUES ('a', 'mail', 'running', 'gone')`)
    expect(await find('claims_without_worker')).toEqual([
      {
        level: 'warning',
        code: 'claims_without_worker',
        message: expect.stringMatching(/^1 running job has no living worker/) as string,
      },
    ])
  })

  it.skipIf(absence() !== undefined)('finds that notifications do not get through a pooler in transaction mode', async () => {
    const findings = await look(await pooled(place.url))
    expect(findings.filter(({ code }) => code === 'listen')).toEqual([
      { level: 'warning', code: 'listen', message: expect.stringContaining('notifications do not get through') as string },
    ])
  })

  it('finds that a pool has no connection left to hear notifications on', async () => {
    const pool = new pg.Pool({ connectionString: place.url, max: 1 })
    ends.push(() => pool.end())
    const store = postgresStore({ connection: pool, schema: place.schema })
    const findings = await store.inspect()
    await store.insert([newJob()])
    await store.close()
    expect(findings.filter(({ code }) => code === 'listen')).toEqual([
      { level: 'warning', code: 'listen', message: expect.stringContaining('let the pool have one more') as string },
    ])
  })

  it('of a standby says that it takes no writes', async () => {
    const server = await TestServer.create()
    ends.push(() => server.remove())
    const store = postgresStore({ connection: server.url(), schema: place.schema })
    await store.migrate()
    await store.close()
    const standby = await server.standby()
    ends.push(() => standby.remove())
    await server.caughtUp(standby)
    expect(levels(await look(standby.url()))).toContain('error standby')
  })
})
