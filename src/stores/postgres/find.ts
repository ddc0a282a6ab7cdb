/** Lists, counts and timelines. */
import type { CountRow, JobEvent, JobFilter, JobRow } from '../../store.js'
import type { QueryParameter, Work } from '../../transactions/transaction.js'
import type { Status } from '../../transition.js'
import { array } from './array.js'
import type { Text } from './dialect.js'
import {
  BEGINNING,
  behindOther,
  behindTimeOrdered,
  isTimeOrdered,
  newestFirst,
  TIME_ORDERED,
  TIME_ORDERED_OFTEN,
  TIME_ORDERED_RANGE,
  type Cut,
} from './order.js'
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
 * for those before it; by job_steps_started, which has the effects in doubt, and primary key. Other filters read the table.
 */
const BY_ID = `(SELECT * FROM {jobs} WHERE id = ANY ($8::text[]))`
const BY_KEY = `(SELECT * FROM {jobs} WHERE idempotency_key = $4 AND idempotency_key IS NOT NULL AND superseded_by IS NULL
  UNION ALL SELECT * FROM {jobs} WHERE idempotency_key = $4 AND superseded_by IS NOT NULL)`
const BY_HELD = `(SELECT * FROM {jobs} WHERE id = ANY (ARRAY (
  SELECT steps.job_id FROM {steps} AS steps WHERE steps.kind = 'effect' AND steps.state = 'started')))`

function source({ ids, idempotencyKey, held }: JobFilter, all = '{jobs}'): string {
  if (ids) return BY_ID
  if (idempotencyKey !== undefined) return BY_KEY
  return held ? BY_HELD : all
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

const TIME_ORDERED_ROWS = `(SELECT * FROM {jobs} WHERE ${TIME_ORDERED_RANGE})`

/**
 * What a page may have of each class of rows, newest first: by primary key and by jobs_created. Reads $10 to $12, the cut that it begins at.
 * Times are rounded to what the table keeps.
 */
const page = (filter: JobFilter): string => `
(SELECT ${columnsOf('jobs.')} FROM ${source(filter, TIME_ORDERED_ROWS)} AS jobs
WHERE ${TIME_ORDERED_OFTEN} AND ${MATCHES} AND ($10::text IS NULL OR jobs.id < $10::text)
ORDER BY jobs.id DESC LIMIT $13::int)
UNION ALL
(SELECT ${columnsOf('jobs.')} FROM ${source(filter)} AS jobs
WHERE NOT (${TIME_ORDERED}) AND ${MATCHES}
  AND ($11::float8 IS NULL OR (jobs.created_at, jobs.id) < (to_timestamp($11::float8 / 1000)::timestamptz(3), $12::text))
ORDER BY jobs.created_at DESC, jobs.id DESC LIMIT $13::int)`

/**
 * When a row was created whose id does not tell. When it was pruned meanwhile, its neighbours do by their ids, as far as these are in order: the
 * lower one, or where none is left the higher one.
 */
const CREATED = `
SELECT date_part('epoch', created_at) * 1000 FROM {jobs} WHERE id = $1
UNION ALL (SELECT date_part('epoch', created_at) * 1000 FROM {jobs} WHERE NOT (${TIME_ORDERED}) AND id < $1 ORDER BY id DESC LIMIT 1)
UNION ALL (SELECT date_part('epoch', created_at) * 1000 FROM {jobs} WHERE NOT (${TIME_ORDERED}) AND id > $1 ORDER BY id LIMIT 1)
LIMIT 1`

function* cutBehind(text: Text, id: string | undefined): Work<Cut> {
  if (id === undefined) return BEGINNING
  if (isTimeOrdered(id)) return behindTimeOrdered(id)
  const [found] = yield { sql: text(CREATED), params: [id] }
  // Where nothing tells, a page that comes again is better than one that never does.
  return found ? behindOther(moment(found[0]), id) : BEGINNING
}

export function* list(text: Text, filter: JobFilter, { limit, before }: { limit: number; before?: string }): Work<JobRow[]> {
  if (limit <= 0) return []
  const cut = yield* cutBehind(text, before)
  const rows = yield {
    sql: text(page(filter)),
    params: [...conditions(filter), cut.id, cut.createdAt, cut.otherId, limit],
  }
  return rows
    .map((values) => toRow(values))
    .toSorted(newestFirst)
    .slice(0, limit)
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
