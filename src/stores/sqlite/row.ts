/** A row of `jobs` between SQL and JavaScript. */
import { readJson } from '../../json.js'
import type { JobRow } from '../../store.js'
import type { HistoryEntry, Status } from '../../transition.js'
import type { Values } from '../../transactions/transaction.js'

/** By the primary key of job_steps, and looked for only where a job has failed. */
export const HELD = `CASE WHEN jobs.status = 'failed' AND jobs.superseded_by IS NULL THEN EXISTS (SELECT 1 FROM job_steps
  WHERE job_steps.job_id = jobs.id AND job_steps.kind = 'effect' AND job_steps.state = 'started') ELSE 0 END`

/** What every statement that answers with whole rows selects; `toRow` reads it by position. */
export const COLUMNS = `id, type, queue, status, payload, priority, attempts, max_attempts, waits, run_after, locked_at,
  locked_by, claim_token, cancel_requested_at, idempotency_key, fingerprint, superseded_by, stage, progress, result, errors,
  last_error, user_message, trace_context, created_at, updated_at, finished_at, rev, ${HELD}`

const NO_HISTORY: readonly HistoryEntry[] = Object.freeze([])

export function toRow(values: Values): JobRow {
  return {
    id: values[0] as string,
    type: values[1] as string,
    queue: values[2] as string,
    status: values[3] as Status,
    payload: values[4] as string,
    priority: values[5] as number,
    attempts: values[6] as number,
    maxAttempts: values[7] as number | null,
    waits: values[8] as number,
    runAfter: values[9] as number,
    lockedAt: values[10] as number | null,
    lockedBy: values[11] as string | null,
    claimToken: values[12] as string | null,
    cancelRequestedAt: values[13] as number | null,
    idempotencyKey: values[14] as string | null,
    fingerprint: values[15] as string | null,
    supersededBy: values[16] as string | null,
    stage: values[17] as string | null,
    progress: values[18] as number | null,
    result: values[19] as string | null,
    history: toHistory(values[20] as string),
    lastError: values[21] as string | null,
    userMessage: values[22] as string | null,
    traceContext: values[23] as string | null,
    createdAt: values[24] as number,
    updatedAt: values[25] as number,
    finishedAt: values[26] as number | null,
    rev: values[27] as number,
    held: values[28] === 1,
  }
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
