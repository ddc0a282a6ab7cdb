import type { Facts } from './facts.js'
import { readNumber } from './read.js'
import { lookup, permanent, table, transient, type Verdict } from './verdict.js'

const RESULTS = table(
  [transient('database_conflict', 'operator'), 'BUSY', 'LOCKED', 'SCHEMA', 'PROTOCOL'],
  [transient('database_unavailable', 'operator'), 'IOERR', 'NOMEM', 'ABORT'],
  [transient('disk_full', 'operator'), 'FULL'],
  [transient('timeout', 'operator', 2), 'INTERRUPT'],
  [permanent('misconfigured', 'operator'), 'READONLY', 'CANTOPEN', 'NOTADB', 'CORRUPT', 'PERM', 'AUTH', 'NOLFS', 'FORMAT'],
  [permanent('too_large', 'user'), 'TOOBIG'],
  [permanent('database_rejected', 'developer'), 'ERROR', 'CONSTRAINT', 'MISMATCH', 'MISUSE', 'RANGE', 'NOTFOUND', 'INTERNAL'],
)

// node:sqlite gives the number only; the low byte is the result, the rest a shade of it.
const NUMBERS = [
  'OK', 'ERROR', 'INTERNAL', 'PERM', 'ABORT', 'BUSY', 'LOCKED', 'NOMEM', 'READONLY', 'INTERRUPT', 'IOERR', 'CORRUPT', 'NOTFOUND',
  'FULL', 'CANTOPEN', 'PROTOCOL', 'EMPTY', 'SCHEMA', 'TOOBIG', 'CONSTRAINT', 'MISMATCH', 'MISUSE', 'NOLFS', 'AUTH', 'FORMAT',
  'RANGE', 'NOTADB',
] // prettier-ignore

/** SQLite, through better-sqlite3 (`SQLITE_BUSY_SNAPSHOT`) or node:sqlite (`ERR_SQLITE_ERROR` and a number). */
export function sqlite(facts: Facts): Verdict | undefined {
  const word = /^SQLITE_([A-Z]+)/.exec(facts.code)?.[1]
  if (word !== undefined) return lookup([word], RESULTS)
  if (facts.code !== 'ERR_SQLITE_ERROR') return undefined
  return lookup([NUMBERS[(readNumber(facts.error, 'errcode') ?? 1) & 0xff] ?? ''], RESULTS)
}
