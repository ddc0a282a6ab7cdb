import { existsSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openDriver, type Driver } from '../../../src/stores/sqlite/driver.js'
import { sqliteStore } from '../../../src/stores/sqlite/index.js'
import { walBytes } from '../../../src/stores/sqlite/database.js'
import { newJob } from '../../../src/testing/new-job.js'
import { PRESENT, openStore, temporaryFolder } from './support.js'

describe.each(PRESENT)('%s', (driver) => {
  let folder: ReturnType<typeof temporaryFolder>
  beforeEach(() => void (folder = temporaryFolder()))
  afterEach(() => folder.remove())

  const setting = (connection: Driver, name: string): unknown => connection.prepare(`PRAGMA ${name}`).all()[0]![0]

  it('every open sets WAL, full synchronisation and a bound for the log', async () => {
    for (let open = 0; open < 2; open++) {
      const { store, connection } = openStore({ path: folder.file, driver })
      await store.migrate()
      expect(setting(connection(), 'journal_mode')).toBe('wal')
      expect(setting(connection(), 'synchronous')).toBe(2)
      expect(setting(connection(), 'journal_size_limit')).toBe(32 * 1024 * 1024)
      await store.close()
    }
  })

  it('synchronous can be relaxed by name, and the doctor says what it costs', async () => {
    const { store, connection } = openStore({ path: folder.file, driver, synchronous: 'normal' })
    await store.migrate()
    expect(setting(connection(), 'synchronous')).toBe(1)
    expect(await store.inspect()).toContainEqual(expect.objectContaining({ level: 'warning', code: 'synchronous' }))
    await store.close()
  })

  it('nothing is opened or created before the first call', async () => {
    const store = sqliteStore({ path: folder.file, driver })
    expect(existsSync(folder.file)).toBe(false)
    await store.close()
  })

  it('the log that a long reader made big is cut by later commits, without a restart', async () => {
    const bound = 512 * 1024
    const store = sqliteStore({ path: folder.file, driver, synchronous: 'normal', walBoundBytes: bound })
    await store.migrate()
    const reader = openDriver(folder.file, { driver })
    reader.exec('BEGIN')
    reader.prepare('SELECT count(*) FROM jobs').all()
    const payload = JSON.stringify('x'.repeat(20_000))
    for (let i = 0; i < 64; i++) await store.insert([newJob({ payload })])
    expect(walBytes(folder.file)).toBeGreaterThan(2 * bound)
    reader.exec('COMMIT')
    reader.close()
    for (let i = 0; i < 32; i++) await store.insert([newJob()])
    expect(walBytes(folder.file)).toBeLessThan(bound)
    expect(await store.count({})).toBe(96)
    await store.close()
  })

  it('pruning takes no write lock where all that has finished is kept', async () => {
    const store = sqliteStore({ path: folder.file, driver, busyTimeoutMs: 50 })
    await store.migrate()
    await store.register(
      { id: 'w', host: 'h', pid: 1, process: null, queues: ['default'], types: ['mail'], concurrency: 1 },
      60_000,
    )
    await store.insert([newJob()])
    const { jobs } = await store.claim({ workerId: 'w', token: 't', queues: ['default'], types: ['mail'], limit: 1 })
    const settlement = { status: 'succeeded', result: null } as const
    await store.settle([{ id: jobs[0]!.id, token: 't', settlement, maxAttempts: 5, keepForMs: 60_000 }])
    const other = openDriver(folder.file, { driver })
    other.exec('BEGIN IMMEDIATE')
    expect(await store.prune({ succeededMs: 0, failedMs: 0, canceledMs: 0 }, 10)).toEqual([])
    other.close()
    await store.close()
  })

  it('inspecting a file that does not exist says so and does not create it', async () => {
    const store = sqliteStore({ path: folder.file, driver })
    expect((await store.inspect()).map(({ level, code }) => `${level} ${code}`)).toEqual(['error database_missing'])
    expect(existsSync(folder.file)).toBe(false)
    await store.close()
  })

  it('no call leaves a read transaction open that would keep the log from being cut', async () => {
    const store = sqliteStore({ path: folder.file, driver })
    await store.migrate()
    await store.insert([newJob(), newJob()])
    await Promise.all([store.list({}, { limit: 1 }), store.count({}), store.overview(), store.inspect(), store.lost(1)])
    const other = openDriver(folder.file, { driver })
    const [busy] = other.prepare('PRAGMA wal_checkpoint(TRUNCATE)').all()[0]!
    expect(busy).toBe(0)
    other.close()
    await store.close()
  })
})
