/**
 * The writes of a claim holder. All are fenced by id, status and claim token, by the primary key: once the row has been
 * settled, recovered or claimed again, they change nothing.
 *
 * Leaving `running` clears the claim: locked_by, claim_token and locked_at. `retrying` and `failed` are not written to a
 * row whose cancellation has been asked for in the meantime, or the request would be lost.
 */
import type { Fence, FencedSettlement, NewEvent, Report, ReportOutcome, SettleOutcome } from '../../store.js'
import { MAX_HISTORY, type HistoryEntry } from '../../transition.js'
import { moment, type Sql } from './database.js'
import { append } from './streams.js'
import { runHere, type SqliteWork, type Step } from './work.js'

export function settleAll(sql: Sql, settlements: readonly FencedSettlement[]): SettleOutcome[] {
  // Of two settlements of one job in one call the first counts, so that those are not taken together.
  const distinct = new Set(settlements.map(({ id }) => id)).size === settlements.length
  const succeeded = distinct ? succeedTogether(sql, settlements.filter(isPlainSuccess)) : new Set()
  return settlements.map((settlement) => {
    if (succeeded.has(settlement.id) || settleOne(sql, settlement) === 1) return 'settled'
    return holds(sql, settlement.id, settlement.token) ? 'cancel_requested' : 'lost'
  })
}

function isPlainSuccess({ settlement, keepForMs }: FencedSettlement): boolean {
  return settlement.status === 'succeeded' && settlement.result === null && keepForMs === null
}

/**
 * Jobs of one claim call share their token, and most of them end alike: those that succeeded without a result are written by
 * one statement, which takes a sixth off the cost of a drain. Answers with the ids that it settled.
 */
function succeedTogether(sql: Sql, settlements: readonly FencedSettlement[]): Set<string> {
  const settled = new Set<string>()
  const groups = new Map<string, { first: FencedSettlement; ids: string[] }>()
  for (const settlement of settlements) {
    // No token is not the token 'null'.
    const name = `${typeof settlement.token} ${settlement.token} ${settlement.maxAttempts}`
    const group = groups.get(name)
    if (group) group.ids.push(settlement.id)
    else groups.set(name, { first: settlement, ids: [settlement.id] })
  }
  for (const { first, ids } of groups.values()) {
    const rows = sql.all(
      `UPDATE jobs
       SET status = 'succeeded', result = NULL, max_attempts = ifnull(max_attempts, ?3), keep_for = 0, finished_at = ?4,
         updated_at = ?4, locked_by = NULL, claim_token = NULL, locked_at = NULL, rev = rev + 1
       WHERE id IN (SELECT value FROM json_each(?1)) AND status = 'running' AND claim_token IS ?2
       RETURNING id`,
      JSON.stringify(ids),
      first.token,
      first.maxAttempts,
      sql.now,
    )
    for (const [id] of rows) settled.add(id as string)
  }
  return settled
}

/** How many rows it changed. */
function settleOne(sql: Sql, { id, token, settlement, maxAttempts, keepForMs }: FencedSettlement): number {
  const now = sql.now
  const keepFor = moment(keepForMs ?? 0)
  switch (settlement.status) {
    case 'succeeded': {
      const { sql: text, params } = succeed(now, { id, token, result: settlement.result, maxAttempts, keepFor })
      return sql.run(text, ...params)
    }
    case 'failed':
      return sql.run(
        `UPDATE jobs
         SET status = 'failed', user_message = ?3, last_error = ?4,
           errors = json_insert(
             CASE WHEN json_array_length(errors) < ?9 THEN errors ELSE json_remove(errors, '$[0]') END, '$[#]', json(?5)),
           max_attempts = ifnull(max_attempts, ?6), keep_for = ?7, finished_at = ?8, updated_at = ?8,
           locked_by = NULL, claim_token = NULL, locked_at = NULL, rev = rev + 1
         WHERE id = ?1 AND status = 'running' AND claim_token IS ?2 AND cancel_requested_at IS NULL`,
        id,
        token,
        settlement.userMessage,
        settlement.entry.message,
        stamped(settlement.entry, now),
        maxAttempts,
        keepFor,
        now,
        MAX_HISTORY,
      )
    case 'canceled':
      return sql.run(
        `UPDATE jobs
         SET status = 'canceled', last_error = ifnull(?3, last_error),
           errors = CASE WHEN ?4 IS NULL THEN errors ELSE json_insert(
             CASE WHEN json_array_length(errors) < ?7 THEN errors ELSE json_remove(errors, '$[0]') END, '$[#]', json(?4)) END,
           max_attempts = ifnull(max_attempts, ?5), keep_for = 0, finished_at = ?6, updated_at = ?6,
           locked_by = NULL, claim_token = NULL, locked_at = NULL, rev = rev + 1
         WHERE id = ?1 AND status = 'running' AND claim_token IS ?2`,
        id,
        token,
        settlement.entry?.message ?? null,
        settlement.entry && stamped(settlement.entry, now),
        maxAttempts,
        now,
        MAX_HISTORY,
      )
    case 'retrying':
      return sql.run(
        `UPDATE jobs
         SET status = 'retrying', run_after = ifnull(?3, run_after), attempts = ?4, waits = ?5, last_error = ifnull(?6, last_error),
           errors = CASE WHEN ?7 IS NULL THEN errors ELSE json_insert(
             CASE WHEN json_array_length(errors) < ?10 THEN errors ELSE json_remove(errors, '$[0]') END, '$[#]', json(?7)) END,
           max_attempts = ifnull(max_attempts, ?8), updated_at = ?9,
           locked_by = NULL, claim_token = NULL, locked_at = NULL, rev = rev + 1
         WHERE id = ?1 AND status = 'running' AND claim_token IS ?2 AND cancel_requested_at IS NULL`,
        id,
        token,
        settlement.delayMs === null ? null : moment(now + settlement.delayMs),
        settlement.attempts,
        settlement.waits,
        settlement.entry?.message ?? null,
        settlement.entry && stamped(settlement.entry, now),
        maxAttempts,
        now,
        MAX_HISTORY,
      )
  }
}

