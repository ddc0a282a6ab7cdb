import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openDriver } from '../../../src/stores/sqlite/driver.js'
import { sqliteStore } from '../../../src/stores/sqlite/index.js'
import { newJob } from '../../../src/testing/new-job.js'
import { PRESENT, openStore, temporaryFolder } from './support.js'

const MIGRATE = new URL('migrate-process.ts', import.meta.url).pathname
const [driver] = PRESENT

let folder: ReturnType<typeof temporaryFolder>
beforeEach(() => void (folder = temporaryFolder()))
afterEach(() => folder.remove())

/** Processes that are loaded and wait for a word to migrate, so that they all do it at the same moment. */
async function readyProcesses(count: number): Promise<ChildProcess[]> {
  const children = Array.from({ length: count }, () =>
    spawn(process.execPath, ['--import', 'tsx', MIGRATE, folder.file, driver!], {
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    }),
  )
  await Promise.all(children.map((child) => once(child, 'message')))
  return children
}

describe('migrations', () => {
  it(
    'a process killed while it migrates leaves all or nothing, and the next start needs no help',
    { timeout: 120_000 },
    async () => {
      const children = await readyProcesses(6)
      for (const [round, child] of children.entries()) {
        const gone = once(child, 'exit')
        child.send('go')
        setTimeout(() => child.kill('SIGKILL'), round * 2)
        await gone
      }
      const store = sqliteStore({ path: folder.file })
      const { to } = await store.migrate()
      expect(to).toBeGreaterThan(0)
      await store.insert([newJob()])
      expect((await store.inspect()).filter(({ level }) => level === 'error')).toEqual([])
      await store.close()
    },
  )

  it('a newer schema is refused with both versions, and left alone', async () => {
    const { store, connection } = openStore({ path: folder.file })
    const { to } = await store.migrate()
    connection().exec(`INSERT INTO jobtable_migrations VALUES (${to + 1}, 0)`)
    await store.close()
    const older = sqliteStore({ path: folder.file })
    const refusal = { code: 'schema_too_new', data: { version: to + 1, expected: to } }
    await expect(older.migrate()).rejects.toMatchObject(refusal)
    await expect(older.insert([newJob()])).rejects.toMatchObject(refusal)
    expect(await older.inspect()).toContainEqual(expect.objectContaining({ level: 'error', code: 'schema_too_new' }))
    await older.close()
  })

  it.each([
    [1, 'steps', 'DROP TABLE job_steps; DROP TABLE job_streams'],
    [2, 'streams', 'DROP TABLE job_streams'],
  ])('a file of version %i, before %s, gets their table, and keeps its jobs', async (from, table, drop) => {
    const undo = `DROP TRIGGER jobtable_deleted; ${drop}; ALTER TABLE jobs DROP COLUMN rev; DELETE FROM jobtable_migrations WHERE version > ${from}`
    const old = sqliteStore({ path: folder.file })
    await old.migrate()
    await old.insert([newJob({ id: 'kept' })])
    await old.close()
    const raw = openDriver(folder.file)
    raw.exec(undo)
    const store = sqliteStore({ path: folder.file })
    expect(await store.migrate()).toEqual({ from, to: 4 })
    expect((await store.get(['kept']))[0]).toMatchObject({ status: 'pending', rev: 0 })
    expect([await store.steps('kept'), await store.streams('kept')]).toEqual([[], []])
    await store.close()
    raw.exec(`${undo}; CREATE TABLE job_${table} (mine TEXT)`)
    const blocked = sqliteStore({ path: folder.file })
    await expect(blocked.migrate()).rejects.toMatchObject({ code: 'schema_conflict', data: { table: `job_${table}` } })
    await blocked.close()
    raw.close()
  })

  it('use before the first migration says what to run', async () => {
    const store = sqliteStore({ path: folder.file })
    await expect(store.insert([newJob()])).rejects.toMatchObject({
      code: 'schema_missing',
      message: expect.stringContaining('jobtable migrate') as string,
    })
    await store.migrate()
    await store.insert([newJob()])
    await store.close()
  })

  it('a table named jobs that jobtable did not make is refused and left alone', async () => {
    const other = openDriver(folder.file)
    other.exec(`CREATE TABLE jobs (title TEXT); INSERT INTO jobs VALUES ('baker')`)
    const store = sqliteStore({ path: folder.file })
    await expect(store.migrate()).rejects.toMatchObject({
      code: 'schema_conflict',
      message: expect.stringContaining('a table named jobs that jobtable did not make') as string,
    })
    expect(other.prepare('SELECT * FROM jobs').all()).toEqual([['baker']])
    expect(other.prepare('SELECT count(*) FROM sqlite_schema').all()).toEqual([[1]])
    other.close()
    await store.close()
  })

  it('a missing unique index lets no duplicate in, is named by the doctor, and is made again by migrate', async () => {
    const { store, connection } = openStore({ path: folder.file })
    await store.migrate()
    await store.insert([newJob({ idempotencyKey: 'k' })])
    connection().exec('DROP INDEX jobs_key')
    await expect(store.insert([newJob({ idempotencyKey: 'k' })])).rejects.toMatchObject({
      code: 'schema_missing',
      message: expect.stringContaining('jobs_key') as string,
    })
    expect(await store.inspect()).toContainEqual(
      expect.objectContaining({ code: 'index_missing', message: expect.stringMatching(/jobs_key.*jobtable migrate/) as string }),
    )
    await store.migrate()
    expect((await store.insert([newJob({ idempotencyKey: 'k' })]))[0]!.type).toBe('held')
    await store.close()
  })

  it.each(['jobs_claimable', 'jobs_running', 'jobs_superseded', 'jobs_finished', 'job_events_job'])(
    'a missing %s is named by the doctor and made again by migrate',
    async (index) => {
      const { store, connection } = openStore({ path: ':memory:' })
      await store.migrate()
      connection().exec(`DROP INDEX ${index}`)
      expect(await store.inspect()).toContainEqual(
        expect.objectContaining({ level: 'error', code: 'index_missing', message: expect.stringContaining(index) as string }),
      )
      await store.migrate()
      expect((await store.inspect()).filter(({ level }) => level === 'error')).toEqual([])
      await store.close()
    },
  )
})

