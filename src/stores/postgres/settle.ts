/**
 * The writes of a claim holder. All are fenced by id, status and claim token: once the row has been settled, recovered or
 * claimed again, they change nothing. Rows are found by primary key. The status is compared inside a CASE, which the planner
 * does not look into: it must not take jobs_running for it, whose dead entries are many while some long transaction holds a
 * snapshot.
 *
 * Leaving `running` clears the claim: locked_by, claim_token and locked_at. `retrying` and `failed` are not written to a row
 * whose cancellation has been asked for in the meantime, or the request would be lost.
 *
 * A row may be locked by a transaction that stays open: the product's, in which it completes the job, or a person's. A write of many rows
 * must not wait for one of them, but to lock each row first, passing over those, would cost every write dear. So a write is impatient: it fails
 * as a whole when it has waited for `MOST_WAIT_MS`, and is made again for the rows that are free.
 */
import type { Fence, FencedSettlement, NewEvent, Report, ReportOutcome, SettleOutcome } from '../../store.js'
import { MAX_HISTORY } from '../../transition.js'
import type { QueryParameter, Work } from '../../transactions/transaction.js'
import { array } from './array.js'
import type { Text } from './dialect.js'
import { APPEND, piecesForSql } from './streams.js'

/** Whether the row `jobs` is running under the claim whose token stands in `token`. */
export const HOLDS = (token: string): string =>
  `CASE WHEN jobs.status = 'running' THEN jobs.claim_token IS NOT DISTINCT FROM ${token} END`

/** Short writes of others, such as a request to cancel, are over by then. It ends deadlocks, too. */
const MOST_WAIT_MS = 250

/**
 * For a statement that joins with it: it fails when it has waited for a row for so long. It is set before the first row is there to be locked,
 * and until the end of the transaction: never in one that is the product's.
 */
const IMPATIENT = `patience AS MATERIALIZED (SELECT set_config('lock_timeout', '${MOST_WAIT_MS}', true))`

/** For the same statement in the product's transaction, or where its rows are locked already: it waits as long as it would by itself. */
const PATIENT = `patience AS (SELECT 1)`

/** A settlement that says no more than that the job is done, as most do. */
export function isPlainSuccess({ settlement, keepForMs, token }: FencedSettlement): boolean {
  return settlement.status === 'succeeded' && settlement.result === null && keepForMs === null && token !== null
}

/** Makes plain successes of what is given from parameter `first` on; part of a claim, or a statement of its own. Answers with ids. */
export const succeedSql = (first: number): string => `
WITH ${IMPATIENT}
UPDATE {jobs} AS jobs
SET status = 'succeeded', result = NULL, max_attempts = coalesce(jobs.max_attempts, done.max_attempts), keep_for = 0,
  finished_at = {now}, updated_at = {now}, locked_by = NULL, claim_token = NULL, locked_at = NULL, rev = jobs.rev + 1
FROM patience, unnest($${first}::text[], $${first + 1}::text[], $${first + 2}::int[]) AS done (id, token, max_attempts)
WHERE jobs.id = done.id AND ${HOLDS('done.token')}
RETURNING jobs.id`

const SUCCEED = succeedSql(1)

export function successParams(done: readonly FencedSettlement[]): QueryParameter[] {
  return [
    array(done.map(({ id }) => id)),
    array(done.map(({ token }) => token!)),
    array(done.map(({ maxAttempts }) => maxAttempts)),
  ]
}

/** Settles what is given as JSON in `source`; part of a claim, or a statement of its own. Answers with ids. */
export const settleSql = (source: string, patience = IMPATIENT): string => `
WITH ${patience}
UPDATE {jobs} AS jobs
SET status = s.status,
  result = CASE WHEN s.status = 'succeeded' THEN CASE WHEN s.has_result THEN coalesce(s.result::jsonb, 'null') END ELSE jobs.result END,
  user_message = CASE WHEN s.status = 'failed' THEN s.user_message ELSE jobs.user_message END,
  run_after = CASE WHEN s.status = 'retrying' AND s.delay IS NOT NULL
    THEN to_timestamp(least(greatest(date_part('epoch', {now}) * 1000 + s.delay, 0), 8.64e15) / 1000) ELSE jobs.run_after END,
  attempts = coalesce(s.attempts, jobs.attempts),
  waits = coalesce(s.waits, jobs.waits),
  last_error = coalesce(s.entry ->> 'message', jobs.last_error),
  errors = CASE WHEN s.entry IS NULL THEN jobs.errors
    ELSE CASE WHEN jsonb_array_length(jobs.errors) < ${MAX_HISTORY} THEN jobs.errors ELSE jobs.errors - 0 END
      || (s.entry::jsonb || jsonb_build_object('at', round(date_part('epoch', {now}) * 1000)::bigint)) END,
  max_attempts = coalesce(jobs.max_attempts, s.max_attempts),
  keep_for = CASE WHEN s.status = 'retrying' THEN jobs.keep_for ELSE coalesce(s.keep_for, 0) END,
  finished_at = CASE WHEN s.status = 'retrying' THEN jobs.finished_at ELSE {now} END,
  updated_at = {now}, locked_by = NULL, claim_token = NULL, locked_at = NULL, rev = jobs.rev + 1
FROM patience, json_to_recordset(${source}::text::json) AS s (id text, token text, status text, has_result boolean, result json,
  user_message text, delay float8, attempts int, waits int, entry json, max_attempts int, keep_for bigint)
WHERE jobs.id = s.id AND ${HOLDS('s.token')}
  AND (s.status IN ('succeeded', 'canceled') OR jobs.cancel_requested_at IS NULL)
RETURNING jobs.id`

