/** jobtable's tables in a PostgreSQL database, for filling and looking, and transactions of a product beside them. */
import pg from 'pg'
import { median, now } from '../../lib.mjs'

const FILL_CHUNK = 100_000
const PER_TRANSACTION = 50

export function database({ url }, { type, enqueueIn }) {
  let opened
  const pool = () => (opened ??= new pg.Pool({ connectionString: url, max: 2 }).on('error', () => undefined))
  return {
    /** Rows as jobtable writes them: finished and delayed ones first, so that they stand in front. */
    async fill({ finished = 0, delayed = 0, pending = 0 }) {
      const insert = (rows) => insertRows(pool(), { type, ...rows })
      await insert({ n: finished, prefix: '01', status: 'succeeded', attempts: 1, delay: '0s' })
      await insert({ n: delayed, prefix: '02', status: 'pending', attempts: 0, delay: '1 day' })
      await insert({ n: pending, prefix: '03', status: 'pending', attempts: 0, delay: '0s' })
    },
    unfinished: async () => {
      const { rows } = await pool().query(
        `SELECT EXISTS (SELECT 1 FROM jobs WHERE status IN ('pending', 'retrying'))
           OR EXISTS (SELECT 1 FROM jobs WHERE status = 'running') AS some`,
      )
      return rows[0].some
    },
    inTransaction: (n) => inTransaction(pool(), n, enqueueIn),
  }
}

/** Each in a statement of its own, so that the rows of one chunk are as old as its insert. */
async function insertRows(pool, { n, type, prefix, status, attempts, delay }) {
  for (let from = 0; from < n; from += FILL_CHUNK) {
    await pool.query(
      `INSERT INTO jobs (id, type, payload, status, attempts, max_attempts, run_after, finished_at)
       SELECT $1 || lpad(to_hex(i), 6, '0') || '-0000-7000-8000-' || lpad(to_hex(i::bigint * 7919), 12, '0'), $2,
         jsonb_build_object('n', i), $3, $4, 5, now() + $5::interval, CASE WHEN $3 = 'succeeded' THEN now() END
       FROM generate_series($6::int, $7::int) i`,
      [prefix, type, status, attempts, delay, from, Math.min(n, from + FILL_CHUNK) - 1],
    )
  }
}

/** A plain statement and an enqueue in turn, in transactions of some of each. */
async function inTransaction(pool, n, enqueueIn) {
  const client = await pool.connect()
  const query = client.query.bind(client)
  let queries = 0
  client.query = (...args) => {
    queries++
    return query(...args)
  }
  await client.query('CREATE TABLE IF NOT EXISTS orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, note text NOT NULL)')
  const times = { statement: [], enqueue: [] }
  let queriesOfEnqueues = 0
  for (let done = 0; done < n; done += PER_TRANSACTION) {
    await client.query('BEGIN')
    for (let i = 0; i < PER_TRANSACTION; i++) {
      const from = now()
      await client.query('INSERT INTO orders (note) VALUES ($1)', [`order ${done + i}`])
      const between = now()
      const before = queries
      await enqueueIn(client, { n: done + i })
      times.enqueue.push(now() - between)
      times.statement.push(between - from)
      queriesOfEnqueues += queries - before
    }
    await client.query('COMMIT')
  }
  client.release()
  return {
    statementMs: median(times.statement),
    enqueueMs: median(times.enqueue),
    queriesPerEnqueue: queriesOfEnqueues / times.enqueue.length,
  }
}
