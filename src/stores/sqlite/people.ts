/** What people ask for: cancel, and repair. */
import type { JobRow } from '../../store.js'
import { MAX_HISTORY, type HistoryEntry } from '../../transition.js'
import type { Sql } from './database.js'
import { addEvent } from './settle.js'
import { COLUMNS, toRow } from './row.js'

export function findJob(sql: Sql, id: string): JobRow | undefined {
  // By primary key.
  const [found] = sql.all(`SELECT ${COLUMNS} FROM jobs WHERE id = ?`, id)
  return found && toRow(found)
}

export function cancelOne(sql: Sql, id: string, by: string | null): JobRow | undefined {
  const data = by === null ? null : JSON.stringify({ by })
  // Both by primary key.
  const [canceled] = sql.all(
    `UPDATE jobs SET status = 'canceled', finished_at = ?2, updated_at = ?2, locked_by = NULL, claim_token = NULL, locked_at = NULL,
       rev = rev + 1
     WHERE id = ?1 AND status IN ('pending', 'retrying')
     RETURNING ${COLUMNS}`,
    id,
    sql.now,
  )
  if (canceled) {
    const row = toRow(canceled)
    addEvent(sql, id, { kind: 'canceled', attempt: row.attempts, message: 'canceled before it ran', data })
    return row
  }
  const [requested] = sql.all(
    `UPDATE jobs SET cancel_requested_at = ?2, updated_at = ?2, rev = rev + 1
     WHERE id = ?1 AND status = 'running' AND cancel_requested_at IS NULL
     RETURNING ${COLUMNS}`,
    id,
    sql.now,
  )
  if (requested) {
    const row = toRow(requested)
    addEvent(sql, id, { kind: 'cancel_requested', attempt: row.attempts, message: 'cancellation requested', data })
    return row
  }
  return findJob(sql, id)
}

export function repairOne(sql: Sql, id: string, by: string | null): { row: JobRow; changed: boolean } | undefined {
  const before = findJob(sql, id)
  if (!before) return undefined
  const message = by === null ? 'made pending again' : `made pending again by ${by}`
  const entry: HistoryEntry = {
    attempt: before.attempts,
    at: sql.now,
    kind: 'repaired',
    code: 'repaired',
    message,
    ...(by !== null && { by }),
  }
  const [repaired] = sql.all(
    // By primary key. A row whose key has passed to another job stays as it is: two rows would do the same work.
    `UPDATE jobs
     SET status = 'pending', attempts = 0, waits = 0, run_after = ?2, updated_at = ?2, last_error = ?3,
       errors = json_insert(CASE WHEN json_array_length(errors) < ?5 THEN errors ELSE json_remove(errors, '$[0]') END,
         '$[#]', json(?4)),
       user_message = NULL, stage = NULL, progress = NULL, result = NULL, cancel_requested_at = NULL, finished_at = NULL,
       keep_for = 0, locked_by = NULL, locked_at = NULL, claim_token = NULL, rev = rev + 1
     WHERE id = ?1 AND status IN ('failed', 'canceled') AND superseded_by IS NULL
     RETURNING ${COLUMNS}`,
    id,
    sql.now,
    message,
    JSON.stringify(entry),
    MAX_HISTORY,
  )
  if (!repaired) return { row: before, changed: false }
  const data = by === null ? null : JSON.stringify({ by })
  addEvent(sql, id, { kind: 'repaired', attempt: before.attempts, message, data })
  return { row: toRow(repaired), changed: true }
}
