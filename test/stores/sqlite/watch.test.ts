import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { Driver } from '../../../src/stores/sqlite/driver.js'
import { sqliteStore } from '../../../src/stores/sqlite/index.js'
import { newJob } from '../../../src/testing/new-job.js'
import { PRESENT, openStore, temporaryFolder } from './support.js'

describe.each(PRESENT)('%s', (driver) => {
  let folder: ReturnType<typeof temporaryFolder>
  beforeEach(() => {
    folder = temporaryFolder()
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
  })
  afterEach(() => {
    vi.useRealTimers()
    folder.remove()
  })

  /** How often the store asks for data_version. */
  function counting(): { questions: () => number; onOpen: (connection: Driver) => void } {
    let questions = 0
    const onOpen = (connection: Driver): void => {
      const { prepare } = connection
      connection.prepare = (sql) => {
        const statement = prepare(sql)
        if (sql !== 'PRAGMA data_version') return statement
        return { ...statement, all: (...params) => (questions++, statement.all(...params)) }
      }
    }
    return { questions: () => questions, onOpen }
  }

  it('nothing is asked while nobody watches', async () => {
    const { questions, onOpen } = counting()
    const store = sqliteStore({ path: folder.file, driver, onOpen })
    await store.migrate()
    vi.advanceTimersByTime(5_000)
    expect(questions()).toBe(0)
    const end = store.watch(() => {})
    vi.advanceTimersByTime(5_000)
    expect(questions()).toBeGreaterThan(0)
    end()
    const before = questions()
    vi.advanceTimersByTime(5_000)
    expect(questions()).toBe(before)
    await store.close()
  })

  it('a quiet database is asked a few times a second where hints serve, and at most 100 times where they do not', async () => {
    const { questions, onOpen } = counting()
    const store = sqliteStore({ path: folder.file, driver, onOpen })
    await store.migrate()
    store.watch(() => {})
    vi.advanceTimersByTime(2_000)
    const before = questions()
    vi.advanceTimersByTime(10_000)
    expect((questions() - before) / 10).toBeLessThanOrEqual(100)
    expect((questions() - before) / 10).toBeGreaterThanOrEqual(3)
    await store.close()
  })

  it('a write by another handle is noticed by the next question, even without a hint', async () => {
    const store = sqliteStore({ path: folder.file, driver })
    await store.migrate()
    const other = sqliteStore({ path: folder.file, driver })
    const listener = vi.fn<() => void>()
    store.watch(listener)
    vi.advanceTimersByTime(2_000)
    await other.insert([newJob()])
    expect(listener).not.toHaveBeenCalled()
    vi.advanceTimersByTime(250)
    expect(listener).toHaveBeenCalledTimes(1)
    await other.close()
    await store.close()
  })

  it('many commits in one turn of the event loop are one call', async () => {
    const { store } = openStore({ path: folder.file, driver })
    await store.migrate()
    const called = new Promise<void>((resolve) => store.watch(() => resolve()))
    const listener = vi.fn<() => void>()
    store.watch(listener)
    await Promise.all(Array.from({ length: 10 }, () => store.insert([newJob()])))
    await called
    expect(listener).toHaveBeenCalledTimes(1)
    await store.close()
  })

  it('a heartbeat of its own is no news', async () => {
    const store = sqliteStore({ path: ':memory:', driver })
    await store.migrate()
    const listener = vi.fn<() => void>()
    store.watch(listener)
    await store.register({ id: 'w', host: 'h', pid: 1, process: null, queues: [], types: [], concurrency: 1 }, 1_000)
    await store.heartbeat('w', 1_000)
    await new Promise((resolve) => setImmediate(resolve))
    await new Promise((resolve) => setImmediate(resolve))
    expect(listener).not.toHaveBeenCalled()
    await store.close()
  })
})
