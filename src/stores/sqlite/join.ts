/** Work in a transaction that somebody else commits: the product's, on a connection of its own, or one that this store lent. */
import { statSync } from 'node:fs'
import { describeError } from '../../classify/describe.js'
import { JobtableError } from '../../errors.js'
import type { Transaction } from '../../transactions/transaction.js'
import type { Database } from './database.js'
import { checkVersion } from './schema.js'
import { runThere, type SqliteWork } from './work.js'

/** `work` is given the database's time. */
export function join<T>(database: Database, transaction: Transaction, work: (now: number) => SqliteWork<T>): T | Promise<T> {
  if (transaction.database !== 'sqlite') {
    throw new JobtableError(
      'config_invalid',
      `the transaction of ${transaction.library} is one of PostgreSQL, and this queue is in SQLite (${database.path}): a job joins only a transaction of the queue's own database`,
    )
  }
  if (database.lent(transaction)) return runThere(transaction, work(database.now()))
  return runThere(transaction, checked(database, transaction, work))
}

function* checked<T>(database: Database, { library }: Transaction, work: (now: number) => SqliteWork<T>): SqliteWork<T> {
  yield* takeWriteLock()
  const [main] = yield { sql: `SELECT file FROM pragma_database_list WHERE name = 'main'`, params: [] }
  const file = main?.[0]
  checkFile(library, typeof file === 'string' ? file : '', database.path)
  // The tables are not made here: whoever opens the queue makes them, and would wait for this very transaction.
  yield* checkVersion(database.path)
  return yield* work(database.now())
}

/**
 * Where a transaction has read first, SQLite refuses its write at once when another connection writes, or has written since. One that begins
 * with a write waits for its turn.
 */
function* takeWriteLock(): SqliteWork<void> {
  try {
    yield { sql: `DELETE FROM jobtable_migrations WHERE false`, params: [], writes: true }
  } catch (error) {
    if (!/no such table/.test(describeError(error).message)) throw error // Why is told by the look at the tables.
  }
}

/** A job in another file is one that this queue's workers never see. */
function checkFile(library: string, file: string, path: string): void {
  if (path === ':memory:' || path === '') {
    throw new JobtableError(
      'config_invalid',
      `this queue is in memory, where no transaction of ${library} can reach it: open the queue on the file that the transaction is in`,
    )
  }
  if (isSameFile(file, path)) return
  throw new JobtableError(
    'config_invalid',
    `the transaction of ${library} is in ${file === '' ? 'a database in memory' : file}, and this queue in ${path}: open the queue on the file that the transaction is in`,
    { data: { file, path } },
  )
}

function isSameFile(file: string, path: string): boolean {
  if (file === '') return false
  const [one, other] = [file, path].map((name) => statSync(name, { bigint: true, throwIfNoEntry: false }))
  return one !== undefined && other !== undefined && one.dev === other.dev && one.ino === other.ino
}
