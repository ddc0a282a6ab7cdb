/**
 * An empty place on the shared server for each test: a database for the file, which is dropped after its last test, and in it
 * a schema for the test, whose name has everything that must be quoted.
 */
import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { afterAll, beforeAll, inject } from 'vitest'
import { PgBouncer } from './pgbouncer.js'
import { query } from './server.js'

export interface TestSchema {
  /** Of the file's database. */
  url: string
  schema: string
  /** Runs one statement past every store. */
  query<Row extends pg.QueryResultRow>(sql: string, values?: unknown[]): Promise<Row[]>
  drop(): Promise<void>
}

/** What ends after the file's last test, the newest first. */
const ends: (() => Promise<unknown>)[] = []
afterAll(async () => {
  for (const end of ends.reverse()) await end()
})

// Whoever comes first waits for its start, which is no test's time.
beforeAll(async () => void (await sharedServer()), 120_000)

/** The URL of the shared server, which starts now if it does not run yet. */
async function sharedServer(): Promise<string> {
  // A connection that is kept may have been closed by the other side while a test kept the event loop busy.
  const response = await fetch(inject('postgres'), { headers: { connection: 'close' } })
  const text = await response.text()
  if (!response.ok) throw new Error(text)
  return text
}

/** The URL of an empty database, which is dropped after the file's last test. */
export async function emptyDatabase(): Promise<string> {
  const server = await sharedServer()
  const name = `jobtable_${randomBytes(6).toString('hex')}`
  await query(server, `CREATE DATABASE ${name}`)
  ends.push(async () => {
    // A connection that is still being closed would be told of the drop, and its pool's test fail for it.
    for (let look = 0; look < 50 && (await sessionsOf(server, name)) > 0; look++) await sleep(20)
    await query(server, `DROP DATABASE ${name} WITH (FORCE)`)
  })
  return Object.assign(new URL(server), { pathname: `/${name}` }).href
}

async function sessionsOf(server: string, database: string): Promise<number> {
  const [row] = await query(server, `SELECT count(*)::int AS sessions FROM pg_stat_activity WHERE datname = '${database}'`)
  return (row as { sessions: number }).sessions
}

let file: Promise<{ url: string; pool: pg.Pool }> | undefined
let bouncer: Promise<PgBouncer> | undefined
let schemas = 0

async function openFile(): Promise<{ url: string; pool: pg.Pool }> {
  const url = await emptyDatabase()
  // A test that leaves a transaction open fails when its schema is dropped, and does not stall the next ones.
  const pool = new pg.Pool({ connectionString: url, max: 2, options: '-c lock_timeout=10s' })
  ends.push(() => pool.end())
  return { url, pool }
}

/** A name in the file's database that no schema has yet. In SQL it must be `quoted`. */
export async function freeSchema(): Promise<TestSchema> {
  const { url, pool } = await (file ??= openFile())
  const schema = `it's "${++schemas}" ä`
  return {
    url,
    schema,
    query: async <Row extends pg.QueryResultRow>(sql: string, values?: unknown[]) => (await pool.query<Row>(sql, values)).rows,
    drop: async () => void (await pool.query(`DROP SCHEMA IF EXISTS ${quoted(schema)} CASCADE`)),
  }
}

export const quoted = pg.escapeIdentifier

/** The URL of the same database through the file's PgBouncer, which starts now if it does not run yet. */
export async function pooled(url: string): Promise<string> {
  bouncer ??= PgBouncer.create(await sharedServer()).then((started) => {
    ends.push(() => started.remove())
    return started
  })
  return (await bouncer).url(url)
}
