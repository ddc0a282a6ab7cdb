/** jobtable, as it is built: run `npm run build` first. */
import { jobtable } from '../../dist/index.js'
import { openFile } from '../lib.mjs'

const TYPE = 'noop'
const ANY_PAYLOAD = { '~standard': { version: 1, vendor: 'bench', validate: (value) => ({ value }) } }
const logger = { debug() {}, info() {}, warn: console.error, error: console.error }

export async function create({ file, driver, durability }) {
  const queue = jobtable(`sqlite:${file}`, { driver, durability, logger })
  let onJob
  const noop = queue.define(TYPE, {
    payload: ANY_PAYLOAD,
    idempotency: { none: 'each of these jobs is counted' },
    run: (job) => onJob(job.payload),
  })
  let raw
  const database = () => (raw ??= openFile(driver, file))
  return {
    prepare: async () => {
      await queue.open()
    },
    enqueue: (payload) => noop.enqueue(payload),
    enqueueMany: (payloads) => noop.enqueueMany(payloads),
    work: async (handler) => {
      onJob = handler
      await queue.work().ready()
    },

    /** Rows as jobtable writes them: finished and delayed ones first, so that they stand in front. */
    fill({ finished = 0, delayed = 0, pending = 0 }) {
      const at = Date.now() - 60_000
      database().exec('BEGIN')
      insert(database(), { n: finished, prefix: 'f', status: 'succeeded', attempts: 1, runAfter: at, finishedAt: at })
      insert(database(), { n: delayed, prefix: 'd', status: 'pending', attempts: 0, runAfter: at + 86_400_000, finishedAt: null })
      insert(database(), { n: pending, prefix: 'p', status: 'pending', attempts: 0, runAfter: at, finishedAt: null })
      database().exec('COMMIT')
    },
    checkpoint: () => database().exec('PRAGMA wal_checkpoint(TRUNCATE)'),
    unfinished: () =>
      database()
        .prepare(
          `SELECT EXISTS (SELECT 1 FROM jobs WHERE status IN ('pending', 'retrying'))
             + EXISTS (SELECT 1 FROM jobs WHERE status = 'running') AS some`,
        )
        .get().some > 0,
  }
}

function insert(database, { n, prefix, status, attempts, runAfter, finishedAt }) {
  if (n === 0) return
  database
    .prepare(
      `WITH RECURSIVE numbers (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM numbers WHERE i < ?)
       INSERT INTO jobs (id, type, payload, status, attempts, max_attempts, run_after, created_at, updated_at, finished_at)
       SELECT printf('%s%07x-7000-8000-9000-%012x', ?, i, i * 7919), ?, printf('{"n":%d}', i), ?, ?, 5, ?, ?, ?, ? FROM numbers`,
    )
    .run(n, prefix, TYPE, status, attempts, runAfter, runAfter, runAfter, finishedAt)
}
