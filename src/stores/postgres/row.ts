/** Rows between SQL and JavaScript. Times come as milliseconds since 1970, JSON as text. */
import { readJson } from '../../json.js'
import type { JobRow } from '../../store.js'
import type { Values } from '../../transactions/transaction.js'
import type { HistoryEntry, Status } from '../../transition.js'

/** By the primary key of job_steps, and looked for only where a job has failed. */
export function heldOf(prefix: string): string {
  return `CASE WHEN ${prefix}status = 'failed' AND ${prefix}superseded_by IS NULL THEN EXISTS (SELECT 1 FROM {steps} AS steps
    WHERE steps.job_id = ${prefix}id AND steps.kind = 'effect' AND steps.state = 'started') ELSE false END`
}

/**
 * What every statement that answers with whole rows selects, of a table with an alias such as `jobs.`; `toRow` reads it by position.
 * Each has a name, since some libraries whose transactions a product enqueues in give rows as objects; no time has its column's,
 * which an ORDER BY would take for the column itself.
 */
export function columnsOf(prefix: string): string {
  return `${prefix}id, ${prefix}type, ${prefix}queue, ${prefix}status, ${prefix}payload::text, ${prefix}priority, ${prefix}attempts,
  ${prefix}max_attempts, ${prefix}waits, date_part('epoch', ${prefix}run_after) * 1000 AS run_after_ms, date_part('epoch', ${prefix}locked_at) * 1000 AS locked_at_ms,
  ${prefix}locked_by, ${prefix}claim_token, date_part('epoch', ${prefix}cancel_requested_at) * 1000 AS cancel_requested_at_ms, ${prefix}idempotency_key,
  ${prefix}fingerprint, ${prefix}superseded_by, ${prefix}stage, ${prefix}progress, ${prefix}result::text, ${prefix}errors::text,
  ${prefix}last_error, ${prefix}user_message, ${prefix}trace_context, date_part('epoch', ${prefix}created_at) * 1000 AS created_at_ms,
  date_part('epoch', ${prefix}updated_at) * 1000 AS updated_at_ms, date_part('epoch', ${prefix}finished_at) * 1000 AS finished_at_ms,
  ${prefix}rev::float8 AS rev, ${heldOf(prefix)} AS held`
}

const NO_HISTORY: readonly HistoryEntry[] = Object.freeze([])

/** From the first of the columns on, which is the row's own but for statements that say something else before it. */
export function toRow(values: Values, first = 0): JobRow {
  const at = (i: number): unknown => values[first + i]
  return {
    id: at(0) as string,
    type: at(1) as string,
    queue: at(2) as string,
    status: at(3) as Status,
    payload: at(4) as string,
    priority: at(5) as number,
    attempts: at(6) as number,
    maxAttempts: at(7) as number | null,
    waits: at(8) as number,
    runAfter: moment(at(9)),
    lockedAt: momentOrNull(at(10)),
    lockedBy: at(11) as string | null,
    claimToken: at(12) as string | null,
    cancelRequestedAt: momentOrNull(at(13)),
    idempotencyKey: at(14) as string | null,
    fingerprint: at(15) as string | null,
    supersededBy: at(16) as string | null,
    stage: at(17) as string | null,
    progress: at(18) as number | null,
    result: at(19) as string | null,
    history: toHistory(at(20) as string),
    lastError: at(21) as string | null,
    userMessage: at(22) as string | null,
    traceContext: at(23) as string | null,
    createdAt: moment(at(24)),
    updatedAt: moment(at(25)),
    finishedAt: momentOrNull(at(26)),
    rev: at(27) as number,
    held: at(28) as boolean,
  }
}

/** `date_part` is a floating-point number of seconds: a whole number of milliseconds comes with a trace of dust. */
export function moment(value: unknown): number {
  return Math.round(value as number)
}

function momentOrNull(value: unknown): number | null {
  return value === null ? null : moment(value)
}

export function toHistory(errors: string): readonly HistoryEntry[] {
  if (errors === '[]') return NO_HISTORY
  const history = readJson(errors)
  return Array.isArray(history) ? history.filter(isEntry) : NO_HISTORY
}

/** Whoever writes rows by hand may write anything. */
function isEntry(entry: unknown): entry is HistoryEntry {
  return typeof entry === 'object' && entry !== null
}
