/**
 * What is remembered of steps, effects and checkpoints. Every statement finds its row by primary key. A name that is done, or of
 * another kind, is left as it is.
 */
import {
  BY_PERSON,
  type FailedJob,
  type NewStep,
  type RecordOutcome,
  type StepKind,
  type StepRow,
  type StepState,
  type TransactionWrite,
} from '../../effects/record.js'
import type { Fence } from '../../store.js'
import { resolution } from '../resolution.js'
import type { Sql } from './database.js'
import { addEvent, settleIn } from './settle.js'
import { append } from './streams.js'
import type { SqliteWork, Step } from './work.js'

export function stepsOf(sql: Sql, jobId: string): StepRow[] {
  const rows = sql.all(
    // By the primary key's index; the rowids are in the order in which they began.
    `SELECT name, kind, state, attempt, request, provider_key, value, started_at, ended_at FROM job_steps WHERE job_id = ? ORDER BY rowid`,
    jobId,
  )
  return rows.map(([name, kind, state, attempt, request, key, value, startedAt, endedAt]) => ({
    jobId,
    name: name as string,
    kind: kind as StepKind,
    state: state as StepState,
    attempt: attempt as number,
    request: request as string | null,
    key: key as string | null,
    value: value as string | null,
    startedAt: startedAt as number,
    endedAt: endedAt as number | null,
  }))
}

function* holdsClaim({ id, token }: Fence): SqliteWork<boolean> {
  const [held] = yield {
    sql: `SELECT 1 AS held FROM jobs WHERE id = ?1 AND status = 'running' AND claim_token IS ?2`,
    params: [id, token],
  }
  return held !== undefined
}

export function* recordStep(now: number, fence: Fence, step: NewStep): SqliteWork<RecordOutcome> {
  if (!(yield* holdsClaim(fence))) return 'lost'
  const { id } = fence
  const { name, kind, state, attempt, request, key, value } = step
  const written = yield {
    sql: `INSERT INTO job_steps (job_id, name, kind, state, attempt, request, provider_key, value, started_at, ended_at)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
     ON CONFLICT (job_id, name) DO UPDATE SET state = excluded.state, attempt = excluded.attempt, request = excluded.request,
       provider_key = excluded.provider_key, value = excluded.value, ended_at = excluded.ended_at
     WHERE job_steps.kind = excluded.kind AND job_steps.state <> 'done'`,
    params: [id, name, kind, state, attempt, request, key, value, now, state === 'started' ? null : now],
    writes: true,
  }
  return written.length > 0 ? 'recorded' : 'taken'
}

export function* recordIn(now: number, write: TransactionWrite): SqliteWork<RecordOutcome> {
  if ('step' in write) return yield* recordStep(now, write.fence, write.step)
  const { settlement, streams = [] } = write
  // A settlement that does not hold makes its transaction fail, and so these are gone with it.
  if (streams.length > 0 && !(yield* holdsClaim(settlement))) return 'lost'
  for (const piece of streams) yield* append(now, settlement, piece)
  return (yield* settleIn(now, settlement)) ? 'recorded' : 'lost'
}

/** See `NewJob.supersedes`. */
export function inheritEffects(heir: string, old: string): Step {
  // Both by primary key.
  return {
    writes: true,
    sql: `INSERT INTO job_steps (job_id, name, kind, state, attempt, request, provider_key, value, started_at, ended_at)
     SELECT ?1, name, kind, state, attempt, request, provider_key, value, started_at, ended_at FROM job_steps
     WHERE job_id = ?2 AND kind = 'effect'
       AND EXISTS (SELECT 1 FROM jobs WHERE id = ?2 AND superseded_by = ?1 AND status IN ('failed', 'canceled'))
     ORDER BY rowid`,
    params: [heir, old],
  }
}

export function resolveStep(
  sql: Sql,
  { id, finishedAt }: FailedJob,
  { name, state, value }: Pick<NewStep, 'name' | 'state' | 'value'>,
  by: string | null,
): boolean {
  const [resolved] = sql.all(
    `UPDATE job_steps SET state = ?3, value = ?4, ended_at = ?5, attempt = ${BY_PERSON}
     WHERE job_id = ?1 AND name = ?2 AND kind = 'effect' AND (state = 'started' OR attempt = ${BY_PERSON})
       AND EXISTS (SELECT 1 FROM jobs
         WHERE id = ?1 AND status IN ('failed', 'canceled') AND superseded_by IS NULL AND finished_at IS ?6)
     RETURNING (SELECT attempts FROM jobs WHERE id = ?1) AS attempts`,
    id,
    name,
    state,
    value,
    sql.now,
    finishedAt,
  )
  if (!resolved) return false
  addEvent(sql, id, { kind: 'resolved', attempt: resolved[0] as number, ...resolution(name, state, by) })
  return true
}
