/**
 * The product whose jobs these are: its own tables in the same database, over connections of its own.
 *
 * - `soak_orders`: one row for each order, written in one transaction with its job
 * - `soak_effects`: one row each time that a transactional effect was had. Nothing but the transactions keeps a job from having two
 * - `soak_ends`: one row each time that a job has ended, written by a trigger in the transaction that ends it
 */
import pg from 'pg'
import type { JobTransaction, ProductTransaction } from '../../src/index.js'
import { openDriver, type SqlValue } from '../../src/stores/sqlite/driver.js'
import { connectSqlite, type SqliteConnection } from '../support/product-sqlite.js'

export interface OpenTransaction {
  /** For `enqueue`. */
  readonly tx: ProductTransaction
  /** Runs a statement with `?` for each parameter; answers with how many rows it changed. */
  run(statement: string, ...params: string[]): Promise<number>
}

export interface Product {
  transaction<Answer>(work: (transaction: OpenTransaction) => Promise<Answer>): Promise<Answer>
  /** Notes an effect in a transaction of the queue's. */
  note(tx: JobTransaction, effect: string, jobId: string): void | Promise<void>
  close(): Promise<void>
}

/** A product that waits for longer than this gives up. Milliseconds. */
const PATIENCE_MS = 5_000

export function openProduct(url: string): Product {
  return url.startsWith('postgres') ? new PostgresProduct(url) : new SqliteProduct(url.slice('sqlite:'.length))
}

class SqliteProduct implements Product {
  readonly #connection: SqliteConnection
  #last: Promise<unknown> = Promise.resolve()

  constructor(file: string) {
    this.#connection = connectSqlite(file)
    this.#connection.exec(`PRAGMA busy_timeout = ${PATIENCE_MS}`)
  }

  /** One connection has one transaction at a time: each waits for the one before. */
  transaction<Answer>(work: (transaction: OpenTransaction) => Promise<Answer>): Promise<Answer> {
    const answer = this.#last.then(() => this.#run(work))
    // Whoever asked for it hears of its failure; the next one only waits for its end.
    this.#last = answer.catch(() => undefined)
    return answer
  }

