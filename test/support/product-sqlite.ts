/** A connection of a product's own to an SQLite file, by the library that jobtable takes on this Node. */
import { createRequire } from 'node:module'
import { openDriver } from '../../src/stores/sqlite/driver.js'

/** As far as tests use them, both libraries have this face. */
export interface SqliteConnection {
  exec(sql: string): void
  prepare(sql: string): {
    run(...params: string[]): { changes: number | bigint }
    get(...params: string[]): unknown
  }
  close(): void
}

type Library = new (file: string) => SqliteConnection

export function connectSqlite(file: string): SqliteConnection {
  const probe = openDriver(':memory:')
  probe.close()
  // @types/node 20 knows nothing of node:sqlite.
  const builtin = (): Library =>
    (process.getBuiltinModule('node:sqlite' as 'node:fs') as unknown as { DatabaseSync: Library }).DatabaseSync
  const Database = probe.name === 'node:sqlite' ? builtin() : (createRequire(import.meta.url)('better-sqlite3') as Library)
  return new Database(file)
}
