/** Lists, counts and timelines. */
import type { CountRow, JobEvent, JobFilter, JobRow } from '../../store.js'
import type { QueryParameter, Work } from '../../transactions/transaction.js'
import type { Status } from '../../transition.js'
import { array } from './array.js'
import type { Text } from './dialect.js'
import { columnsOf, heldOf, moment, toRow } from './row.js'

/** What may match, and how it is found. Reads $1 to $9; an absent part is null. */
const MATCHES = `($1::text[] IS NULL OR jobs.status = ANY ($1::text[]))
  AND ($2::text[] IS NULL OR jobs.type = ANY ($2::text[]))
  AND ($3::text[] IS NULL OR jobs.queue = ANY ($3::text[]))
  AND ($4::text IS NULL OR jobs.idempotency_key = $4::text)
  AND ($5::text IS NULL OR strpos(lower(jobs.last_error), $5::text) > 0)
  AND ($6::float8 IS NULL OR jobs.created_at <= to_timestamp((date_part('epoch', {now}) * 1000 - $6::float8) / 1000))
  AND ($7::float8 IS NULL OR jobs.created_at >= to_timestamp((date_part('epoch', {now}) * 1000 - $7::float8) / 1000))
  AND ($8::text[] IS NULL OR jobs.id = ANY ($8::text[]))
  AND ($9::boolean IS NULL OR (${heldOf('jobs.')}) = $9::boolean)`

/**
 * The few rows that a filter by id, by key or for what is held leaves: by primary key; by jobs_key for the holder and jobs_superseded
 * for those before it; by job_steps_started, which has the effects in doubt, and primary key. Other filters read jobs_created.
 */
const BY_ID = `(SELECT * FROM {jobs} WHERE id = ANY ($8::text[]))`
const BY_KEY = `(SELECT * FROM {jobs} WHERE idempotency_key = $4 AND idempotency_key IS NOT NULL AND superseded_by IS NULL
  UNION ALL SELECT * FROM {jobs} WHERE idempotency_key = $4 AND superseded_by IS NOT NULL)`
const BY_HELD = `(SELECT * FROM {jobs} WHERE id = ANY (ARRAY (
  SELECT steps.job_id FROM {steps} AS steps WHERE steps.kind = 'effect' AND steps.state = 'started')))`

function source({ ids, idempotencyKey, held }: JobFilter): string {
  if (ids) return BY_ID
  if (idempotencyKey !== undefined) return BY_KEY
  return held ? BY_HELD : '{jobs}'
}

function conditions(filter: JobFilter): QueryParameter[] {
  const list = (values: readonly string[] | undefined): string | null => (values ? array(values) : null)
  return [
    list(filter.status),
    list(filter.type),
    list(filter.queue),
    filter.idempotencyKey ?? null,
    filter.errorContains?.toLowerCase() ?? null,
    filter.olderThanMs ?? null,
    filter.youngerThanMs ?? null,
    list(filter.ids),
    filter.held === undefined ? null : String(filter.held),
  ]
}

/** When the row of `before` was pruned meanwhile, ids being in order of time tell where it was. */
const BOUNDARY = `
SELECT date_part('epoch', created_at) * 1000, id FROM {jobs} WHERE id = $1
UNION ALL (SELECT date_part('epoch', created_at) * 1000, $1 FROM {jobs} WHERE id < $1 ORDER BY id DESC LIMIT 1)
LIMIT 1`

export function* list(text: Text, filter: JobFilter, { limit, before }: { limit: number; before?: string }): Work<JobRow[]> {
  if (limit <= 0) return []
  let boundary: readonly QueryParameter[] = [null, null]
  if (before !== undefined) {
    const [row] = yield { sql: text(BOUNDARY), params: [before] }
    if (!row) return []
    boundary = [moment(row[0]), row[1] as string]
  }
  const rows = yield {
    sql: text(`
SELECT ${columnsOf('jobs.')} FROM ${source(filter)} AS jobs
WHERE ${MATCHES} AND ($10::float8 IS NULL OR (jobs.created_at, jobs.id) < (to_timestamp($10::float8 / 1000), $11::text))
ORDER BY jobs.created_at DESC, jobs.id DESC LIMIT $12::int`),
    params: [...conditions(filter), ...boundary, limit],
  }
  return rows.map((values) => toRow(values))
}

export function* count(text: Text, filter: JobFilter): Work<number> {
  const rows = yield {
    sql: text(`SELECT count(*)::float8 FROM ${source(filter)} AS jobs WHERE ${MATCHES}`),
    params: conditions(filter),
  }
  return rows[0]![0] as number
}

/** Reads the whole table. */
const COUNT_ALL = `
SELECT type, queue, status, count(*)::float8,
  (count(*) FILTER (WHERE status IN ('pending', 'retrying') AND run_after <= {now}))::float8, date_part('epoch', min(run_after)) * 1000
FROM {jobs} GROUP BY type, queue, status`

export function* countAll(text: Text): Work<CountRow[]> {
  const rows = yield { sql: text(COUNT_ALL), params: [] }
  return rows.map(([type, queue, status, rowCount, due, oldest]) => ({
    type: type as string,
    queue: queue as string,
    status: status as Status,
    count: rowCount as number,
    due: due as number,
    oldestRunAfter: moment(oldest),
  }))
}

/** By job_events_job. */
const EVENTS = `
SELECT date_part('epoch', at) * 1000, kind, attempt, message, data::text FROM {events} WHERE job_id = $1 ORDER BY seq`

export function* eventsOf(text: Text, jobId: string): Work<JobEvent[]> {
  const rows = yield { sql: text(EVENTS), params: [jobId] }
  return rows.map(([at, kind, attempt, message, data]) => ({
    jobId,
    at: moment(at),
    kind: kind as JobEvent['kind'],
    attempt: attempt as number,
    message: message as string,
    data: data as string | null,
  }))
}
