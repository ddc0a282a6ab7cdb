/** A schema on the shared PostgreSQL to point the command line at. */
import pg from 'pg'
import { afterAll } from 'vitest'
import { freeSchema, quoted, type TestSchema } from '../support/postgres/database.js'
import { insertions, literal, type Place } from './support.js'

const TIMES = /_at$|_after$|_until$|^at$/

const clients: pg.Client[] = []
afterAll(() => Promise.all(clients.map((client) => client.end())))

export interface PostgresPlace extends Place, Pick<TestSchema, 'url' | 'schema'> {}

export async function postgresPlace(): Promise<PostgresPlace> {
  const { url, schema } = await freeSchema()
  const client = new pg.Client({ connectionString: url })
  clients.push(client)
  await client.connect()
  await client.query(`SET search_path TO ${quoted(schema)}`)
  const sql = async (statement: string): Promise<unknown[][]> =>
    (await client.query<unknown[]>({ text: statement, rowMode: 'array' })).rows.map((row) => row.map(plain))
  return {
    db: ['--db', url, '--schema', schema],
    name: `${url.replace('postgres@', '')}?schema=${encodeURIComponent(schema)}`,
    url,
    schema,
    sql,
    insert: async (table, ...rows) => {
      for (const statement of insertions(table, rows, written)) await sql(statement)
    },
  }
}

function written(column: string, value: string | number | null): string {
  return typeof value === 'number' && TIMES.test(column) ? `to_timestamp(${value} / 1000.0)` : literal(value)
}

function plain(value: unknown): unknown {
  if (value instanceof Date) return value.getTime()
  if (typeof value === 'string' && /^\d{1,15}$/.test(value)) return Number(value) // A bigint.
  return typeof value === 'object' && value !== null ? JSON.stringify(value) : value
}
