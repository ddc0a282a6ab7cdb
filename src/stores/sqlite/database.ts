/**
 * One connection to one file: opening, settings, transactions, waiting for locks, and the size of the write-ahead log.
 *
 * SQLite has one writer at a time and no queue for it. Every write transaction starts with BEGIN IMMEDIATE: one that
 * read first could not be made a writer once another process had written, and SQLite would report BUSY at once,
 * whatever the timeout. The drivers are synchronous, so that waiting inside SQLite stops the event loop: it waits there
 * for a few milliseconds only, and between attempts in JavaScript. The writes of this store stand in a line, so that
 * only its head tries.
 */
import { statSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import type { OwnTransaction } from '../../effects/record.js'
import { JobtableError } from '../../errors.js'
import { openDriver, type Driver, type DriverName, type SqlRow, type SqlValue, type Statement } from './driver.js'
import { explain, isBusy, needsReopen } from './failure.js'
import { Thrown } from '../thrown.js'
import { asynchronous, LentTransaction } from './lent.js'
import { checkVersion } from './schema.js'
import { runHere } from './work.js'

export interface DatabaseOptions {
  path: string
  driver?: DriverName
  synchronous: 'full' | 'normal'
  busyTimeoutMs: number
  clock: { now(): number }
  /** For tests: the size beyond which the log is cut. */
  walBoundBytes: number
  /** For tests: sees every connection right after it was opened. */
  onOpen?: (driver: Driver) => void
}

/** How statements run inside `read` and `write`. */
export interface Sql {
  /** The database's time in this transaction. */
  readonly now: number
  all(sql: string, ...params: SqlValue[]): SqlRow[]
  run(sql: string, ...params: SqlValue[]): number
}

export interface WriteOptions {
  /** Nobody in this process needs to hear of it. */
  quiet?: boolean
  /**
   * It matters only as long as the process that writes it lives, so that it may be lost with it in a power cut: the commit
   * does not wait for the disk, and the next one that does takes it along.
   */
  fleeting?: boolean
}

/** The longest that SQLite itself waits for a lock, and so stops the event loop. */
const INNER_WAIT_MS = 10
const LONGEST_PAUSE_MS = 40
export const WAL_BOUND_BYTES = 32 * 1024 * 1024
/** In commits. */
const WAL_LOOK_EVERY = 32

/** The latest moment that a Date can hold; the schema refuses more. */
const LAST_MOMENT = 8_640_000_000_000_000

/** A moment that the schema accepts, whatever sum it came from. */
export function moment(ms: number): number {
  return Math.min(LAST_MOMENT, Math.max(0, Math.round(ms)))
}

export class Connection implements Sql {
  readonly driver: Driver
  readonly #statements = new Map<string, Statement>()
  now = 0

  constructor(driver: Driver) {
    this.driver = driver
  }

  all(sql: string, ...params: SqlValue[]): SqlRow[] {
    return this.#statement(sql).all(...params)
  }

  run(sql: string, ...params: SqlValue[]): number {
    return this.#statement(sql).run(...params)
  }

  #statement(sql: string): Statement {
    let statement = this.#statements.get(sql)
    if (statement === undefined) {
      statement = this.driver.prepare(sql)
      this.#statements.set(sql, statement)
    }
    return statement
  }
}

export class Database {
  readonly path: string
  readonly onFile: boolean
  /** Called after a commit of this connection that changed something. */
  onCommit: () => void = () => {}
  readonly #options: DatabaseOptions
  #connection: Connection | undefined
  #versionChecked = false
  #closed = false
  #writing = false
  readonly #line: (() => void)[] = []
  readonly #lent = new WeakSet<object>()
  #commits = 0

  constructor(options: DatabaseOptions) {
    this.#options = options
    this.path = options.path
    this.onFile = options.path !== ':memory:' && options.path !== ''
  }

  get synchronous(): 'full' | 'normal' {
    return this.#options.synchronous
  }

  /** Runs statements outside a transaction, each on a snapshot of its own. In WAL mode no lock can stop them. */
  read<T>(work: (sql: Sql) => T): Promise<T> {
    return this.#serve(performance.now(), () => work(this.#ready()))
  }

  /** Runs the work in one write transaction. It may run more than once: it must change nothing but the database. */
  write<T>(work: (sql: Sql) => T, options: WriteOptions = {}): Promise<T> {
    return this.#inLine(() => this.#transaction(this.#ready(), work, options))
  }

  /** This moment, for a transaction that others commit. */
  now(): number {
    return this.#options.clock.now()
  }

