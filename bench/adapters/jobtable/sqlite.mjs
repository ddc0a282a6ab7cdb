/** jobtable's tables in a SQLite file, for filling and looking. */
import { openFile } from '../../lib.mjs'

export function database({ driver, file }, { type }) {
  let raw
  const opened = () => (raw ??= openFile(driver, file))
  return {
    /** Rows as jobtable writes them: finished and delayed ones first, so that they stand in front. */
    fill({ finished = 0, delayed = 0, pending = 0 }) {
      const at = Date.now() - 60_000
      const insert = (rows) => insertRows(opened(), { type, at, ...rows })
      opened().exec('BEGIN')
      insert({ n: finished, prefix: 'f', status: 'succeeded', attempts: 1, runAfter: at, finishedAt: at })
      insert({ n: delayed, prefix: 'd', status: 'pending', attempts: 0, runAfter: at + 86_400_000, finishedAt: null })
      insert({ n: pending, prefix: 'p', status: 'pending', attempts: 0, runAfter: at, finishedAt: null })
      opened().exec('COMMIT')
    },
    checkpoint: () => opened().exec('PRAGMA wal_checkpoint(TRUNCATE)'),
    unfinished: () =>
      opened()
        .prepare(
          `SELECT EXISTS (SELECT 1 FROM jobs WHERE status IN ('pending', 'retrying'))
             + EXISTS (SELECT 1 FROM jobs WHERE status = 'running') AS some`,
        )
        .get().some > 0,
  }
}

function insertRows(raw, { n, type, at, prefix, status, attempts, runAfter, finishedAt }) {
  if (n === 0) return
  raw
    .prepare(
      `WITH RECURSIVE numbers (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM numbers WHERE i < ?)
       INSERT INTO jobs (id, type, payload, status, attempts, max_attempts, run_after, created_at, updated_at, finished_at)
       SELECT printf('%s%07x-7000-8000-9000-%012x', ?, i, i * 7919), ?, printf('{"n":%d}', i), ?, ?, 5, ?, ?, ?, ? FROM numbers`,
    )
    .run(n, prefix, type, status, attempts, runAfter, at, at, finishedAt)
}
