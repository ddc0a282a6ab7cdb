import Database from 'better-sqlite3'
import { openDriver, type Driver } from '../../src/stores/sqlite/driver.js'
import pg from 'pg'
import { describe, onTestFinished } from 'vitest'
import * as valibot from 'valibot'
import { z } from 'zod'
import { permanent, refusing, rows, tcp, transient, unknownOutcome } from './support.js'

const message = (type: string, body: Buffer): Buffer => {
  const length = Buffer.alloc(4)
  length.writeInt32BE(body.length + 4)
  return Buffer.concat([Buffer.from(type), length, body])
}

/** ErrorResponse of PostgreSQL's wire protocol, which pg turns into its own error class. */
function errorResponse(sqlState: string): Buffer {
  const fields = { S: 'ERROR', V: 'ERROR', C: sqlState, M: 'made up', R: 'routine' }
  return message(
    'E',
    Buffer.from(
      `${Object.entries(fields)
        .map(([key, value]) => `${key}${value}\0`)
        .join('')}\0`,
    ),
  )
}

const READY = Buffer.concat([message('R', Buffer.alloc(4)), message('Z', Buffer.from('I'))])

async function query(port: number, options: object = {}): Promise<unknown> {
  const client = new pg.Client({ host: '127.0.0.1', port, user: 'u', database: 'd', ssl: false, ...options })
  client.on('error', () => {})
  onTestFinished(() => void client.end().catch(() => {}))
  await client.connect()
  return client.query('select 1')
}

const serverSaying = async (sqlState: string) =>
  query((await tcp((socket) => socket.once('data', () => socket.end(errorResponse(sqlState))))).port)
/** A server that lets the client in, and does this with its query. */
const serverThat = async (reply: 'hangs up' | 'is silent', options: object = {}) => {
  const { port } = await tcp((socket) =>
    socket.once('data', () => {
      socket.write(READY)
      socket.once('data', () => void (reply === 'hangs up' && socket.destroy()))
    }),
  )
  return query(port, options)
}

describe('pg', () => {
  const rejected = permanent('database_rejected', 'developer')
  const conflict = transient('database_conflict', 'provider')
  const unavailable = transient('database_unavailable', 'operator')
  const expected: Record<string, ReturnType<typeof transient>> = {
    '40001': conflict,
    '40P01': conflict,
    '55P03': conflict,
    '53300': unavailable,
    '57P03': unavailable,
    '57P01': unavailable,
    '08001': unavailable,
    '08006': unknownOutcome('database_unavailable', 'operator'),
    '40003': unknownOutcome('database_unavailable', 'operator'),
    '25006': unavailable,
    '53100': transient('disk_full', 'operator'),
    '57014': transient('timeout', 'operator', { maxRetries: 2 }),
    XX000: transient('database_unavailable', 'operator', { maxRetries: 2 }),
    '23505': rejected,
    '22P02': rejected,
    '23514': rejected,
    '42P01': rejected,
    '42703': rejected,
    '42601': rejected,
    P0001: rejected,
    '42501': permanent('forbidden', 'operator'),
    '28000': permanent('unauthorized', 'operator'),
    '28P01': permanent('unauthorized', 'operator'),
    '3D000': permanent('misconfigured', 'operator'),
  }
  rows([
    ...Object.entries(expected).map(
      ([state, decision]) => [`${state} is ${decision.kind}`, () => serverSaying(state), decision] as const,
    ),
    [
      'a connection terminated in a query leaves the outcome unknown',
      () => serverThat('hangs up'),
      unknownOutcome('database_unavailable', 'operator'),
    ],
    [
      'a refused connection is transient',
      async () => query((await refusing()).port),
      transient('connection_refused', 'provider'),
    ],
    [
      'a query that reaches its time limit leaves the outcome unknown',
      () => serverThat('is silent', { query_timeout: 1 }),
      unknownOutcome('timeout', 'operator'),
    ],
    [
      'a time limit while connecting is transient',
      async () => query((await tcp(() => {})).port, { connectionTimeoutMillis: 1 }),
      unavailable,
    ],
    [
      'a server without TLS, where TLS is asked for, is permanent',
      async () => query((await tcp((socket) => socket.once('data', () => socket.write('N')))).port, { ssl: true }),
      permanent('tls_invalid', 'operator'),
    ],
    ['a pool that gets no connection in time is transient', poolTimeout, unavailable],
  ])
})

async function poolTimeout(): Promise<unknown> {
  const { port } = await tcp(() => {})
  const pool = new pg.Pool({ host: '127.0.0.1', port, user: 'u', ssl: false, connectionTimeoutMillis: 1 })
  pool.on('error', () => {})
  onTestFinished(() => pool.end())
  return pool.query('select 1')
}

describe('SQLite', () => {
  // Whichever library this Node has: better-sqlite3 or node:sqlite.
  const memory = (): Driver => {
    const database = openDriver(':memory:')
    onTestFinished(() => database.close())
    database.exec('create table t (a integer primary key, b text unique not null) strict')
    return database
  }
  const result = (code: string) => new Database.SqliteError('m', code)
  const nodeSqlite = (errcode: number) => Object.assign(new Error('m'), { code: 'ERR_SQLITE_ERROR', errcode })
  const rejected = permanent('database_rejected', 'developer')
  const conflict = transient('database_conflict', 'operator')
  rows([
    [
      'a unique key that is taken is permanent',
      () => memory().exec("insert into t values (1, 'x'); insert into t values (2, 'x')"),
      rejected,
    ],
    ['a missing table is permanent', () => memory().prepare('select * from nowhere'), rejected],
    ['a file that cannot be opened is permanent', () => openDriver('/'), permanent('misconfigured', 'operator')],
    ['SQLITE_BUSY is transient', () => Promise.reject(result('SQLITE_BUSY')), conflict],
    ['SQLITE_BUSY_SNAPSHOT is transient', () => Promise.reject(result('SQLITE_BUSY_SNAPSHOT')), conflict],
    ['SQLITE_LOCKED is transient', () => Promise.reject(result('SQLITE_LOCKED')), conflict],
    [
      "SQLITE_FULL is the operator's and may pass",
      () => Promise.reject(result('SQLITE_FULL')),
      transient('disk_full', 'operator'),
    ],
    ['SQLITE_READONLY is permanent', () => Promise.reject(result('SQLITE_READONLY')), permanent('misconfigured', 'operator')],
    ['SQLITE_CORRUPT is permanent', () => Promise.reject(result('SQLITE_CORRUPT')), permanent('misconfigured', 'operator')],
    [
      'SQLITE_IOERR_WRITE may pass',
      () => Promise.reject(result('SQLITE_IOERR_WRITE')),
      transient('database_unavailable', 'operator'),
    ],
    ['node:sqlite tells a busy database by its number', () => Promise.reject(nodeSqlite(5)), conflict],
    ['node:sqlite tells a snapshot that is busy by its extended number', () => Promise.reject(nodeSqlite(517)), conflict],
    ['node:sqlite tells a constraint by its extended number', () => Promise.reject(nodeSqlite(2067)), rejected],
  ])
})

describe('schemas', () => {
  const invalid = permanent('validation_failed', 'developer')
  rows([
    ['an error of zod is permanent', () => z.object({ a: z.string() }).parse({}), invalid],
    ['an error of valibot is permanent', () => valibot.parse(valibot.object({ a: valibot.string() }), {}), invalid],
  ])
})