const SETTLE = { impatient: settleSql('$1'), patient: settleSql('$1', PATIENT) }

type Patience = keyof typeof SETTLE

/** Those of the rows that nobody else has locked; they are locked now. */
const FREE = `
SELECT jobs.id FROM {jobs} AS jobs WHERE jobs.id = ANY (ARRAY (SELECT json_array_elements_text($1::text::json))) FOR NO KEY UPDATE SKIP LOCKED`

const HELD = `
SELECT jobs.id FROM json_to_recordset($1::text::json) AS s (id text, token text) JOIN {jobs} AS jobs ON jobs.id = s.id
WHERE ${HOLDS('s.token')}`

/** In one statement, or in a few when one job is settled twice or a fence does not hold. */
export function* settleAll(
  text: Text,
  settlements: readonly FencedSettlement[],
  patience: Patience = 'impatient',
): Work<SettleOutcome[]> {
  const outcomes: SettleOutcome[] = []
  // Of two settlements of one job in one call the first counts.
  for (let rest = settlements; rest.length > 0;) {
    const together = withoutRepetition(rest)
    const plain = patience === 'impatient' && together.every(isPlainSuccess)
    const [sql, params] = plain ? [SUCCEED, successParams(together)] : [SETTLE[patience], [settlementsForSql(together)]]
    const settled = ids(yield { hot: true, sql: text(sql), params })
    outcomes.push(...(yield* outcomesOf(text, together, settled)))
    rest = rest.slice(together.length)
  }
  return outcomes
}

/** As `settleAll`, in a transaction, waiting for no row. */
export function* settleFree(text: Text, settlements: readonly FencedSettlement[]): Work<SettleOutcome[]> {
  return yield* ofFree<FencedSettlement, SettleOutcome>(text, settlements, settleAll)
}

/** As `reportAll`, in a transaction, waiting for no row. */
export function* reportFree(text: Text, reports: readonly Report[]): Work<ReportOutcome[]> {
  return yield* ofFree<Report, ReportOutcome>(text, reports, reportAll)
}

/** Makes the writes whose rows are free. Of the others, one whose claim is held may be made later. */
function* ofFree<Write extends Fence, Outcome>(
  text: Text,
  writes: readonly Write[],
  make: (text: Text, free: readonly Write[], patience: Patience) => Work<Outcome[]>,
): Work<(Outcome | 'locked' | 'lost')[]> {
  const free = ids(yield { sql: text(FREE), params: [JSON.stringify(writes.map(({ id }) => id))] })
  const made = yield* make(
    text,
    writes.filter(({ id }) => free.has(id)),
    'patient',
  )
  const others = writes.filter(({ id }) => !free.has(id))
  const held = others.length === 0 ? free : ids(yield { sql: text(HELD), params: [fencesForSql(others)] })
  let next = 0
  return writes.map(({ id }) => (free.has(id) ? made[next++]! : held.has(id) ? 'locked' : 'lost'))
}

/** What became of settlements, given the ids of those that were written. */
export function* outcomesOf(
  text: Text,
  settlements: readonly FencedSettlement[],
  settled: ReadonlySet<string>,
): Work<SettleOutcome[]> {
  const open = settlements.filter(({ id }) => !settled.has(id))
  const held = open.length === 0 ? settled : ids(yield { sql: text(HELD), params: [fencesForSql(open)] })
  return settlements.map(({ id }) => (settled.has(id) ? 'settled' : held.has(id) ? 'cancel_requested' : 'lost'))
}

/** Whether two of them are of one job. */
export function repeats(settlements: readonly FencedSettlement[]): boolean {
  return withoutRepetition(settlements) !== settlements
}

/** The settlements up to the first that is of the same job as one before it. */
function withoutRepetition(settlements: readonly FencedSettlement[]): readonly FencedSettlement[] {
  const seen = new Set<string>()
  const end = settlements.findIndex(({ id }) => seen.size === seen.add(id).size)
  return end === -1 ? settlements : settlements.slice(0, end)
}