describe('the table', () => {
  const cli = spawnSync('sqlite3', ['--version'], { encoding: 'utf8' })
  const noCli = cli.error ? ' (skipped: there is no sqlite3 command here)' : ''

  it.skipIf(cli.error)(`a plain INSERT by the sqlite3 command line is claimed${noCli}`, async () => {
    const store = sqliteStore({ path: folder.file })
    await store.migrate()
    const inserts = [
      `INSERT INTO jobs (id, type, payload, status) VALUES ('a', 'mail', '{"to":"ann"}', 'pending')`,
      `INSERT INTO jobs (id, type, payload) VALUES ('b', 'mail', '{}')`,
    ]
    const { stderr, status } = spawnSync('sqlite3', [folder.file, inserts.join(';')], { encoding: 'utf8' })
    expect([stderr, status]).toEqual(['', 0])
    await store.register(
      { id: 'w', host: 'h', pid: 1, process: null, queues: ['default'], types: ['mail'], concurrency: 1 },
      60_000,
    )
    const request = { workerId: 'w', token: 't', queues: ['default'], types: ['mail'], limit: 10 }
    const { jobs } = await store.claim(request)
    expect(jobs.map(({ id }) => id)).toEqual(['a', 'b'])
    expect(Math.abs(jobs[0]!.createdAt - Date.now())).toBeLessThan(60_000)
    await store.close()
  })

  it('what would break a worker is refused when it is inserted by hand', async () => {
    const { store, connection } = openStore({ path: ':memory:' })
    await store.migrate()
    const wrong = [
      [`(id, type, payload, status) VALUES ('x', 't', '{}', 'done')`, 'CHECK'],
      [`(id, type, payload) VALUES ('x', 't', 'text')`, 'CHECK'],
      [`(id, type, payload) VALUES ('x', 't', NULL)`, 'NOT NULL'],
      [`(id, type, payload) VALUES (NULL, 't', '{}')`, 'NOT NULL'],
      [`(id, type, payload) VALUES ('x', 't', '${'['.repeat(5_000)}${']'.repeat(5_000)}')`, 'CHECK'],
      [`(id, type, payload, errors) VALUES ('x', 't', '{}', '{}')`, 'CHECK'],
      [`(id, type, payload, errors) VALUES ('x', 't', '{}', '[')`, 'CHECK'],
      [`(id, type, payload, progress) VALUES ('x', 't', '{}', 2)`, 'CHECK'],
      [`(id, type, payload, attempts) VALUES ('x', 't', '{}', -1)`, 'CHECK'],
      [`(id, type, payload, run_after) VALUES ('x', 't', '{}', 9007199254740993)`, 'CHECK'],
      [`(id, type, payload, run_after) VALUES ('x', 't', '{}', '2030-01-01')`, 'INTEGER'],
    ]
    for (const [values, reason] of wrong) expect(() => connection().exec(`INSERT INTO jobs ${values}`)).toThrow(reason)
    expect(await store.count({})).toBe(0)
    await store.close()
  })

  it('the schema in the file explains every column', async () => {
    const { store, connection } = openStore({ path: ':memory:' })
    await store.migrate()
    const [text] = connection().prepare(`SELECT sql FROM sqlite_schema WHERE name = 'jobs'`).all()[0] as [string]
    for (const [, name] of connection().prepare(`PRAGMA table_info(jobs)`).all()) {
      if (name === 'created_at' || name === 'updated_at') continue
      expect(text, String(name)).toMatch(new RegExp(`--[^\\n]+\\n  ${String(name)} |${String(name)}\\n  --`))
    }
    await store.close()
  })

  it('rows finished by hand, without the time of it, are pruned too', async () => {
    const { store, connection } = openStore({ path: ':memory:' })
    await store.migrate()
    await store.insert([newJob({ id: 'a' })])
    connection().exec(`UPDATE jobs SET status = 'canceled'`)
    const retention = { succeededMs: 0, failedMs: 0, canceledMs: 0 }
    expect(await store.prune(retention, 10)).toEqual([{ id: 'a', result: null, files: [] }])
    await store.close()
  })
})
