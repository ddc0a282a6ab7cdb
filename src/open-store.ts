/**
 * From a database URL to its store.
 */
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { JobtableError } from './errors.js'
import { maskSecrets } from './mask.js'
import type { Store } from './store.js'
import { sqliteStore } from './stores/sqlite/index.js'

export interface OpenStoreOptions {
  durability?: 'full' | 'relaxed'
  driver?: 'node:sqlite' | 'better-sqlite3'
}

export function openStore(url: string, options: OpenStoreOptions): { store(): Store; filesFolder: string } {
  // One letter before the colon is a Windows drive, not a scheme.
  const bare = url !== '' && !/^[a-z][a-z0-9+.-]+:/i.test(url)
  const path = bare ? url : /^sqlite:(?:\/\/(?=\/))?(.+)$/.exec(url)?.[1]
  if (path === undefined) {
    throw new JobtableError(
      'config_invalid',
      `${maskSecrets(url)} is no database URL that this version knows: write sqlite:<file>, such as sqlite:app.db, or the file alone`,
    )
  }
  return {
    store: () =>
      sqliteStore({
        path,
        synchronous: options.durability === 'relaxed' ? 'normal' : 'full',
        ...(options.driver && { driver: options.driver }),
      }),
    filesFolder: path === ':memory:' ? join(tmpdir(), `jobtable-files-${process.pid}`) : `${path}.files`,
  }
}