interface Success extends Fence {
  result: string | null
  maxAttempts: number
  keepFor: number
}

/** Runs in a transaction of the product's, too. */
function succeed(now: number, { id, token, result, maxAttempts, keepFor }: Success): Step {
  return {
    sql: `UPDATE jobs
     SET status = 'succeeded', result = ?3, max_attempts = ifnull(max_attempts, ?4), keep_for = ?5, finished_at = ?6,
       updated_at = ?6, locked_by = NULL, claim_token = NULL, locked_at = NULL, rev = rev + 1
     WHERE id = ?1 AND status = 'running' AND claim_token IS ?2`,
    params: [id, token, result, maxAttempts, keepFor, now],
    writes: true,
  }
}

/** Settles a success; answers whether the fence held. Another settlement is none that a transaction of the product's could make. */
export function* settleIn(now: number, { id, token, settlement, maxAttempts, keepForMs }: FencedSettlement): SqliteWork<boolean> {
  if (settlement.status !== 'succeeded') throw new TypeError(`a transaction cannot end a job as ${settlement.status}`)
  const written = yield succeed(now, { id, token, result: settlement.result, maxAttempts, keepFor: moment(keepForMs ?? 0) })
  return written.length > 0
}

function stamped(entry: HistoryEntry, at: number): string {
  return JSON.stringify({ ...entry, at })
}

function holds(sql: Sql, id: string, token: string | null): boolean {
  return sql.all(`SELECT 1 FROM jobs WHERE id = ? AND status = 'running' AND claim_token IS ?`, id, token).length === 1
}

export function reportAll(sql: Sql, reports: readonly Report[]): ReportOutcome[] {
  return reports.map((report) => {
    const { id, token, stage, progress, events = [], streams = [] } = report
    const onlyEvents = stage === undefined && progress === undefined && streams.length === 0
    const held = onlyEvents ? holds(sql, id, token) : writeStage(sql, report)
    if (!held) return 'lost'
    for (const event of events) addEvent(sql, id, event)
    for (const piece of streams) runHere(sql, append(sql.now, report, piece))
    return 'written'
  })
}

function writeStage(sql: Sql, { id, token, stage, progress }: Report): boolean {
  const written = sql.run(
    `UPDATE jobs SET stage = ifnull(?3, stage), progress = ifnull(?4, progress), updated_at = ?5, rev = rev + 1
     WHERE id = ?1 AND status = 'running' AND claim_token IS ?2`,
    id,
    token,
    stage ?? null,
    progress ?? null,
    sql.now,
  )
  return written === 1
}

export function addEvent(sql: Sql, jobId: string, event: NewEvent): void {
  sql.run(
    `INSERT INTO job_events (job_id, at, kind, attempt, message, data) VALUES (?, ?, ?, ?, ?, ?)`,
    jobId,
    sql.now,
    event.kind,
    event.attempt,
    event.message,
    event.data,
  )
}
