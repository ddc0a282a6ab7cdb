/** Retention. */
import type { PrunedJob, Retention } from '../../store.js'
import type { Work } from '../../transactions/transaction.js'
import { array } from './array.js'
import type { Text } from './dialect.js'

/**
 * One row for each status and each length of time that its finished jobs are kept for, which are as many as the types say: a
 * seek in jobs_finished finds the next. What may go is, in each group, one range of the index, oldest first. Rows that somebody
 * finished by hand may lack the time of it, and count from their last change. Rows that another pass has locked are its own. The triggers
 * that delete what belongs to a job keep quiet in this transaction, which does so for all of them at once.
 */
const PRUNE = `
WITH RECURSIVE lengths (status, retention, keep_for) AS (
  SELECT start.* FROM set_config('jobtable.pruning', 'on', true),
    (VALUES ('succeeded', $1::float8, -1::bigint), ('failed', $2::float8, -1), ('canceled', $3::float8, -1)) AS start
  UNION ALL
  SELECT lengths.status, lengths.retention, (
    SELECT jobs.keep_for FROM {jobs} AS jobs
    WHERE jobs.status IN ('succeeded', 'failed', 'canceled') AND jobs.status = lengths.status AND jobs.keep_for > lengths.keep_for
    ORDER BY jobs.keep_for LIMIT 1)
  FROM lengths WHERE lengths.keep_for IS NOT NULL
), past AS MATERIALIZED (
  SELECT old.tid FROM lengths CROSS JOIN LATERAL (
    SELECT jobs.ctid AS tid FROM {jobs} AS jobs
    WHERE jobs.status IN ('succeeded', 'failed', 'canceled') AND jobs.status = lengths.status AND jobs.keep_for = lengths.keep_for
      AND coalesce(jobs.finished_at, jobs.updated_at) <= to_timestamp(
        greatest(0, date_part('epoch', {now}) * 1000 - greatest(lengths.retention, lengths.keep_for)) / 1000)
    LIMIT $4::int FOR UPDATE SKIP LOCKED) AS old
  LIMIT $4::int
)
DELETE FROM {jobs} AS jobs WHERE jobs.ctid = ANY (ARRAY (SELECT tid FROM past))
RETURNING jobs.id, jobs.result::text`

/** By job_events_job. */
const PRUNE_EVENTS = `DELETE FROM {events} WHERE job_id = ANY ($1::text[]) RETURNING job_id, kind, message`

/** Both by primary key. */
const PRUNE_STEPS = `DELETE FROM {steps} WHERE job_id = ANY ($1::text[])`
const PRUNE_STREAMS = `DELETE FROM {streams} WHERE job_id = ANY ($1::text[])`

/** Must run in a transaction. */
export function* prune(text: Text, { succeededMs, failedMs, canceledMs }: Retention, limit: number): Work<PrunedJob[]> {
  if (limit <= 0) return []
  const deleted = yield { sql: text(PRUNE), params: [succeededMs, failedMs, canceledMs, limit] }
  if (deleted.length === 0) return []
  const jobs = new Map(
    deleted.map(([id, result]) => [id as string, { id: id as string, result: result as string | null, files: [] as string[] }]),
  )
  const ids = array([...jobs.keys()])
  const events = yield { sql: text(PRUNE_EVENTS), params: [ids] }
  yield { sql: text(PRUNE_STEPS), params: [ids] }
  yield { sql: text(PRUNE_STREAMS), params: [ids] }
  for (const [id, kind, message] of events) if (kind === 'file') jobs.get(id as string)!.files.push(message as string)
  return [...jobs.values()]
}