function ids(rows: readonly (readonly unknown[])[]): Set<string> {
  return new Set(rows.map(([id]) => id as string))
}

export function settlementsForSql(settlements: readonly FencedSettlement[]): string {
  return `[${settlements.map(settlementForSql).join(',')}]`
}

function settlementForSql({ id, token, settlement, maxAttempts, keepForMs }: FencedSettlement): string {
  const common = { id, token, status: settlement.status, max_attempts: maxAttempts }
  const keep = keepForMs === null ? {} : { keep_for: Math.min(8.64e15, Math.max(0, Math.round(keepForMs))) }
  switch (settlement.status) {
    case 'succeeded': {
      // The result is JSON already. Of a JSON null the database makes no value at all.
      const rest = JSON.stringify({ ...common, ...keep, has_result: settlement.result !== null })
      return settlement.result === null ? rest : `${rest.slice(0, -1)},"result":${settlement.result}}`
    }
    case 'failed':
      return JSON.stringify({ ...common, ...keep, user_message: settlement.userMessage, entry: settlement.entry })
    case 'canceled':
      return JSON.stringify({ ...common, entry: settlement.entry ?? undefined })
    case 'retrying': {
      const { delayMs, attempts, waits, entry } = settlement
      return JSON.stringify({ ...common, delay: delayMs ?? undefined, attempts, waits, entry: entry ?? undefined })
    }
  }
}

function fencesForSql(fences: readonly { id: string; token: string | null }[]): string {
  return JSON.stringify(fences.map(({ id, token }) => ({ id, token })))
}

/** Writes a row only where something is to be said on it; answers with the positions of the reports that are written. */
const reportSql = (append: string, patience = IMPATIENT): string => `
WITH ${patience}, report AS MATERIALIZED (
  SELECT * FROM json_to_recordset($1::text::json) AS r (position int, id text, token text, stage text, progress float8, events json, streams json)
), held AS MATERIALIZED (
  SELECT report.*, jobs.attempts FROM patience CROSS JOIN report JOIN {jobs} AS jobs ON jobs.id = report.id
  WHERE ${HOLDS('report.token')} FOR NO KEY UPDATE OF jobs
), written AS (
  UPDATE {jobs} AS jobs
  SET stage = coalesce(held.stage, jobs.stage), progress = coalesce(held.progress, jobs.progress), updated_at = {now}, rev = jobs.rev + 1
  FROM held WHERE jobs.id = held.id AND (held.stage IS NOT NULL OR held.progress IS NOT NULL OR held.streams IS NOT NULL)
), noted AS (
  INSERT INTO {events} (job_id, at, kind, attempt, message, data)
  SELECT held.id, {now}, event.kind, event.attempt, event.message, event.data::jsonb
  FROM held CROSS JOIN LATERAL json_to_recordset(held.events) AS event (place int, kind text, attempt int, message text, data json)
  WHERE held.events IS NOT NULL
  ORDER BY held.position, event.place
)${append}
SELECT position FROM held`

const REPORT = { impatient: reportSql(''), patient: reportSql('', PATIENT) }
const REPORT_AND_APPEND = { impatient: reportSql(APPEND), patient: reportSql(APPEND, PATIENT) }

export function* reportAll(text: Text, reports: readonly Report[], patience: Patience = 'impatient'): Work<ReportOutcome[]> {
  const outcomes: ReportOutcome[] = reports.map(() => 'lost')
  // Two reports of one job are two writes.
  for (let start = 0; start < reports.length;) {
    const seen = new Set<string>()
    let end = start
    while (end < reports.length && seen.size < seen.add(reports[end]!.id).size) end++
    const some = reports.slice(start, end)
    const batch = some.map((report, i) => reportForSql(report, start + i))
    const statement = some.some(({ streams = [] }) => streams.length > 0) ? REPORT_AND_APPEND : REPORT
    const sql = text(statement[patience])
    for (const [position] of yield { hot: true, sql, params: [`[${batch.join(',')}]`] }) outcomes[position as number] = 'written'
    start = end
  }
  return outcomes
}

function reportForSql({ id, token, stage, progress, events = [], streams = [] }: Report, position: number): string {
  const rest = JSON.stringify({ position, id, token, stage, progress }).slice(0, -1)
  const noted = events.length === 0 ? '' : `,"events":[${events.map(eventForSql).join(',')}]`
  const appended = streams.length === 0 ? '' : `,"streams":${piecesForSql(streams)}`
  return `${rest}${noted}${appended}}`
}

/** Its data is JSON already. */
function eventForSql({ data, kind, attempt, message }: NewEvent, place: number): string {
  const rest = JSON.stringify({ place, kind, attempt, message })
  return data === null ? rest : `${rest.slice(0, -1)},"data":${data}}`
}
