/**
 * Claiming. One level is the waiting jobs of one queue and one priority: a contiguous piece of jobs_claimable, in the order of
 * run_after and then of the id. A claim goes from level to level by a seek (the loose index scan), locks the due rows at the
 * head of each, passing over those that another claim has locked, and stops when it has enough. Delayed rows stand behind the
 * due ones of their level, finished rows and other queues are not in the piece at all: none of them makes a claim slower.
 *
 * What does is the dead entries of rows claimed before. As a rule the index forgets them; but while any transaction in the
 * database holds an old snapshot, nothing may be forgotten, and each claim would walk over all that were claimed since. So
 * there are two ways to claim:
 *
 *   exact:     from the very beginning of each level; always right.
 *   from here: from a little before the place where the last claim ended, or right behind it where that will soon be made good,
 *              in the levels that are known, and the early jobs by their ids: those that came to stand before the places since.
 *              Returned jobs do, a time set in the past, a commit that was long in coming, a new level.
 *
 * Who claims many rows at a time works through a backlog, and finds the way from the beginning often enough: once in a tenth of a
 * second, and for a tenth of the time. In between its claims are from here. Other claims are exact, until several in a row take longer
 * than their rows explain. From then on all are from here, and a scout looks from the very beginning for early jobs, on another
 * connection, so that no claim waits for it, and for a tenth of the time at most. When it finds the way short again, claims are exact
 * again.
 */
import type { ClaimRequest, ClaimResult, JobRow, SettleOutcome, FencedSettlement } from '../../store.js'
import type { QueryParameter, Values, Work } from '../../transactions/transaction.js'
import type { Text } from './dialect.js'
import type { FromHere } from './places.js'
import { array } from './array.js'
import { moment, toHistory } from './row.js'
import {
  isPlainSuccess,
  outcomesOf,
  repeats,
  settlementsForSql,
  settleAll,
  settleFree,
  settleSql,
  succeedSql,
  successParams,
} from './settle.js'

/** The levels of the wanted queues, found by one seek each. */
export const everyLevel = (queues: string): string => `
level (queue, position, priority) AS (
  SELECT wanted.queue, wanted.position, first.priority
  FROM unnest(${queues}::text[]) WITH ORDINALITY AS wanted (queue, position) CROSS JOIN LATERAL (
    SELECT priority FROM {jobs} WHERE status IN ('pending', 'retrying') AND queue = wanted.queue
    ORDER BY priority LIMIT 1) AS first
  UNION ALL
  SELECT level.queue, level.position, next.priority
  FROM level CROSS JOIN LATERAL (
    SELECT priority FROM {jobs} WHERE status IN ('pending', 'retrying') AND queue = level.queue AND priority > level.priority
    ORDER BY priority LIMIT 1) AS next
)`

/** From where a claim starts. What is taken early must not be taken again where a level is looked through: it would count twice. */
interface Start {
  places: string
  early: string
  notEarly: string
}

const EVERY_PLACE: Start = {
  places: `${everyLevel('$4')},
place AS MATERIALIZED (
  SELECT queue, priority, '-infinity'::timestamptz AS run_after, '' AS id FROM level ORDER BY position, priority
)`,
  early: '',
  notEarly: '',
}

/** The known levels, each with the place to start from, in order; the early jobs are the last parameter. */
const knownPlaces = (first: number): Start => ({
  places: `
place AS MATERIALIZED (
  SELECT queue, priority, to_timestamp(run_after / 1000) AS run_after, id
  FROM unnest($4::text[], $${first}::int[], $${first + 1}::float8[], $${first + 2}::text[]) AS known (queue, priority, run_after, id)
)`,
  // By primary key; the CASE hides the condition of jobs_claimable from the planner.
  early: `
  SELECT due.tid
  FROM lease CROSS JOIN LATERAL (
    SELECT jobs.ctid AS tid FROM {jobs} AS jobs
    WHERE jobs.id = ANY ($${first + 3}::text[]) AND CASE WHEN jobs.status IN ('pending', 'retrying')
      THEN jobs.queue = ANY ($4::text[]) AND jobs.run_after <= {now} AND jobs.type = ANY ($3::text[]) END
    FOR NO KEY UPDATE SKIP LOCKED) AS due
  UNION ALL`,
  notEarly: `AND jobs.id <> ALL ($${first + 3}::text[])`,
})

