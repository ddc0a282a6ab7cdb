/** The databases that a fault is tried on: `describe.each(DATABASES)('... on $name', ({ place }) => ...)`. */
import pg from 'pg'
import { onTestFinished } from 'vitest'
import { jobtable, type Queue } from '../../../src/index.js'
import { postgresStore } from '../../../src/stores/postgres/index.js'
import { FakeClock, testQueue, type TestQueue, type TestQueueOptions } from '../../../src/testing/index.js'
import { freeSchema, quoted, type TestSchema } from '../../support/postgres/database.js'
import { folder, Ledger, place, recordingLog, type Place, type PlaceOptions, type Site } from './place.js'

/** Where a test happens, whatever the database. */
export interface AnyPlace extends Ledger, Site {
  /** A queue in this process, in real time. */
  queue(options?: PlaceOptions): Queue
  /** A queue in this process, whose database takes its time from the clock. */
  clockQueue(options?: PlaceOptions, clock?: FakeClock): { queue: Queue; clock: FakeClock }
  /** One statement on a connection of the test's own, with `?` for each parameter; answers with the rows as arrays. */
  sql(statement: string, ...params: (string | number | null)[]): Promise<unknown[][]>
  /** This moment as it stands in SQL. */
  moment(ms: number): string
  /** A queue for a product's own tests. */
  testQueue(options?: TestQueueOptions): TestQueue
}

class SqlitePlace extends Ledger implements AnyPlace {
  readonly url: string
  readonly #here: Place

  constructor(here: Place) {
    super(here.folder)
    this.url = here.url
    this.#here = here
  }

  queue(options?: PlaceOptions): Queue {
    return this.#here.queue(options)
  }

  clockQueue(options?: PlaceOptions, clock?: FakeClock): { queue: Queue; clock: FakeClock } {
    return this.#here.clockQueue(options, clock)
  }

  // Async, as elsewhere a statement is that fails.
  async sql(statement: string, ...params: (string | number | null)[]): Promise<unknown[][]> {
    return this.#here.sql(statement, ...params)
  }

  moment(ms: number): string {
    return String(ms)
  }

  writable(): boolean {
    return this.#here.writable()
  }

  testQueue(options: TestQueueOptions = {}): TestQueue {
    return closed(testQueue(options))
  }
}

class PostgresPlace extends Ledger implements AnyPlace {
  readonly url: string
  readonly #schema: TestSchema

  constructor(schema: TestSchema) {
    super(folder())
    this.#schema = schema
    const url = new URL(schema.url)
    url.searchParams.set('schema', schema.schema)
    this.url = url.href
  }

  queue(options: PlaceOptions = {}): Queue {
    return this.#open(options, undefined)
  }

  clockQueue(options: PlaceOptions = {}, clock = new FakeClock()): { queue: Queue; clock: FakeClock } {
    return { queue: this.#open(options, clock), clock }
  }

  async sql(statement: string, ...params: (string | number | null)[]): Promise<unknown[][]> {
    const client = new pg.Client({ connectionString: this.#schema.url })
    await client.connect()
    try {
      await client.query(`SET search_path TO ${quoted(this.#schema.schema)}`)
      let n = 0
      const text = statement.replaceAll('?', () => `$${++n}`)
      return (await client.query<unknown[]>({ text, values: params, rowMode: 'array' })).rows
    } finally {
      await client.end()
    }
  }

  moment(ms: number): string {
    return `to_timestamp(${ms / 1000})`
  }

  async writable(): Promise<boolean> {
    const busy = await this.#schema.query(`SELECT 1 FROM pg_stat_activity
      WHERE datname = current_database() AND application_name = 'jobtable' AND state <> 'idle'`)
    return busy.length === 0
  }

  testQueue(options: TestQueueOptions = {}): TestQueue {
    return closed(testQueue({ ...options, database: this.url }))
  }

  #open({ around, ...options }: PlaceOptions, clock: FakeClock | undefined): Queue {
    const { url, schema } = this.#schema
    const store = postgresStore({ connection: url, schema, ...(clock && { clock }) })
    return closed(jobtable(url, { logger: recordingLog(), ...options, store: around ? around(store) : store }))
  }
}

function closed<Opened extends Queue>(queue: Opened): Opened {
  onTestFinished(() => queue.close())
  return queue
}

async function onPostgres(): Promise<AnyPlace> {
  const schema = await freeSchema()
  onTestFinished(() => schema.drop())
  return new PostgresPlace(schema)
}

export const DATABASES: readonly { name: string; place: () => Promise<AnyPlace> }[] = [
  { name: 'SQLite', place: () => Promise.resolve(new SqlitePlace(place())) },
  { name: 'PostgreSQL', place: onPostgres },
]
