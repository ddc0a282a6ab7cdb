/**
 * An empty place on the shared server for each test: a database for the file, which is dropped after its last test, and in it
 * a schema for the test, whose name has everything that must be quoted.
 */
import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { afterAll, inject } from 'vitest'

export interface TestSchema {
  /** Of the file's database. */
  url: string
  schema: string
  /** Runs one statement past every store. */
  query<Row extends pg.QueryResultRow>(sql: string, values?: unknown[]): Promise<Row[]>
  drop(): Promise<void>
}

let file: Promise<{ url: string; pool: pg.Pool }> | undefined
let schemas = 0

/** The URL of the shared server, which starts now if it does not run yet. */
export async function sharedServer(): Promise<string> {
  const response = await fetch(inject('postgres'))
  const text = await response.text()
  if (!response.ok) throw new Error(text)
  return text
}

/** The URL of an empty database, which is dropped after the file's last test. */
export async function emptyDatabase(): Promise<string> {
  const server = await sharedServer()
  const name = `jobtable_${randomBytes(6).toString('hex')}`
  await command(server, `CREATE DATABASE ${name}`)
  drops.push(() => command(server, `DROP DATABASE ${name} WITH (FORCE)`))
  return Object.assign(new URL(server), { pathname: `/${name}` }).href
}

const drops: (() => Promise<void>)[] = []
afterAll(async () => {
  const opened = await file
  await opened?.pool.end()
  for (const drop of drops) await drop()
})

async function command(url: string, sql: string): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    await client.query(sql)
  } finally {
    await client.end()
  }
}

async function openFile(): Promise<{ url: string; pool: pg.Pool }> {
  const url = await emptyDatabase()
  // A test that leaves a transaction open fails when its schema is dropped, and does not stall the next ones.
  return { url, pool: new pg.Pool({ connectionString: url, max: 2, options: '-c lock_timeout=10s' }) }
}

/** A schema in the file's database. The name is quoted by `quoted` where it stands in SQL. */
export async function emptySchema(): Promise<TestSchema> {
  const { url, pool } = await (file ??= openFile())
  const schema = `it's "${++schemas}" ä`
  await pool.query(`CREATE SCHEMA ${quoted(schema)}`)
  return {
    url,
    schema,
    query: async <Row extends pg.QueryResultRow>(sql: string, values?: unknown[]) => (await pool.query<Row>(sql, values)).rows,
    drop: async () => void (await pool.query(`DROP SCHEMA IF EXISTS ${quoted(schema)} CASCADE`)),
  }
}

export const quoted = pg.escapeIdentifier