/** Most settlements say no more than that the job is done: $7 to $9. Others come as JSON: $6. */
const SETTLING = `
settled AS (${settleSql('$6')}),
succeeded AS (${succeedSql(7)}),`

/**
 * A claim lost in a crash of the server is a job that is pending again, which its loss would have made it too: alone, it does not
 * wait for the disk.
 */
const FLEETING = `set_config('synchronous_commit', 'off', true) AS fleeting`

/** $1 worker, $2 token, $3 types, $5 limit. */
const claimSql = ({ places, early, notEarly }: Start, settling: boolean): string => `
WITH RECURSIVE ${places},
lease AS MATERIALIZED (SELECT 1 FROM {workers}${settling ? '' : `, ${FLEETING}`} WHERE id = $1 AND lease_until > {now}),
${settling ? SETTLING : ''}
candidate AS MATERIALIZED (${early}
  SELECT due.tid
  FROM lease CROSS JOIN place CROSS JOIN LATERAL (
    SELECT jobs.ctid AS tid FROM {jobs} AS jobs
    WHERE jobs.status IN ('pending', 'retrying') AND jobs.queue = place.queue AND jobs.priority = place.priority
      AND (jobs.run_after, jobs.id) > (place.run_after, place.id) AND jobs.run_after <= {now} AND jobs.type = ANY ($3::text[])
      ${notEarly}
    ORDER BY jobs.run_after, jobs.id LIMIT $5::int
    FOR NO KEY UPDATE SKIP LOCKED) AS due
  LIMIT $5::int
),
claimed AS (
  UPDATE {jobs} AS jobs
  SET status = 'running', attempts = jobs.attempts + 1, locked_at = {now}, locked_by = $1, claim_token = $2, updated_at = {now},
    stage = NULL, progress = NULL, rev = jobs.rev + 1
  WHERE jobs.ctid = ANY (ARRAY (SELECT tid FROM candidate))
  RETURNING jobs.id, jobs.type, jobs.queue, jobs.payload::text, jobs.priority, jobs.attempts, jobs.max_attempts, jobs.waits,
    date_part('epoch', jobs.run_after) * 1000, date_part('epoch', jobs.cancel_requested_at) * 1000, jobs.idempotency_key,
    jobs.fingerprint, jobs.errors::text, jobs.last_error, jobs.user_message, jobs.trace_context,
    date_part('epoch', jobs.created_at) * 1000, jobs.rev::float8
)
SELECT 'claimed', NULL::boolean, NULL::float8, NULL::float8, claimed.* FROM claimed
UNION ALL
${settling ? `SELECT 'settled', NULL, NULL, NULL, id${', NULL'.repeat(17)} FROM settled UNION ALL` : ''}
SELECT 'answer', EXISTS (SELECT 1 FROM lease), date_part('epoch', {now}) * 1000,
  -- The head of what is not due yet, one seek for each level.
  CASE WHEN (SELECT count(*) FROM candidate) < $5::int THEN (
    SELECT date_part('epoch', min(next.run_after)) * 1000
    FROM place CROSS JOIN LATERAL (
      SELECT jobs.run_after FROM {jobs} AS jobs
      WHERE jobs.status IN ('pending', 'retrying') AND jobs.queue = place.queue AND jobs.priority = place.priority
        AND jobs.run_after > {now}
      ORDER BY jobs.run_after LIMIT 1) AS next) END,
  -- Which of the many are done, unless all are.
  ${settling ? `CASE WHEN (SELECT count(*) FROM succeeded) < cardinality($7::text[]) THEN (SELECT coalesce(json_agg(id), '[]')::text FROM succeeded) END` : 'NULL'}${', NULL'.repeat(17)}`

const STATEMENTS = {
  exact: { settling: claimSql(EVERY_PLACE, true), fleeting: claimSql(EVERY_PLACE, false) },
  fromHere: { settling: claimSql(knownPlaces(10), true), fleeting: claimSql(knownPlaces(6), false) },
}

export type ClaimAnswer = ClaimResult & { settled: SettleOutcome[] }

export interface ClaimHow {
  /** Without it the claim is exact. */
  from?: FromHere | undefined
  /** In a transaction, with no settlement waiting for a row. */
  ofFree?: boolean
}

