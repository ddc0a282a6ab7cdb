/** Databases to test the PostgreSQL store with. */
import { postgresStore } from '../../../src/stores/postgres/index.js'
import type { OpenedStore } from '../../../src/testing/index.js'
import { freeSchema, pooled, quoted, type TestSchema } from '../../support/postgres/database.js'

function testClock(): { now(): number; advance(ms: number): void } {
  let now = 1_700_000_000_000
  return { now: () => now, advance: (ms) => void (now += ms) }
}

/** Places whose tables a test has left to the next one. */
const migrated: TestSchema[] = []

async function empty({ schema, query }: TestSchema): Promise<void> {
  const tables = ['jobs', 'job_events', 'job_workers', 'job_steps', 'job_streams'].map((table) => `${quoted(schema)}.${table}`)
  await query(`TRUNCATE ${tables.join(', ')} RESTART IDENTITY`)
}

async function open(test: { migrated: boolean }, through: (url: string) => string | Promise<string>): Promise<OpenedStore> {
  const place = (test.migrated ? migrated.pop() : undefined) ?? (await freeSchema())
  const { schema, query } = place
  const connection = await through(place.url)
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
    close: async () => {
      if (!test.migrated) return place.drop()
      await empty(place)
      migrated.push(place)
    },
  }
}

/* What the conformance suite asks for. */

export function onSharedServer(test: { migrated: boolean }): Promise<OpenedStore> {
  return open(test, (url) => url)
}

export function throughPgBouncer(test: { migrated: boolean }): Promise<OpenedStore> {
  return open(test, pooled)
}
