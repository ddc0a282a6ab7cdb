/** Turns what a driver throws into an error that says what to do. */
import { JobtableError } from '../../errors.js'
import { writtenHere } from './writer.js'

/** SQLite's primary result codes that mean something to the caller. */
const CODES: Readonly<Record<number, string>> = {
  1: 'ERROR',
  3: 'PERM',
  5: 'BUSY',
  6: 'LOCKED',
  8: 'READONLY',
  10: 'IOERR',
  11: 'CORRUPT',
  13: 'FULL',
  14: 'CANTOPEN',
  19: 'CONSTRAINT',
  26: 'NOTADB',
}

/** The primary result code without its prefix, such as `BUSY`; undefined for an error that is not SQLite's. */
function sqliteCode(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined
  // node:sqlite carries the number, better-sqlite3 the extended name.
  if ('errcode' in error && typeof error.errcode === 'number') return CODES[error.errcode & 0xff] ?? 'ERROR'
  if ('code' in error && typeof error.code === 'string' && error.code.startsWith('SQLITE_')) return error.code.split('_')[1]
  return undefined
}

/** The connection cannot be trusted after these: the next call opens a new one. */
export function needsReopen(error: unknown): boolean {
  const code = sqliteCode(error)
  return code === 'IOERR' || code === 'CORRUPT' || code === 'NOTADB' || code === 'CANTOPEN' || code === 'READONLY'
}

export function isBusy(error: unknown): boolean {
  const code = sqliteCode(error)
  return code === 'BUSY' || code === 'LOCKED'
}

export function explain(error: unknown, path: string): unknown {
  if (error instanceof JobtableError || !(error instanceof Error)) return error
  const details = { data: { path }, cause: error }
  const said = error.message
  switch (sqliteCode(error)) {
    case 'BUSY':
    case 'LOCKED':
      return new JobtableError('store_busy', `${path} stayed locked by another connection${whatToDo(path)}`, details)
    case 'FULL':
      return new JobtableError(
        'store_full',
        `${path} cannot grow (${said}): free disk space; nothing was written, and nothing accepted before is lost`,
        details,
      )
    case 'IOERR':
      return /write|full|space|fsync|truncate/i.test(`${said} ${'code' in error ? String(error.code) : ''}`)
        ? new JobtableError(
            'store_full',
            `${path} cannot be written (${said}): check the free disk space and the disk; nothing was written`,
            details,
          )
        : new JobtableError(
            'store_unavailable',
            `${path} cannot be read or written (${said}): check the disk and that the file is on a local file system`,
            details,
          )
    case 'READONLY':
      return new JobtableError(
        'store_read_only',
        `${path} cannot be written (${said}): the process needs the right to write the file and its folder, where SQLite keeps the -wal and -shm files`,
        details,
      )
    case 'CANTOPEN':
    case 'PERM':
      return new JobtableError(
        'store_unavailable',
        `${path} cannot be opened (${said}): check that the folder exists and that the process may write the file and its folder`,
        details,
      )
    case 'CORRUPT':
    case 'NOTADB':
      return new JobtableError(
        'store_corrupt',
        `${path} is damaged or no SQLite database (${said}): stop all processes, keep a copy, and restore a backup or try \`sqlite3 FILE .recover\``,
        details,
      )
    case 'ERROR':
      return explainSchema(error, path, details)
    case undefined:
      // better-sqlite3 checks the folder itself, and throws a TypeError.
      return said.includes('directory does not exist')
        ? new JobtableError('store_unavailable', `${path} cannot be opened: its folder does not exist; create it first`, details)
        : error
    default:
      return error
  }
}

function whatToDo(path: string): string {
  const handler =
    'a handler that calls job.step, job.stage, job.progress or the like while a transaction of its own is open waits for itself: call them before it or after it, or use job.transaction, job.checkpoint or job.complete'
  const others = 'look for a transaction left open (a database browser, a backup, a script in BEGIN) and end it'
  const here = writtenHere(path)
  if (here) return ` of this very process: ${handler}`
  return here === undefined ? `: ${others}; and ${handler}` : `: ${others}`
}

function explainSchema(error: Error, path: string, details: { data: { path: string }; cause: Error }): Error {
  if (/no such (table|column)/.test(error.message)) {
    return new JobtableError(
      'schema_missing',
      `${path} lacks a part of jobtable's tables (${error.message}): run \`jobtable migrate\``,
      details,
    )
  }
  if (error.message.includes('ON CONFLICT clause does not match')) {
    return new JobtableError(
      'schema_missing',
      `${path} lacks the unique index jobs_key, without which duplicates would get in: run \`jobtable migrate\`, which creates it again`,
      details,
    )
  }
  return error
}
