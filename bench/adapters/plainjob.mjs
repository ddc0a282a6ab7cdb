/**
 * plainjob. It sets `synchronous=NORMAL` itself, which is jobtable's `relaxed`; for `full` its connection is set to FULL after
 * that. One worker per process: it is synchronous throughout, and more of them gain nothing. It looks for jobs every 10 ms.
 */
import { better, defineQueue, defineWorker } from 'plainjob'
import { openFile } from '../lib.mjs'

const TYPE = 'noop'
const POLL_MS = 10
const logger = { debug() {}, info() {}, warn() {}, error: console.error }

export async function create({ file, driver, durability }) {
  let raw
  let opened
  const database = () => (raw ??= openFile(driver, file))
  const queue = () => {
    if (opened) return opened
    opened = defineQueue({ connection: driver === 'node:sqlite' ? builtin(database()) : better(database()), logger })
    if (durability === 'full') database().exec('PRAGMA synchronous = FULL')
    return opened
  }
  return {
    prepare: () => {
      queue()
    },
    enqueue: async (payload) => queue().add(TYPE, payload),
    enqueueMany: async (payloads) => queue().addMany(TYPE, payloads),
    work: async (onJob) => {
      const worker = defineWorker(TYPE, (job) => onJob(JSON.parse(job.data)), { queue: queue(), pollIntervall: POLL_MS, logger })
      worker.start().catch(() => console.error('the worker of plainjob has ended'))
    },

    fill({ finished = 0, delayed = 0, pending = 0 }) {
      const at = Date.now() - 60_000
      queue()
      database().exec('BEGIN')
      insert(database(), { n: finished, status: 2, runAt: at })
      insert(database(), { n: delayed, status: 0, runAt: at + 86_400_000 })
      insert(database(), { n: pending, status: 0, runAt: at })
      database().exec('COMMIT')
    },
    checkpoint: () => database().exec('PRAGMA wal_checkpoint(TRUNCATE)'),
    unfinished: () =>
      database().prepare('SELECT EXISTS (SELECT 1 FROM plainjob_jobs WHERE status IN (0, 1)) AS some').get().some > 0,
  }
}

function insert(database, { n, status, runAt }) {
  if (n === 0) return
  database
    .prepare(
      `WITH RECURSIVE numbers (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM numbers WHERE i < ?)
       INSERT INTO plainjob_jobs (type, data, status, next_run_at, created_at)
       SELECT ?, printf('{"n":%d}', i), ?, ?, ? FROM numbers`,
    )
    .run(n, TYPE, status, runAt, runAt)
}

/** node:sqlite as the connection that plainjob asks for, so that both sides are measured with one driver. */
function builtin(database) {
  const transaction = (begin, work) => {
    database.exec(begin)
    try {
      const answer = work()
      database.exec('COMMIT')
      return answer
    } catch (error) {
      database.exec('ROLLBACK')
      throw error
    }
  }
  return {
    driver: 'better-sqlite3',
    filename: '',
    pragma: (text) => database.exec(`PRAGMA ${text}`),
    exec: (sql) => database.exec(sql),
    prepare: (sql) => database.prepare(sql),
    close: () => database.close(),
    transaction: (work) =>
      Object.assign((...args) => transaction('BEGIN', () => work(...args)), {
        immediate: (...args) => transaction('BEGIN IMMEDIATE', () => work(...args)),
      }),
  }
}
