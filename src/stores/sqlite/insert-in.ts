/** Enqueueing in a transaction of the product's own, on a connection of the product's own. */
import { statSync } from 'node:fs'
import { JobtableError } from '../../errors.js'
import type { InsertOutcome, NewJob } from '../../store.js'
import type { Transaction } from '../../transactions/transaction.js'
import { insertAll } from './insert.js'
import { checkVersion } from './schema.js'
import { runThere, type SqliteWork } from './work.js'

export function insertIn(
  transaction: Transaction,
  path: string,
  clock: { now(): number },
  jobs: readonly NewJob[],
): InsertOutcome[] | Promise<InsertOutcome[]> {
  const { library, database } = transaction
  if (database !== 'sqlite') {
    throw new JobtableError(
      'config_invalid',
      `the transaction of ${library} is one of PostgreSQL, and this queue is in SQLite (${path}): a job joins only a transaction of the queue's own database`,
    )
  }
  if (jobs.length === 0) return []
  return runThere(transaction, checkedInsert(library, path, clock, jobs))
}

function* checkedInsert(
  library: string,
  path: string,
  clock: { now(): number },
  jobs: readonly NewJob[],
): SqliteWork<InsertOutcome[]> {
  const [main] = yield { sql: `SELECT file FROM pragma_database_list WHERE name = 'main'`, params: [] }
  const file = main?.[0]
  checkFile(library, typeof file === 'string' ? file : '', path)
  // The tables are not made here: whoever opens the queue makes them, and would wait for this very transaction.
  yield* checkVersion(path)
  return yield* insertAll(clock.now(), jobs)
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
