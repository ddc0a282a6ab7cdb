/**
 * From a database URL to its store, and to where its files go.
 */
import { randomUUID } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { JobtableError } from './errors.js'
import { localFiles, noFiles, type FileStore } from './files.js'
import { maskSecrets } from './mask.js'
import type { Store } from './store.js'
import { isPool, postgresSchema, postgresStore, type PgPool } from './stores/postgres/index.js'
import { sqliteSchema, sqliteStore } from './stores/sqlite/index.js'

export interface OpenStoreOptions {
  durability?: 'full' | 'relaxed'
  driver?: 'node:sqlite' | 'better-sqlite3'
  schema?: string
  /** Tests pass their own. */
  clock?: { now(): number }
}

export function openStore(database: string | PgPool, options: OpenStoreOptions): Store {
  if (isPool(database)) return openPostgres(database, options.schema, options)
  if (isPostgres(database)) {
    const { url, schema } = withoutSchema(database)
    return openPostgres(url, options.schema ?? schema, options)
  }
  return openSqlite(database, options)
}

/** The SQL that makes the tables in an empty database of this kind, without opening it. */
export function schemaOf(url: string): string {
  if (isPostgres(url)) return postgresSchema(withoutSchema(url).schema)
  pathOf(url)
  return sqliteSchema()
}

export function isPostgres(url: string): boolean {
  return /^postgres(ql)?:/.test(url)
}

function openPostgres(connection: string | PgPool, schema: string | undefined, options: OpenStoreOptions): Store {
  refuse(options, ['durability', 'driver'], 'PostgreSQL')
  return postgresStore({ connection, ...(schema !== undefined && { schema }), ...(options.clock && { clock: options.clock }) })
}

/** `?schema=` is ours: the server would refuse a parameter that it does not know. */
function withoutSchema(url: string): { url: string; schema: string | undefined } {
  // A password with a # would end up as one, and a part of it as the host.
  if (!URL.canParse(url) || new URL(url).hash !== '') {
    // Where the password begins and ends is what is unclear.
    const shown = url.replace(/(?<=:\/\/).*@/s, '[masked]@').replace(/#.*/s, '#[masked]')
    throw new JobtableError(
      'config_invalid',
      `${shown} is no valid URL: write postgres://user:password@host:5432/database, with special characters percent-encoded`,
    )
  }
  const parsed = new URL(url)
  const schema = parsed.searchParams.get('schema')
  if (schema === null) return { url, schema: undefined }
  parsed.searchParams.delete('schema')
  return { url: parsed.href, schema }
}

function refuse(options: OpenStoreOptions, names: readonly (keyof OpenStoreOptions)[], database: string): void {
  const given = names.find((name) => options[name] !== undefined)
  if (given !== undefined) throw new JobtableError('config_invalid', `${given} means nothing to ${database}: leave it out`)
}

function openSqlite(url: string, options: OpenStoreOptions): Store {
  refuse(options, ['schema'], 'SQLite')
  return sqliteStore({
    path: pathOf(url),
    synchronous: options.durability === 'relaxed' ? 'normal' : 'full',
    ...(options.driver && { driver: options.driver }),
    ...(options.clock && { clock: options.clock }),
  })
}

function pathOf(url: string): string {
  const host = /^sqlite:\/\/(?!\/)(.*)$/.exec(url)?.[1]
  if (host !== undefined) {
    throw new JobtableError(
      'config_invalid',
      maskSecrets(
        `${url} names a host where SQLite has none: write sqlite:${host || 'app.db'} for a file seen from here, or sqlite:///absolute/path`,
      ),
    )
  }
  // One letter before the colon is a Windows drive, not a scheme.
  const bare = url !== '' && !/^[a-z][a-z0-9+.-]+:/i.test(url)
  const path = bare ? url : /^sqlite:(?:\/\/(?=\/))?(.+)$/.exec(url)?.[1]
  if (path === undefined) {
    throw new JobtableError(
      'config_invalid',
      `${maskSecrets(url)} is no database URL that this version knows: write sqlite:<file>, such as sqlite:app.db, the file alone, or postgres://user@host/database`,
    )
  }
  return path
}

/**
 * Where the files of a queue on this store go when it does not say: beside the database. Those of a database in memory go where
 * temporary things go, and go with it: `discard` is called when the queue is closed.
 */
export function filesBeside(store: Store): { files: FileStore; discard(): Promise<void> } {
  const path = /^sqlite:(.+)$/.exec(store.name)?.[1]
  const keep = (): Promise<void> => Promise.resolve()
  if (path === undefined) return { files: noFiles(store.name), discard: keep }
  if (path !== ':memory:') return { files: localFiles(`${path}.files`), discard: keep }
  const folder = join(tmpdir(), `jobtable-files-${randomUUID()}`)
  return { files: localFiles(folder), discard: () => rm(folder, { recursive: true, force: true }) }
}
