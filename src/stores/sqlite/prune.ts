/** Retention. */
import type { PrunedJob, Retention } from '../../store.js'
import type { Sql } from './database.js'

export function prune(sql: Sql, retention: Retention, limit: number): PrunedJob[] {
  // Rows that somebody finished by hand may lack the time of it, which jobs_finished finds first.
  sql.run(
    `UPDATE jobs SET finished_at = updated_at
     WHERE (status = 'succeeded' OR status = 'failed' OR status = 'canceled') AND finished_at IS NULL`,
  )
  const deleted = sql.all(
    // Each arm reads one status of jobs_finished, oldest first, and stops.
    `DELETE FROM jobs WHERE rowid IN (
       SELECT rowid FROM (
         SELECT rowid FROM jobs
         WHERE status = 'succeeded' AND finished_at <= ?2 AND (keep_until IS NULL OR keep_until <= ?1)
         ORDER BY finished_at LIMIT ?5)
       UNION ALL
       SELECT rowid FROM (
         SELECT rowid FROM jobs
         WHERE status = 'failed' AND finished_at <= ?3 AND (keep_until IS NULL OR keep_until <= ?1)
         ORDER BY finished_at LIMIT ?5)
       UNION ALL
       SELECT rowid FROM (
         SELECT rowid FROM jobs
         WHERE status = 'canceled' AND finished_at <= ?4 AND (keep_until IS NULL OR keep_until <= ?1)
         ORDER BY finished_at LIMIT ?5)
       LIMIT ?5)
     RETURNING id, result`,
    sql.now,
    sql.now - retention.succeededMs,
    sql.now - retention.failedMs,
    sql.now - retention.canceledMs,
    limit,
  )
  if (deleted.length === 0) return []
  const jobs = new Map(
    deleted.map(([id, result]) => [id, { id: id as string, result: result as string | null, files: [] as string[] }]),
  )
  const events = sql.all(
    // By job_events_job.
    `DELETE FROM job_events WHERE job_id IN (SELECT value FROM json_each(?)) RETURNING job_id, kind, message`,
    JSON.stringify([...jobs.keys()]),
  )
  for (const [id, kind, message] of events) if (kind === 'file') jobs.get(id)!.files.push(message as string)
  return [...jobs.values()]
}

/** Whether there is anything to prune; takes no lock. */
export function hasFinished(sql: Sql, retention: Retention): boolean {
  const found = sql.all(
    // By jobs_finished.
    `SELECT
       EXISTS (
         SELECT 1 FROM jobs WHERE (status = 'succeeded' OR status = 'failed' OR status = 'canceled') AND finished_at IS NULL)
       OR EXISTS (SELECT 1 FROM jobs WHERE status = 'succeeded' AND finished_at <= ?1)
       OR EXISTS (SELECT 1 FROM jobs WHERE status = 'failed' AND finished_at <= ?2)
       OR EXISTS (SELECT 1 FROM jobs WHERE status = 'canceled' AND finished_at <= ?3)`,
    sql.now - retention.succeededMs,
    sql.now - retention.failedMs,
    sql.now - retention.canceledMs,
  )
  return found[0]![0] === 1
}
