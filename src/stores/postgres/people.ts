/** What people ask for: cancel, and repair. */
import type { JobRow } from '../../store.js'
import { MAX_HISTORY } from '../../transition.js'
import type { Work } from '../../transactions/transaction.js'
import { array } from './array.js'
import type { Text } from './dialect.js'
import { columnsOf, toRow } from './row.js'

/** By primary key, in the order of the ids that were asked for. */
const GET = `
SELECT wanted.position::int, ${columnsOf('jobs.')}
FROM unnest($1::text[]) WITH ORDINALITY AS wanted (id, position) JOIN {jobs} AS jobs ON jobs.id = wanted.id`

/**
 * By primary key, in the order of the ids, so that two calls do not wait for each other in a circle. The locked version of each
 * row decides what happens to it.
 */
const CANCEL = `
WITH locked AS MATERIALIZED (
  SELECT jobs.id, jobs.status, jobs.attempts FROM {jobs} AS jobs
  WHERE jobs.id = ANY ($1::text[]) AND CASE WHEN jobs.status = 'running' THEN jobs.cancel_requested_at IS NULL
    ELSE jobs.status IN ('pending', 'retrying') END
  ORDER BY jobs.id FOR NO KEY UPDATE
), changed AS (
  UPDATE {jobs} AS jobs
  SET status = CASE WHEN locked.status = 'running' THEN 'running' ELSE 'canceled' END,
    cancel_requested_at = CASE WHEN locked.status = 'running' THEN {now} ELSE jobs.cancel_requested_at END,
    finished_at = CASE WHEN locked.status = 'running' THEN jobs.finished_at ELSE {now} END,
    locked_by = CASE WHEN locked.status = 'running' THEN jobs.locked_by END,
    claim_token = CASE WHEN locked.status = 'running' THEN jobs.claim_token END,
    locked_at = CASE WHEN locked.status = 'running' THEN jobs.locked_at END,
    updated_at = {now}, rev = jobs.rev + 1
  FROM locked WHERE jobs.id = locked.id
  RETURNING jobs.id, jobs.status, jobs.attempts
)
INSERT INTO {events} (job_id, at, kind, attempt, message, data)
SELECT id, {now}, CASE WHEN status = 'running' THEN 'cancel_requested' ELSE 'canceled' END, attempts,
  CASE WHEN status = 'running' THEN 'cancellation requested' ELSE 'canceled before it ran' END,
  CASE WHEN $2::text IS NULL THEN NULL ELSE jsonb_build_object('by', $2::text) END
FROM changed ORDER BY id
RETURNING job_id`

/** By primary key. A row whose key has passed to another job stays as it is: two rows would do the same work. */
const REPAIR = `
WITH locked AS MATERIALIZED (
  SELECT jobs.id, jobs.attempts FROM {jobs} AS jobs
  WHERE jobs.id = ANY ($1::text[]) AND CASE WHEN jobs.status IN ('failed', 'canceled') THEN jobs.superseded_by IS NULL END
  ORDER BY jobs.id FOR NO KEY UPDATE
), changed AS (
  UPDATE {jobs} AS jobs
  SET status = 'pending', attempts = 0, waits = 0, run_after = {now}, updated_at = {now}, last_error = $3,
    errors = CASE WHEN jsonb_array_length(jobs.errors) < ${MAX_HISTORY} THEN jobs.errors ELSE jobs.errors - 0 END
      || jsonb_strip_nulls(jsonb_build_object('attempt', locked.attempts, 'at', round(date_part('epoch', {now}) * 1000)::bigint,
        'kind', 'repaired', 'code', 'repaired', 'message', $3::text, 'by', $2::text)),
    user_message = NULL, stage = NULL, progress = NULL, result = NULL, cancel_requested_at = NULL, finished_at = NULL,
    keep_for = 0, locked_by = NULL, locked_at = NULL, claim_token = NULL, rev = jobs.rev + 1
  FROM locked WHERE jobs.id = locked.id
  RETURNING jobs.id, locked.attempts AS spent
)
INSERT INTO {events} (job_id, at, kind, attempt, message, data)
SELECT id, {now}, 'repaired', spent, $3, CASE WHEN $2::text IS NULL THEN NULL ELSE jsonb_build_object('by', $2::text) END
FROM changed ORDER BY id
RETURNING job_id`

export function* get(text: Text, ids: readonly string[]): Work<(JobRow | undefined)[]> {
  const rows: (JobRow | undefined)[] = ids.map(() => undefined)
  if (ids.length === 0) return rows
  for (const values of yield { hot: true, sql: text(GET), params: [array(ids)] })
    rows[(values[0] as number) - 1] = toRow(values, 1)
  return rows
}

export function* cancelAll(text: Text, ids: readonly string[], by: string | null): Work<(JobRow | undefined)[]> {
  yield { sql: text(CANCEL), params: [array(ids), by] }
  return yield* get(text, ids)
}

export function* repairAll(
  text: Text,
  ids: readonly string[],
  by: string | null,
): Work<({ row: JobRow; changed: boolean } | undefined)[]> {
  const message = by === null ? 'made pending again' : `made pending again by ${by}`
  const repaired = new Set((yield { sql: text(REPAIR), params: [array(ids), by, message] }).map(([id]) => id))
  const rows = yield* get(text, ids)
  // An id that is asked for twice is repaired once.
  return rows.map((row) => row && { row, changed: repaired.delete(row.id) })
}