  async #run<Answer>(work: (transaction: OpenTransaction) => Promise<Answer>): Promise<Answer> {
    this.#connection.exec('BEGIN IMMEDIATE')
    try {
      const run: OpenTransaction['run'] = (statement, ...params) =>
        Promise.resolve(Number(this.#connection.prepare(statement).run(...params).changes))
      const answer = await work({ tx: this.#connection as unknown as ProductTransaction, run })
      this.#connection.exec('COMMIT')
      return answer
    } catch (error) {
      this.#connection.exec('ROLLBACK')
      throw error
    }
  }

  note(tx: JobTransaction, effect: string, jobId: string): void {
    tx.run('INSERT INTO soak_effects (effect, job_id) VALUES (?, ?)', [effect, jobId])
  }

  async close(): Promise<void> {
    this.#connection.close()
  }
}

class PostgresProduct implements Product {
  readonly #pool: pg.Pool

  constructor(url: string) {
    this.#pool = new pg.Pool({ connectionString: url, max: 5, connectionTimeoutMillis: PATIENCE_MS, query_timeout: PATIENCE_MS })
    // An idle connection that breaks is replaced by the next.
    this.#pool.on('error', () => undefined)
  }

  async transaction<Answer>(work: (transaction: OpenTransaction) => Promise<Answer>): Promise<Answer> {
    const client = await this.#pool.connect()
    // The statement under way rejects, too.
    client.on('error', () => undefined)
    let failed = true
    try {
      await client.query('BEGIN')
      const answer = await work({
        tx: client,
        run: async (text, ...params) => (await client.query(numbered(text), params)).rowCount ?? 0,
      })
      await client.query('COMMIT')
      failed = false
      return answer
    } finally {
      // One whose transaction failed may be in any state: the server rolls back what is left of it.
      client.release(failed)
    }
  }

  async note(tx: JobTransaction, effect: string, jobId: string): Promise<void> {
    await tx.query('INSERT INTO soak_effects (effect, job_id) VALUES ($1, $2)', [effect, jobId])
  }

  async close(): Promise<void> {
    await this.#pool.end()
  }
}

function numbered(statement: string): string {
  let n = 0
  return statement.replaceAll('?', () => `$${++n}`)
}

/** Runs statements on a connection of the soak's own, past everything that it breaks. */
export async function ask(url: string, ...statements: string[]): Promise<SqlValue[][]> {
  return url.startsWith('postgres') ? askPostgres(url, statements) : askSqlite(url.slice('sqlite:'.length), statements)
}

async function askPostgres(url: string, statements: readonly string[]): Promise<SqlValue[][]> {
  const client = new pg.Client({ connectionString: url })
  client.on('error', () => undefined)
  await client.connect()
  try {
    let rows: SqlValue[][] = []
    for (const text of statements) rows = (await client.query<SqlValue[]>({ text, rowMode: 'array' })).rows
    return rows
  } finally {
    await client.end()
  }
}

function askSqlite(file: string, statements: readonly string[]): SqlValue[][] {
  const driver = openDriver(file)
  try {
    driver.exec('PRAGMA busy_timeout = 20000')
    for (const statement of statements.slice(0, -1)) driver.exec(statement)
    const last = statements.at(-1)!
    if (/^\s*SELECT/.test(last)) return driver.prepare(last).all()
    driver.exec(last)
    return []
  } finally {
    driver.close()
  }
}

const TABLES = [
  'CREATE TABLE soak_orders (id text NOT NULL PRIMARY KEY, shipped integer NOT NULL DEFAULT 0)',
  'CREATE TABLE soak_effects (effect text NOT NULL, job_id text NOT NULL)',
  'CREATE TABLE soak_ends (job_id text NOT NULL)',
]
const SQLITE_TRIGGER = [
  `CREATE TRIGGER soak_note_end AFTER UPDATE OF status ON jobs WHEN NEW.status IN ('succeeded', 'failed', 'canceled')
   BEGIN INSERT INTO soak_ends (job_id) VALUES (NEW.id); END`,
]
const POSTGRES_TRIGGER = [
  `CREATE FUNCTION soak_note_end() RETURNS trigger LANGUAGE plpgsql AS $$
   BEGIN INSERT INTO soak_ends (job_id) VALUES (NEW.id); RETURN NULL; END $$`,
  `CREATE TRIGGER soak_note_end AFTER UPDATE OF status ON jobs FOR EACH ROW
   WHEN (NEW.status IN ('succeeded', 'failed', 'canceled')) EXECUTE FUNCTION soak_note_end()`,
]

/** Makes the product's tables, where jobtable's are. */
export async function makeTables(url: string): Promise<void> {
  await ask(url, ...TABLES, ...(url.startsWith('postgres') ? POSTGRES_TRIGGER : SQLITE_TRIGGER))
}

export interface JobFacts {
  id: string
  type: string
  status: string
  /** What its payload calls it: its key, or the id of its order. */
  name: string
  /** Milliseconds since 1970. */
  finishedAt: number | null
}

/** What the database says in the end. */
export interface Tables {
  jobs: JobFacts[]
  /** The ids of the jobs that have ended, each as often as it did. */
  ends: string[]
  orders: string[]
  effects: { effect: string; jobId: string }[]
}

export async function readTables(url: string): Promise<Tables> {
  const [name, finished] = url.startsWith('postgres')
    ? [`payload ->> 'name'`, `date_part('epoch', finished_at) * 1000`]
    : [`json_extract(payload, '$.name')`, 'finished_at']
  const jobs = await ask(url, `SELECT id, type, status, ${name}, ${finished} FROM jobs`)
  const column = async (statement: string): Promise<string[]> => (await ask(url, statement)).map(([value]) => String(value))
  return {
    jobs: jobs.map(([id, type, status, name, at]) => ({
      id: String(id),
      type: String(type),
      status: String(status),
      name: String(name),
      finishedAt: at === null ? null : Number(at),
    })),
    ends: await column('SELECT job_id FROM soak_ends'),
    orders: await column('SELECT id FROM soak_orders'),
    effects: (await ask(url, 'SELECT effect, job_id FROM soak_effects')).map(([effect, jobId]) => ({
      effect: String(effect),
      jobId: String(jobId),
    })),
  }
}
