/** Retention. */
import type { PrunedJob, Retention } from '../../store.js'
import type { SqlValue } from './driver.js'
import type { Sql } from './database.js'

/**
 * One row for each status and each length of time that its finished jobs are kept for, which are as many as the types say: a
 * seek in jobs_finished finds the next. Reads ?2 to ?4, the retentions.
 */
const GROUPS = `
  WITH RECURSIVE lengths (status, retention, keep_for) AS (
    VALUES ('succeeded', ?2, -1), ('failed', ?3, -1), ('canceled', ?4, -1)
    UNION ALL
    SELECT status, retention, (
      SELECT keep_for FROM jobs
      WHERE (status = 'succeeded' OR status = 'failed' OR status = 'canceled')
        AND status = lengths.status AND keep_for > lengths.keep_for
      ORDER BY keep_for LIMIT 1)
    FROM lengths WHERE keep_for IS NOT NULL)`

/**
 * What may go, past both its retention and its own keep_for: in each group one range of jobs_finished, oldest first. Rows that
 * somebody finished by hand may lack the time of it, and count from their last change. Reads ?1, the time, too.
 */
const PAST = `FROM lengths CROSS JOIN jobs
  WHERE (jobs.status = 'succeeded' OR jobs.status = 'failed' OR jobs.status = 'canceled')
    AND jobs.status = lengths.status AND jobs.keep_for = lengths.keep_for
    AND ifnull(jobs.finished_at, jobs.updated_at) <= ?1 - max(lengths.retention, lengths.keep_for)`

function times(sql: Sql, { succeededMs, failedMs, canceledMs }: Retention): SqlValue[] {
  return [sql.now, succeededMs, failedMs, canceledMs]
}

export function prune(sql: Sql, retention: Retention, limit: number): PrunedJob[] {
  const past = sql.all(`${GROUPS} SELECT jobs.rowid, jobs.id, jobs.result ${PAST} LIMIT ?5`, ...times(sql, retention), limit)
  if (past.length === 0) return []
  const jobs = new Map(
    past.map(([, id, result]) => [id, { id: id as string, result: result as string | null, files: [] as string[] }]),
  )
  const files = sql.all(
    // By job_events_job.
    `SELECT job_id, message FROM job_events WHERE job_id IN (SELECT value FROM json_each(?)) AND kind = 'file' ORDER BY seq`,
    JSON.stringify([...jobs.keys()]),
  )
  for (const [id, message] of files) jobs.get(id)!.files.push(message as string)
  // By rowid. The trigger jobtable_deleted takes along what belongs to them.
  sql.run(`DELETE FROM jobs WHERE rowid IN (SELECT value FROM json_each(?))`, JSON.stringify(past.map(([rowid]) => rowid)))
  return [...jobs.values()]
}

/** Whether there is anything to prune; takes no lock. */
export function hasPast(sql: Sql, retention: Retention): boolean {
  return sql.all(`${GROUPS} SELECT 1 ${PAST} LIMIT 1`, ...times(sql, retention)).length > 0
}
