import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openDriver } from '../../../src/stores/sqlite/driver.js'
import { sqliteStore } from '../../../src/stores/sqlite/index.js'
import { writtenHere } from '../../../src/stores/sqlite/writer.js'
import { newJob } from '../../../src/testing/new-job.js'
import { PRESENT, openStore, temporaryFolder } from './support.js'

describe.each(PRESENT)('%s', (driver) => {
  let folder: ReturnType<typeof temporaryFolder>
  beforeEach(() => void (folder = temporaryFolder()))
  afterEach(() => folder.remove())

  it('a file that stays locked is reported as busy after the timeout, and serves again after', async () => {
    const store = sqliteStore({ path: folder.file, driver, busyTimeoutMs: 60 })
    await store.migrate()
    const blocker = openDriver(folder.file, { driver })
    blocker.exec('BEGIN IMMEDIATE')
    const refused = [store.insert([newJob()]), store.insert([newJob()])]
    for (const insert of refused) {
      await expect(insert).rejects.toMatchObject({ code: 'store_busy', message: expect.stringContaining(folder.file) as string })
    }
    expect(await store.count({})).toBe(0)
    blocker.exec('COMMIT')
    await store.insert([newJob()])
    expect(await store.count({})).toBe(1)
    blocker.close()
    await store.close()
  })

  it('of a file that this very process keeps locked, by a transaction of a handler, is said what to do', async () => {
    const store = sqliteStore({ path: folder.file, driver, busyTimeoutMs: 60 })
    await store.migrate()
    const product = openDriver(folder.file, { driver })
    product.exec('BEGIN IMMEDIATE')
    const refused = store.report([{ id: 'a', token: 't', stage: 'in the middle' }])
    await expect(refused).rejects.toMatchObject({
      code: 'store_busy',
      message: expect.stringMatching(/call them before it or after it, or use job\.transaction/) as string,
    })
    product.exec('COMMIT')
    product.close()
    await store.close()
  })

  it.runIf(process.platform === 'linux')('whose transaction keeps it locked is told on Linux', async () => {
    const store = sqliteStore({ path: folder.file, driver, busyTimeoutMs: 60 })
    await store.migrate()
    expect(writtenHere(folder.file)).toBe(false)
    const script = `
      const { openDriver } = await import(${JSON.stringify(new URL('../../../src/stores/sqlite/driver.ts', import.meta.url).href)})
      const connection = openDriver(process.argv[1], { driver: process.argv[2] })
      connection.exec('BEGIN IMMEDIATE')
      console.log('locked')
      // One that nothing refers to is closed, and its lock is gone.
      setInterval(() => connection, 1_000)`
    const args = ['--import', 'tsx', '--input-type=module', '--eval', script, folder.file, driver]
    const other = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
    try {
      await once(other.stdout, 'data')
      expect(writtenHere(folder.file)).toBe(false)
      await expect(store.insert([newJob()])).rejects.toMatchObject({
        code: 'store_busy',
        message: expect.not.stringContaining('job.step') as string,
      })
    } finally {
      const ended = once(other, 'exit')
      other.kill('SIGKILL')
      await ended
    }
    const product = openDriver(folder.file, { driver })
    product.exec('BEGIN IMMEDIATE')
    expect(writtenHere(folder.file)).toBe(true)
    product.close()
    await store.close()
  })

  it('a write waits for a lock without stopping the event loop', async () => {
    const store = sqliteStore({ path: folder.file, driver })
    await store.migrate()
    const blocker = openDriver(folder.file, { driver })
    blocker.exec('BEGIN IMMEDIATE')
    const insert = store.insert([newJob()])
    // The lock is released by this very event loop: it must be free to do so.
    setTimeout(() => blocker.exec('COMMIT'), 30)
    expect((await insert)[0]!.type).toBe('inserted')
    blocker.close()
    await store.close()
  })

  it('writes that wait for a lock are served in the order of their calls', async () => {
    const store = sqliteStore({ path: folder.file, driver })
    await store.migrate()
    const blocker = openDriver(folder.file, { driver })
    blocker.exec('BEGIN IMMEDIATE')
    const ids = Array.from({ length: 20 }, (_, i) => `job-${i}`)
    const inserts = ids.map((id) => store.insert([newJob({ id })]))
    blocker.exec('COMMIT')
    await Promise.all(inserts)
    expect((await store.list({}, { limit: 20 })).map(({ id }) => id)).toEqual(ids.toReversed())
    blocker.close()
    await store.close()
  })

  it('a full disk rejects as store_full, loses nothing that was accepted, and the store serves again after', async () => {
    const { store, connection } = openStore({ path: folder.file, driver })
    await store.migrate()
    const used = connection().prepare('PRAGMA page_count').all()[0]![0] as number
    connection().exec(`PRAGMA max_page_count = ${used + 20}`)
    const accepted: string[] = []
    const fill = async (): Promise<never> => {
      for (;;) {
        const job = newJob({ payload: JSON.stringify('x'.repeat(2_000)) })
        await store.insert([job])
        accepted.push(job.id)
      }
    }
    await expect(fill()).rejects.toMatchObject({ code: 'store_full' })
    expect(accepted.length).toBeGreaterThan(5)
    await expect(store.insert(Array.from({ length: 100 }, () => newJob({ payload: '"big"' })))).rejects.toMatchObject({
      code: 'store_full',
    })
    expect(await store.count({})).toBe(accepted.length)
    connection().exec('PRAGMA max_page_count = 1000000')
    await store.insert([newJob()])
    expect((await store.get(accepted)).every((row) => row?.status === 'pending')).toBe(true)
    expect(await store.inspect()).toContainEqual(expect.objectContaining({ level: 'ok', code: 'integrity' }))
    await store.close()
  })

  it('a database that may not be written is reported as read-only and can still be read', async () => {
    const writer = sqliteStore({ path: folder.file, driver })
    await writer.migrate()
    await writer.insert([newJob({ id: 'a' })])
    await writer.close()
    const store = sqliteStore({ path: folder.file, driver, onOpen: (connection) => connection.exec('PRAGMA query_only = ON') })
    await expect(store.insert([newJob()])).rejects.toMatchObject({
      code: 'store_read_only',
      message: expect.stringContaining('right to write') as string,
    })
    expect((await store.get(['a']))[0]!.id).toBe('a')
    await store.close()
  })

  it('a folder that does not exist is named, and the store serves once it does', async () => {
    const path = join(folder.folder, 'data', 'app.db')
    const store = sqliteStore({ path, driver })
    await expect(store.migrate()).rejects.toMatchObject({
      code: 'store_unavailable',
      message: expect.stringContaining(path) as string,
    })
    mkdirSync(join(folder.folder, 'data'))
    await store.migrate()
    expect(await store.count({})).toBe(0)
    await store.close()
  })

  it('a file that is no database is reported as corrupt and left as it is', async () => {
    writeFileSync(folder.file, 'not a database, but long enough to be looked at as if it were one. '.repeat(100))
    const store = sqliteStore({ path: folder.file, driver })
    await expect(store.migrate()).rejects.toMatchObject({ code: 'store_corrupt' })
    await store.close()
  })
})
