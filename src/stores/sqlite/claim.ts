/**
 * Claiming. One level is the waiting jobs of one queue and one priority: a contiguous piece of jobs_claimable, ordered by
 * run_after and then by rowid. A claim goes from level to level by a seek (the loose index scan), takes the due rows at
 * the head of each, and stops. Delayed rows stand behind the due ones of their level, finished rows and other queues are
 * not in the piece at all, so that none of them makes a claim slower. BEGIN IMMEDIATE makes it one claimer's.
 */
import type { ClaimRequest, ClaimResult, JobRow } from '../../store.js'
import type { Sql } from './database.js'
import type { SqlRow } from './driver.js'
import { toHistory } from './row.js'
import { hasLease } from './workers.js'

/** Whether a claim would find something, and when the next one is due otherwise; takes no lock. */
export function peek(sql: Sql, request: ClaimRequest): { due: boolean; nextDueInMs: number | null } {
  // jobs_claimable throughout: a seek per level for its number, one for what is due, one for what comes next.
  const levels = sql.all(
    `WITH RECURSIVE level (queue, priority) AS (
       SELECT wanted.value, (
         SELECT min(priority) FROM jobs WHERE status IN ('pending', 'retrying') AND queue = wanted.value)
       FROM json_each(?1) AS wanted
       UNION ALL
       SELECT level.queue, (
         SELECT min(jobs.priority) FROM jobs
         WHERE status IN ('pending', 'retrying') AND jobs.queue = level.queue AND jobs.priority > level.priority)
       FROM level WHERE level.priority IS NOT NULL
     )
     SELECT
       EXISTS (
         SELECT 1 FROM jobs
         WHERE status IN ('pending', 'retrying') AND queue = level.queue AND priority = level.priority AND run_after <= ?2
           AND type IN (SELECT value FROM json_each(?3))),
       (SELECT min(run_after) FROM jobs
        WHERE status IN ('pending', 'retrying') AND queue = level.queue AND priority = level.priority AND run_after > ?2)
     FROM level WHERE priority IS NOT NULL`,
    JSON.stringify(request.queues),
    sql.now,
    JSON.stringify(request.types),
  )
  let next = Infinity
  for (const [due, runAfter] of levels as [number, number | null][]) {
    if (due === 1) return { due: true, nextDueInMs: null }
    if (runAfter !== null && runAfter < next) next = runAfter
  }
  return { due: false, nextDueInMs: next === Infinity ? null : next - sql.now }
}

/** Claims; must run in a write transaction. */
export function take(sql: Sql, request: ClaimRequest): ClaimResult {
  const alive = hasLease(sql, request.workerId)
  if (!alive || request.limit <= 0 || request.queues.length === 0) return { alive, jobs: [], nextDueInMs: null }
  const types = JSON.stringify(request.types)
  const jobs: JobRow[] = []
  for (const queue of request.queues) {
    for (let priority = firstPriority(sql, queue); priority !== null; priority = nextPriority(sql, queue, priority)) {
      takeLevel(sql, request, types, queue, priority, jobs)
      if (jobs.length >= request.limit) return { alive, jobs, nextDueInMs: null }
    }
  }
  return { alive, jobs, nextDueInMs: peek(sql, { ...request, types: [] }).nextDueInMs }
}

function takeLevel(sql: Sql, request: ClaimRequest, types: string, queue: string, priority: number, jobs: JobRow[]): void {
  // RETURNING costs a fifth of a claim: it leaves out what the claim itself wrote and what only finished rows have.
  // The inner SELECT reads one level of jobs_claimable in its order and stops at the limit.
  const rows = sql.all(
    `UPDATE jobs
     SET status = 'running', attempts = attempts + 1, locked_at = ?1, locked_by = ?2, claim_token = ?3, updated_at = ?1,
       stage = NULL, progress = NULL, rev = rev + 1
     WHERE rowid IN (
       SELECT rowid FROM jobs
       WHERE status IN ('pending', 'retrying') AND queue = ?4 AND priority = ?5 AND run_after <= ?1
         AND type IN (SELECT value FROM json_each(?6))
       ORDER BY run_after, rowid LIMIT ?7)
     RETURNING rowid, id, type, payload, attempts, max_attempts, waits, run_after, cancel_requested_at, idempotency_key,
       fingerprint, errors, last_error, user_message, trace_context, created_at, rev`,
    sql.now,
    request.workerId,
    request.token,
    queue,
    priority,
    types,
    request.limit - jobs.length,
  )
  // RETURNING promises no order.
  if (rows.length > 1) rows.sort(byRunAfterThenAge)
  for (const row of rows) jobs.push(claimedRow(row, sql.now, request, queue, priority))
}

function byRunAfterThenAge(a: SqlRow, b: SqlRow): number {
  return (a[7] as number) - (b[7] as number) || (a[0] as number) - (b[0] as number)
}

function firstPriority(sql: Sql, queue: string): number | null {
  const found = sql.all(`SELECT min(priority) FROM jobs WHERE status IN ('pending', 'retrying') AND queue = ?`, queue)
  return found[0]![0] as number | null
}

function nextPriority(sql: Sql, queue: string, after: number): number | null {
  const found = sql.all(
    `SELECT min(priority) FROM jobs WHERE status IN ('pending', 'retrying') AND queue = ? AND priority > ?`,
    queue,
    after,
  )
  return found[0]![0] as number | null
}

function claimedRow(values: SqlRow, now: number, request: ClaimRequest, queue: string, priority: number): JobRow {
  return {
    id: values[1] as string,
    type: values[2] as string,
    queue,
    status: 'running',
    payload: values[3] as string,
    priority,
    attempts: values[4] as number,
    maxAttempts: values[5] as number | null,
    waits: values[6] as number,
    runAfter: values[7] as number,
    lockedAt: now,
    lockedBy: request.workerId,
    claimToken: request.token,
    cancelRequestedAt: values[8] as number | null,
    idempotencyKey: values[9] as string | null,
    fingerprint: values[10] as string | null,
    supersededBy: null,
    stage: null,
    progress: null,
    result: null,
    history: toHistory(values[11] as string),
    lastError: values[12] as string | null,
    userMessage: values[13] as string | null,
    traceContext: values[14] as string | null,
    createdAt: values[15] as number,
    updatedAt: now,
    finishedAt: null,
    rev: values[16] as number,
    held: false,
  }
}
