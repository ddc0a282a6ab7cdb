/** Which drivers this Node has, and databases to test with. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openDriver, type Driver, type DriverName } from '../../../src/stores/sqlite/driver.js'
import { sqliteStore, type SqliteStoreOptions } from '../../../src/stores/sqlite/index.js'
import type { Store } from '../../../src/store.js'
import type { OpenedStore, RawColumns } from '../../../src/testing/index.js'

export const DRIVERS: readonly DriverName[] = ['node:sqlite', 'better-sqlite3']

/** Why this driver cannot be tested here; undefined when it can. */
export function absence(driver: DriverName): string | undefined {
  try {
    openDriver(':memory:', { driver }).close()
    return undefined
  } catch (error) {
    return `${driver} cannot be loaded in Node ${process.version} (${String(error).split('\n')[0]!.slice(0, 100)})`
  }
}

/** The drivers that can be tested here. */
export const PRESENT: readonly DriverName[] = DRIVERS.filter((driver) => absence(driver) === undefined)

export function temporaryFolder(): { folder: string; file: string; remove(): void } {
  const folder = mkdtempSync(join(tmpdir(), 'jobtable-sqlite-'))
  return { folder, file: join(folder, 'app.db'), remove: () => rmSync(folder, { recursive: true, force: true }) }
}

function testClock(): { now(): number; advance(ms: number): void } {
  let now = 1_700_000_000_000
  return { now: () => now, advance: (ms) => void (now += ms) }
}

/** A store together with its present connection, which tests look into. */
export function openStore(options: SqliteStoreOptions): { store: Store; connection(): Driver } {
  let connection: Driver | undefined
  const onOpen = (driver: Driver): void => {
    connection = driver
    options.onOpen?.(driver)
  }
  return {
    store: sqliteStore({ ...options, onOpen }),
    connection: () => {
      if (!connection) throw new Error('the store has not opened its file yet')
      return connection
    },
  }
}

function insertRaw(driver: Driver, { id, type, payload, status }: RawColumns): void {
  driver.prepare('INSERT INTO jobs (id, type, payload, status) VALUES (?, ?, ?, ?)').run(id, type, payload, status)
}

/* What the conformance suite asks for. */

export async function inMemory(driver: DriverName): Promise<OpenedStore> {
  const clock = testClock()
  const { store, connection } = openStore({ path: ':memory:', driver, clock })
  return { store, clock, rawInsert: async (columns) => insertRaw(connection(), columns), close: async () => {} }
}

export async function onFile(driver: DriverName): Promise<OpenedStore> {
  const { file, remove } = temporaryFolder()
  const clock = testClock()
  return {
    store: sqliteStore({ path: file, driver, clock }),
    clock,
    another: async () => sqliteStore({ path: file, driver, clock }),
    rawInsert: async (columns) => {
      const other = openDriver(file, { driver })
      insertRaw(other, columns)
      other.close()
    },
    processes: { module: new URL('process-store.ts', import.meta.url).href, args: [file, driver], execArgv: ['--import', 'tsx'] },
    close: async () => remove(),
  }
}
