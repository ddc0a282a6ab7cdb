/** Turns what `pg` and the server throw into an error that says what to do. */
import { JobtableError, type ErrorCode } from '../../errors.js'

/** What `pg` says when a connection is gone, where neither the system nor the server gives a code. */
const CONNECTION_WORDS =
  /connection terminated|connection error|terminating connection|timeout expired|timeout exceeded|client was closed|pool after calling end|not queryable/i
const SYSTEM_CODES = /^(E(CONN|PIPE|HOST|NET|TIMEDOUT|NOTFOUND|AI_|ACCES|ADDR|RR_STREAM_)|ENOENT$)/

/** Thrown here when an answer does not come: the network may have swallowed it. */
export class NoAnswer extends Error {
  override readonly name = 'NoAnswer'
  constructor(ms: number) {
    super(`no answer from the database within ${ms} ms`)
  }
}

/** The SQLSTATE, or undefined for an error that is not the server's. */
export function sqlState(error: unknown): string | undefined {
  const code = codeOf(error)
  return code !== undefined && /^[0-9A-Z]{5}$/.test(code) && !SYSTEM_CODES.test(code) ? code : undefined
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
}

/** Whether the same transaction may well succeed if it is run again at once. */
export function isConflict(error: unknown): boolean {
  const state = sqlState(error)
  return state === '40001' || state === '40P01'
}

export function isUniqueViolation(error: unknown): boolean {
  return sqlState(error) === '23505'
}

/** Whether the statement has waited for a row that somebody else has locked, for as long as it was to. */
export function isLockTimeout(error: unknown): boolean {
  return sqlState(error) === '55P03'
}

/** Whether a prepared statement is not where it was prepared, or is there already: a pooler has changed the connection. */
export function isUnprepared(error: unknown): boolean {
  const state = sqlState(error)
  return state === '26000' || state === '42P05'
}

/** Whether the connection is of no more use, or leads to a server that is of none. */
export function isBroken(error: unknown): boolean {
  const state = sqlState(error)
  if (state === undefined) return true
  return state.startsWith('08') || state.startsWith('57P') || state === '25006' || state === '25P03'
}

export function explain(error: unknown, name: string, schema: string): unknown {
  if (error instanceof JobtableError || !(error instanceof Error)) return error
  const said = error.message
  const as = (code: ErrorCode, problem: string, todo: string): JobtableError =>
    new JobtableError(code, `${name} ${problem} (${said}): ${todo}`, { data: { database: name }, cause: error })
  const state = sqlState(error)
  if (state === undefined) return explainConnection(error, as)
  switch (state) {
    case '25006':
      return as(
        'store_read_only',
        'takes no writes',
        'it is a standby, or default_transaction_read_only is on; connect to the primary',
      )
    case '28000':
    case '28P01':
      return as('store_unavailable', 'refuses the login', 'check the user, the password and pg_hba.conf')
    case '3D000':
      return as('store_unavailable', 'does not exist', 'create it with createdb, or correct the URL')
    case '42501':
      return as(
        'store_denied',
        'does not permit this',
        `grant the role USAGE on the schema ${schema}, and SELECT, INSERT, UPDATE and DELETE on its tables; an owner runs \`jobtable migrate\``,
      )
    case '42P01':
    case '42703':
    case '42883':
    case '3F000':
      return as(
        'schema_missing',
        `lacks a part of jobtable's tables in schema ${schema}`,
        'run `jobtable migrate`, or call migrate() first',
      )
    case '40001':
    case '40P01':
      return as('store_busy', 'is busy with conflicting transactions', 'try again; if it stays so, look into pg_locks')
    case '55P03':
    case '57014':
      return as(
        'store_busy',
        'did not finish in time',
        'look for locks and for statement_timeout or lock_timeout of this role; the doctor lists long transactions',
      )
    case '53100':
      return as('store_full', 'has no space left', 'free disk space on the server; nothing was written')
    case '53300':
      return as(
        'store_unavailable',
        'has no connection left',
        'lower the pools of its clients, raise max_connections, or put a pooler before it',
      )
    case 'XX001':
    case 'XX002':
      return as(
        'store_corrupt',
        'is damaged',
        'keep a copy, and restore a backup; amcheck tells which tables and indexes are hit',
      )
    default:
      return /^(08|53|57P|58)/.test(state)
        ? as('store_unavailable', 'cannot serve now', 'it is tried again by whoever can wait')
        : error
  }
}

function explainConnection(error: Error, as: (code: ErrorCode, problem: string, todo: string) => JobtableError): Error {
  const code = codeOf(error)
  const network =
    error instanceof NoAnswer || (code !== undefined && SYSTEM_CODES.test(code)) || CONNECTION_WORDS.test(error.message)
  const several = error instanceof AggregateError && error.errors.length > 0
  if (!network && !several) return error
  return as('store_unavailable', 'cannot be reached', 'check that it runs, and the host, port and network on the way')
}