/** Whether its statements must be one transaction. */
export function needsTransaction(settlements: readonly FencedSettlement[]): boolean {
  return settlements.some(({ settlement }) => settlement.status === 'retrying') || repeats(settlements)
}

export function* claim(
  text: Text,
  request: ClaimRequest,
  settlements: readonly FencedSettlement[],
  { from, ofFree = false }: ClaimHow = {},
): Work<ClaimAnswer> {
  // What is returned may be claimed by this very call: its statement must see it.
  const settleFirst = ofFree ? settleFree : needsTransaction(settlements) ? settleAll : undefined
  const before = settleFirst && (yield* settleFirst(text, settlements))
  const together = before ? [] : settlements
  const { workerId, token, queues, types, limit } = request
  const params: QueryParameter[] = [
    workerId,
    token,
    array(types),
    array(from ? from.places.map(({ queue }) => queue) : queues),
    Math.max(0, limit),
  ]
  const done = together.filter(isPlainSuccess)
  // The statement that is fleeting would make the commit of settlements before it fleeting, too.
  const settling = settlements.length > 0
  if (settling) params.push(...settlementParams(together, done))
  if (from) params.push(...placeParams(from))
  const sql = STATEMENTS[from ? 'fromHere' : 'exact'][settling ? 'settling' : 'fleeting']
  const rows = yield { hot: true, sql: text(sql), params }
  const answer = rows.find(([kind]) => kind === 'answer')!
  const now = moment(answer[2])
  const settledIds = new Set(rows.filter(([kind]) => kind === 'settled').map((values) => values[4] as string))
  const doneIds = answer[4] === null ? done.map(({ id }) => id) : (JSON.parse(answer[4] as string) as string[])
  for (const id of doneIds) settledIds.add(id)
  const jobs = rows.filter(([kind]) => kind === 'claimed').map((values) => claimedRow(values, now, request))
  jobs.sort(inOrderOf(queues))
  return {
    alive: answer[1] as boolean,
    jobs,
    nextDueInMs: answer[3] === null || limit <= 0 ? null : moment(answer[3]) - now,
    settled: before ?? (yield* outcomesOf(text, together, settledIds)),
  }
}

function settlementParams(all: readonly FencedSettlement[], done: readonly FencedSettlement[]): QueryParameter[] {
  const others = done.length === all.length ? [] : all.filter((settlement) => !isPlainSuccess(settlement))
  return [others.length > 0 ? settlementsForSql(others) : null, ...successParams(done)]
}

function placeParams({ places, early }: FromHere): QueryParameter[] {
  return [
    array(places.map(({ priority }) => priority)),
    array(places.map(({ runAfter }) => runAfter)),
    array(places.map(({ id }) => id)),
    array(early),
  ]
}

/** Rows come back in no order. Ids are compared as the index does, by their bytes. */
function inOrderOf(queues: readonly string[]): (a: JobRow, b: JobRow) => number {
  const position = new Map(queues.map((queue, i) => [queue, i]))
  return (a, b) =>
    position.get(a.queue)! - position.get(b.queue)! ||
    a.priority - b.priority ||
    a.runAfter - b.runAfter ||
    Buffer.compare(Buffer.from(a.id), Buffer.from(b.id))
}

function claimedRow(values: Values, now: number, request: ClaimRequest): JobRow {
  return {
    id: values[4] as string,
    type: values[5] as string,
    queue: values[6] as string,
    status: 'running',
    payload: values[7] as string,
    priority: values[8] as number,
    attempts: values[9] as number,
    maxAttempts: values[10] as number | null,
    waits: values[11] as number,
    runAfter: moment(values[12]),
    lockedAt: now,
    lockedBy: request.workerId,
    claimToken: request.token,
    cancelRequestedAt: values[13] === null ? null : moment(values[13]),
    idempotencyKey: values[14] as string | null,
    fingerprint: values[15] as string | null,
    supersededBy: null,
    stage: null,
    progress: null,
    result: null,
    history: toHistory(values[16] as string),
    lastError: values[17] as string | null,
    userMessage: values[18] as string | null,
    traceContext: values[19] as string | null,
    createdAt: moment(values[20]),
    updatedAt: now,
    finishedAt: null,
    rev: values[21] as number,
    held: false,
  }
}