  /** Lends the connection for a transaction of the product's; see `Store.transact`. */
  async transact<T>(work: (transaction: OwnTransaction) => T | Promise<T>): Promise<T> {
    try {
      return await this.write(() => this.#lend(work))
    } catch (error) {
      throw error instanceof Thrown ? error.cause : error
    }
  }

  /** What the work throws is the product's, not a fault of the database: it is not tried again. */
  #lend<T>(work: (transaction: OwnTransaction) => T | Promise<T>): T {
    const transaction = new LentTransaction(this.#ready())
    this.#lent.add(transaction)
    try {
      const value = work(transaction)
      if (value instanceof Promise) throw asynchronous(value)
      return value
    } catch (error) {
      throw new Thrown(error)
    } finally {
      transaction.end()
    }
  }

  /** Whether this very database has lent it. */
  lent(transaction: object): boolean {
    return this.#lent.has(transaction)
  }

  /** A write transaction that does not expect the tables to be there. */
  writeUnchecked<T>(work: (sql: Sql, exec: (sql: string) => void) => T): Promise<T> {
    return this.#inLine(() => {
      const connection = this.#open()
      return this.#transaction(connection, (sql) => work(sql, (text) => connection.driver.exec(text)), {})
    })
  }

  /** Reads without expecting the tables to be there. */
  readUnchecked<T>(work: (sql: Sql) => T): Promise<T> {
    return this.#serve(performance.now(), () => {
      const connection = this.#open()
      connection.now = this.#options.clock.now()
      return work(connection)
    })
  }

  /** A number that changes when another connection has committed; undefined while the file cannot be read. */
  dataVersion(): number | undefined {
    try {
      return this.#open().all('PRAGMA data_version')[0]?.[0] as number
    } catch (error) {
      if (needsReopen(error)) this.#drop()
      return undefined
    }
  }

  close(): void {
    this.#closed = true
    this.#drop()
  }

  async #inLine<T>(attempt: () => T): Promise<T> {
    const since = performance.now()
    if (this.#writing) await new Promise<void>((resolve) => this.#line.push(resolve))
    this.#writing = true
    try {
      return await this.#serve(since, attempt)
    } finally {
      const next = this.#line.shift()
      if (next) next()
      else this.#writing = false
    }
  }

  async #serve<T>(since: number, attempt: () => T): Promise<T> {
    for (let pauseMs = 1; ; pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS)) {
      try {
        return attempt()
      } catch (error) {
        if (needsReopen(error)) this.#drop()
        if (!isBusy(error) || performance.now() - since >= this.#options.busyTimeoutMs) throw explain(error, this.path)
      }
      await sleep(pauseMs * (0.5 + Math.random()))
    }
  }

  #transaction<T>(connection: Connection, work: (sql: Sql) => T, { quiet, fleeting }: WriteOptions): T {
    const relaxed = fleeting === true && this.#options.synchronous === 'full'
    if (relaxed) connection.driver.exec('PRAGMA synchronous = normal')
    try {
      const answer = this.#commit(connection, work)
      if (!quiet) this.onCommit()
      return answer
    } finally {
      if (relaxed) connection.driver.exec('PRAGMA synchronous = full')
    }
  }

  #commit<T>(connection: Connection, work: (sql: Sql) => T): T {
    connection.run('BEGIN IMMEDIATE')
    connection.now = this.#options.clock.now()
    let answer: T
    try {
      answer = work(connection)
      connection.run('COMMIT')
    } catch (error) {
      rollBack(connection)
      throw error
    }
    this.#boundWal(connection)
    return answer
  }

  #ready(): Connection {
    const connection = this.#open()
    if (!this.#versionChecked) {
      runHere(connection, checkVersion(this.path))
      this.#versionChecked = true
    }
    connection.now = this.#options.clock.now()
    return connection
  }

  #open(): Connection {
    if (this.#closed) throw new JobtableError('store_unavailable', `the store of ${this.path} was closed: make a new one`)
    if (this.#connection) return this.#connection
    const { path, driver, synchronous, walBoundBytes, onOpen } = this.#options
    const opened = openDriver(path, driver ? { driver } : {})
    try {
      opened.exec(`PRAGMA busy_timeout = ${INNER_WAIT_MS}`)
      opened.exec('PRAGMA journal_mode = WAL')
      opened.exec(`PRAGMA synchronous = ${synchronous}`)
      opened.exec(`PRAGMA journal_size_limit = ${walBoundBytes}`)
      opened.exec('PRAGMA wal_autocheckpoint = 1000')
      opened.exec('PRAGMA cache_size = -16000')
      opened.exec('PRAGMA temp_store = MEMORY')
      opened.define('jobtable_fold', (text) => (typeof text === 'string' ? text.toLowerCase() : text))
      onOpen?.(opened)
    } catch (error) {
      opened.close()
      throw error
    }
    this.#versionChecked = false
    return (this.#connection = new Connection(opened))
  }

  #drop(): void {
    const connection = this.#connection
    // What is in memory is gone when its only connection closes, so that an error never does that.
    if (!connection || (!this.onFile && !this.#closed)) return
    this.#connection = undefined
    try {
      connection.driver.close()
    } catch {
      // A connection that cannot even be closed is left to the garbage collector.
    }
  }

  /**
   * SQLite's own checkpoints copy the log into the file, but never shorten the log, and cannot pass a reader. A reader that
   * stayed for long leaves a big log behind, which is cut here as soon as nobody reads from it.
   */
  #boundWal(connection: Connection): void {
    if (!this.onFile || ++this.#commits % WAL_LOOK_EVERY !== 0) return
    try {
      if (walBytes(this.path) > this.#options.walBoundBytes) cutWal(connection)
    } catch {
      // The commit before it stands, whatever became of the log.
    }
  }
}

/** Does not wait for a reader that is in the way after all: a later commit tries again. */
function cutWal(connection: Connection): void {
  connection.driver.exec('PRAGMA busy_timeout = 0')
  try {
    connection.all('PRAGMA wal_checkpoint(TRUNCATE)')
  } finally {
    connection.driver.exec(`PRAGMA busy_timeout = ${INNER_WAIT_MS}`)
  }
}

export function walBytes(path: string): number {
  return statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0
}

function rollBack(connection: Connection): void {
  try {
    connection.run('ROLLBACK')
  } catch {
    // SQLite rolls back by itself on a full disk or an I/O error, and then there is nothing to roll back.
  }
}
