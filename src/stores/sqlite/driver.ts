/**
 * The two SQLite libraries behind one small face. Rows come as arrays in the order of the columns: objects with thirty
 * members cost a third of the time of a claim. Both drivers are synchronous.
 */
import { createRequire } from 'node:module'
import { JobtableError } from '../../errors.js'
import { numbered } from '../../transactions/numbered.js'

export type DriverName = 'node:sqlite' | 'better-sqlite3'
export type SqlValue = string | number | null
export type SqlRow = SqlValue[]

export interface Statement {
  all(...params: SqlValue[]): SqlRow[]
  /** How many rows it changed. */
  run(...params: SqlValue[]): number
}

export interface Driver {
  readonly name: DriverName
  exec(sql: string): void
  prepare(sql: string): Statement
  /** The rows of a statement of the product's, as objects. */
  query(sql: string, params: readonly SqlValue[]): object[]
  /** Makes a pure function of one argument known to SQL. */
  define(name: string, fn: (value: SqlValue) => SqlValue): void
  /** Whether a transaction is open; undefined where the library does not tell. */
  inTransaction(): boolean | undefined
  close(): void
}

export interface DriverOptions {
  /** Which library to use. Without it: node:sqlite where Node has it, else better-sqlite3. */
  driver?: DriverName
}

/** Opens or creates the file. Throws what the library throws, or `driver_missing`. */
export function openDriver(path: string, options: DriverOptions = {}): Driver {
  if (options.driver === 'better-sqlite3') return openBetter(path, loadBetter())
  const builtin = loadBuiltin()
  if (builtin) return openBuiltin(path, builtin)
  if (options.driver === 'node:sqlite') {
    throw new JobtableError(
      'driver_missing',
      `this Node (${process.version}) has no node:sqlite: use Node 22.16 or newer, or leave out driver: 'node:sqlite' and run \`npm install better-sqlite3\``,
    )
  }
  return openBetter(path, loadBetter())
}

/* node:sqlite. Its types are declared here because @types/node 20 has none. */

interface BuiltinModule {
  DatabaseSync: new (path: string) => BuiltinDatabase
}

interface BuiltinDatabase {
  /** Only the newer versions tell. */
  readonly isTransaction?: boolean
  exec(sql: string): void
  prepare(sql: string): BuiltinStatement
  function(name: string, options: { deterministic: boolean }, fn: (value: SqlValue) => SqlValue): void
  close(): void
}

interface BuiltinStatement {
  setReturnArrays(enabled: boolean): void
  all(...params: SqlValue[]): unknown[]
  run(...params: SqlValue[]): { changes: number | bigint }
}

/**
 * Asked for by `getBuiltinModule`, because bundlers and test runners turn an import of `node:sqlite` into `sqlite`, which
 * does not exist. Node 22 warns once that the module is experimental; that one warning is held back, since whoever uses
 * jobtable cannot act on it.
 */
function loadBuiltin(): BuiltinModule | undefined {
  const emitWarning = process.emitWarning
  process.emitWarning = (warning: string | Error, ...rest: unknown[]) => {
    if (String(warning).startsWith('SQLite is an experimental feature')) return
    Reflect.apply(emitWarning, process, [warning, ...rest])
  }
  try {
    const module = process.getBuiltinModule('node:sqlite') as BuiltinModule | undefined
    // Node 22.5 to 22.15 has the module, but no rows as arrays.
    return module && 'setReturnArrays' in statementPrototype(module) ? module : undefined
  } finally {
    process.emitWarning = emitWarning
  }
}

function statementPrototype(module: BuiltinModule): object {
  return (module as unknown as { StatementSync: { prototype: object } }).StatementSync.prototype
}

function openBuiltin(path: string, module: BuiltinModule): Driver {
  const database = new module.DatabaseSync(path)
  return {
    name: 'node:sqlite',
    exec: (sql) => database.exec(sql),
    prepare: (sql) => {
      const statement = database.prepare(sql)
      statement.setReturnArrays(true)
      return {
        all: (...params) => statement.all(...params) as SqlRow[],
        run: (...params) => Number(statement.run(...params).changes),
      }
    },
    query: (sql, params) => database.prepare(sql).all(...params) as object[],
    define: (name, fn) => database.function(name, { deterministic: true }, fn),
    inTransaction: () => database.isTransaction,
    close: () => database.close(),
  }
}

/* better-sqlite3, an optional peer dependency. */

type BetterModule = new (path: string) => BetterDatabase

interface BetterDatabase {
  readonly inTransaction: boolean
  exec(sql: string): void
  prepare(sql: string): BetterStatement
  function(name: string, options: { deterministic: boolean }, fn: (value: SqlValue) => SqlValue): void
  close(): void
}

interface BetterStatement {
  readonly reader: boolean
  raw(enabled: boolean): void
  all(...params: SqlValue[]): unknown[]
  run(...params: SqlValue[]): { changes: number }
}

function loadBetter(): BetterModule {
  const require = createRequire(import.meta.url ?? process.cwd() + '/')
  try {
    return require('better-sqlite3') as BetterModule
  } catch (cause) {
    throw new JobtableError(
      'driver_missing',
      `no SQLite driver can be loaded in Node ${process.version}: use Node 22.16 or newer, which has node:sqlite built in, or run \`npm install better-sqlite3\` (again after a change of the Node version)`,
      { cause },
    )
  }
}

function openBetter(path: string, Better: BetterModule): Driver {
  const database = new Better(path)
  return {
    name: 'better-sqlite3',
    exec: (sql) => database.exec(sql),
    prepare: (sql) => {
      // It takes `?1` for a name, and names cost an object per call.
      const { text, arrange } = numbered(sql)
      const statement = database.prepare(text)
      if (statement.reader) statement.raw(true)
      return {
        all: (...params) => statement.all(...arrange(params)) as SqlRow[],
        run: (...params) => statement.run(...arrange(params)).changes,
      }
    },
    query: (sql, params) => {
      const { text, arrange } = numbered(sql)
      const statement = database.prepare(text)
      if (statement.reader) return statement.all(...arrange(params)) as object[]
      statement.run(...arrange(params))
      return []
    },
    define: (name, fn) => database.function(name, { deterministic: true }, fn),
    inTransaction: () => database.inTransaction,
    close: () => database.close(),
  }
}
