/** Databases to test the PostgreSQL store with. */
import { postgresStore } from '../../../src/stores/postgres/index.js'
import type { OpenedStore } from '../../../src/testing/index.js'
import { freeSchema, pooled, quoted, type TestSchema } from '../../support/postgres/database.js'

function testClock(): { now(): number; advance(ms: number): void } {
  let now = 1_700_000_000_000
  return { now: () => now, advance: (ms) => void (now += ms) }
}

function open(connection: string, { schema, query, drop }: TestSchema): OpenedStore {
  const clock = testClock()
  return {
    store: postgresStore({ connection, schema, clock }),
    clock,
    another: async () => postgresStore({ connection, schema, clock }),
    rawInsert: async ({ id, type, payload, status }) => {
      const columns = [id, type, payload, status]
      await query(`INSERT INTO ${quoted(schema)}.jobs (id, type, payload, status) VALUES ($1, $2, $3, $4)`, columns)
    },
    processes: {
      module: new URL('process-store.ts', import.meta.url).href,
      args: [connection, schema],
      execArgv: ['--import', 'tsx'],
    },
    close: drop,
  }
}

/* What the conformance suite asks for. */

export async function onSharedServer(): Promise<OpenedStore> {
  const place = await freeSchema()
  return open(place.url, place)
}

export async function throughPgBouncer(): Promise<OpenedStore> {
  const place = await freeSchema()
  return open(await pooled(place.url), place)
}
