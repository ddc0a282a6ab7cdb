/** From what the user wrote to an open store. */
import { existsSync, realpathSync } from 'node:fs'
import { resolve } from 'node:path'
import { maskSecrets } from '../mask.js'
import { isPostgres, openStore } from '../open-store.js'
import { jobtable, type Queue } from '../queue.js'
import type { QueueOptions } from '../queue-options.js'
import type { Store } from '../store.js'
import { CliError, usageError } from './failure.js'
import type { Session } from './session.js'

/** A bare path is a SQLite file. One letter before the colon is a Windows drive, not a scheme. */
export function toUrl(text: string): string {
  return /^[a-z][a-z0-9+.-]+:/i.test(text) ? text : `sqlite:${text}`
}

/** The URL with the schema in it, for whoever opens it: this command, or a module that it loads. */
export function inSchema(url: string, schema: string): string {
  if (!isPostgres(url)) {
    throw usageError(
      `--schema is for PostgreSQL, and the database is ${shownName(url)}`,
      'leave it out, or name the database with --db postgres://user@host/database',
    )
  }
  if (!URL.canParse(url)) return url // Refused, with the reason, by whoever opens it.
  const parsed = new URL(url)
  parsed.searchParams.set('schema', schema)
  return parsed.href
}

/** The database's name, as it may be shown. */
export function shownName(name: string): string {
  return maskSecrets(name)
}

/** The path of a SQLite database's file; undefined for any other database. */
function fileOf(name: string): string | undefined {
  return /^sqlite:(.+)$/.exec(name)?.[1]
}

/** Whether the files of its jobs are in a folder beside it, unless its queue says otherwise. */
export function hasFilesBeside(name: string): boolean {
  return fileOf(name) !== undefined
}

export function databaseExists(name: string): boolean {
  const file = fileOf(name)
  return file === undefined || existsSync(file)
}

/** Whether two names mean one database. */
export function sameDatabase(a: string, b: string): boolean {
  return canonical(a) === canonical(b)
}

function canonical(name: string): string {
  const file = fileOf(name)
  if (file === undefined) return name.replace(/^(postgres:\/\/[^/]*):5432(?=\/|$)/, '$1')
  if (file === ':memory:') return name
  const path = resolve(file)
  try {
    return `sqlite:${realpathSync(path)}`
  } catch {
    return `sqlite:${path}` // It does not exist yet.
  }
}

/** The name that a queue with this URL would have. */
export function nameOf(url: string): string {
  return openStore(url, {}).name
}

/** A store whose file may be made by it. */
export function makeStore(session: Session): Store {
  const store = openStore(session.url, {})
  refuseMemory(store.name)
  return store
}

/** A store that is there already. It is not migrated: to look at a database must not change it. */
export async function withStore<T>(session: Session, run: (store: Store) => Promise<T>): Promise<T> {
  const store = existingStore(session)
  try {
    return await run(store)
  } finally {
    await store.close()
  }
}

/** A queue on a database that is there already, which is not migrated either. */
export async function withQueue<T>(
  session: Session,
  options: (database: string) => QueueOptions,
  run: (queue: Queue) => Promise<T>,
): Promise<T> {
  const store = withMigrate(existingStore(session), async () => ({ from: 0, to: 0 }))
  const queue = jobtable(session.url, { ...options(store.name), store })
  try {
    return await run(queue)
  } finally {
    await queue.close()
  }
}

function existingStore(session: Session): Store {
  const store = makeStore(session)
  if (databaseExists(store.name)) return store
  throw new CliError(`there is no database ${shownName(store.name)}`, {
    hint: 'name the right one with --db or JOBTABLE_URL, or make this one with `jobtable init`',
  })
}

function refuseMemory(name: string): void {
  if (fileOf(name) === ':memory:') {
    throw usageError(
      `${name} lives inside one process, so there is nothing in it for this command`,
      'name a file, such as --db app.db',
    )
  }
}

/** The store with another `migrate`. Methods of a store may use private members, so that they are called on the store itself. */
export function withMigrate(store: Store, migrate: Store['migrate']): Store {
  return new Proxy(store, {
    get(target, name) {
      if (name === 'migrate') return migrate
      const member: unknown = Reflect.get(target, name, target)
      return typeof member === 'function' ? (member as (...args: unknown[]) => unknown).bind(target) : member
    },
  })
}
