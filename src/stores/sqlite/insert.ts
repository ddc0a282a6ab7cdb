/**
 * Enqueueing, as a work of statements: the store's own connection runs it, and the product's connection in a transaction of the
 * product's.
 */
import type { InsertOutcome, JobRow, NewJob } from '../../store.js'
import { moment } from './database.js'
import type { Values } from '../../transactions/transaction.js'
import { newRow } from '../new-row.js'
import { inheritEffects } from './steps.js'
import { COLUMNS, toRow } from './row.js'
import type { SqliteWork, Step } from './work.js'

export function* insertAll(now: number, jobs: readonly NewJob[]): SqliteWork<InsertOutcome[]> {
  const outcomes: InsertOutcome[] = []
  for (const job of jobs) {
    if (job.supersedes !== null) yield releaseKey(job, job.supersedes, now)
    const row = newRow(job, now, moment('at' in job.runAfter ? job.runAfter.at : now + job.runAfter.delayMs))
    const inserted = yield insertRow(row)
    if (inserted.length > 0 && job.supersedes !== null) yield inheritEffects(job.id, job.supersedes.id)
    outcomes.push(
      inserted.length > 0
        ? { type: 'inserted', row }
        : inTheWay(job, job.idempotencyKey === null ? [] : yield findHolder(job), now),
    )
  }
  return outcomes
}

/** The old holder lets go of its key first, or jobs_key would refuse the new row. */
function releaseKey(job: NewJob, old: { id: string; status: string }, now: number): Step {
  // Both by primary key.
  return {
    writes: true,
    sql: `UPDATE jobs SET superseded_by = ?1, updated_at = ?2, rev = rev + 1
     WHERE id = ?3 AND status = ?4 AND type = ?5 AND idempotency_key = ?6 AND superseded_by IS NULL
       AND NOT EXISTS (SELECT 1 FROM jobs AS taken WHERE taken.id = ?1)`,
    params: [job.id, now, old.id, old.status, job.type, job.idempotencyKey],
  }
}

function insertRow(row: JobRow): Step {
  // Both conflicts name their index (the primary key, jobs_key), so that the statement fails when jobs_key is missing
  // instead of letting duplicates in.
  return {
    writes: true,
    sql: `INSERT INTO jobs (id, type, queue, payload, priority, max_attempts, run_after, idempotency_key, fingerprint,
       trace_context, created_at, updated_at)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?11)
     ON CONFLICT (id) DO NOTHING
     ON CONFLICT (idempotency_key, type) WHERE idempotency_key IS NOT NULL AND superseded_by IS NULL DO NOTHING`,
    params: [
      row.id,
      row.type,
      row.queue,
      row.payload,
      row.priority,
      row.maxAttempts,
      row.runAfter,
      row.idempotencyKey,
      row.fingerprint,
      row.traceContext,
      row.createdAt,
    ],
  }
}

/** The row that holds the key, unless what stood in the way was the id of another row. */
function findHolder(job: NewJob): Step {
  // By jobs_key, and by primary key.
  return {
    sql: `SELECT ${COLUMNS} FROM jobs
     WHERE idempotency_key = ?1 AND type = ?2 AND idempotency_key IS NOT NULL AND superseded_by IS NULL
       AND (id = ?3 OR NOT EXISTS (SELECT 1 FROM jobs AS taken WHERE taken.id = ?3))`,
    params: [job.idempotencyKey, job.type, job.id],
  }
}

function inTheWay(job: NewJob, found: readonly Values[], now: number): InsertOutcome {
  const holder = found[0] && toRow(found[0])
  return holder && !supersedesItself(job, holder) ? { type: 'held', holder, now } : { type: 'id_taken' }
}

/** Its id being taken, a job cannot replace the row that has it. */
function supersedesItself({ id, supersedes }: NewJob, holder: JobRow): boolean {
  return holder.id === id && supersedes?.id === id && supersedes.status === holder.status
}
