/** Leases. One row per worker carries the lease of all its claims, so that a heartbeat is one write whatever it holds. */
import type { HeartbeatReply, JobRow, WorkerInfo, WorkerList } from '../../store.js'
import type { Values, Work } from '../../transactions/transaction.js'
import { array } from './array.js'
import type { Text } from './dialect.js'
import { columnsOf, moment, toRow } from './row.js'

const LEASE_END = (leaseMs: string): string =>
  `to_timestamp(least(greatest(date_part('epoch', {now}) * 1000 + ${leaseMs}::float8, 0), 8.64e15) / 1000)`

/** By primary key. A lease that ran out is not extended: its claims may be somebody else's by now. The claims by jobs_running. */
const HEARTBEAT = `
WITH extended AS (
  UPDATE {workers} SET heartbeat_at = {now}, lease_until = ${LEASE_END('$2')} WHERE id = $1 AND lease_until > {now} RETURNING id
)
SELECT jobs.id, jobs.claim_token, jobs.cancel_requested_at IS NOT NULL
FROM extended LEFT JOIN {jobs} AS jobs ON jobs.status = 'running' AND jobs.locked_by = extended.id AND jobs.claim_token IS NOT NULL`

const REGISTER = `
INSERT INTO {workers} (id, host, pid, process, queues, types, concurrency, started_at, heartbeat_at, lease_until)
VALUES ($1, $2, $3, $4, $5::text::jsonb, $6::text::jsonb, $7, {now}, {now}, ${LEASE_END('$8')})`

const RETIRE = `DELETE FROM {workers} WHERE id = $1`

/** Walks jobs_running and asks job_workers by primary key. What another transaction has locked, perhaps to settle it, is passed over. */
const LOST = `
SELECT ${columnsOf('jobs.')} FROM {jobs} AS jobs
WHERE jobs.status = 'running' AND ($2::text[] IS NULL OR jobs.type = ANY ($2::text[])) AND NOT EXISTS (
  SELECT 1 FROM {workers} AS workers WHERE workers.id = jobs.locked_by AND workers.lease_until > {now})
ORDER BY jobs.locked_at, jobs.id LIMIT $1 FOR NO KEY UPDATE OF jobs SKIP LOCKED`

/** By jobs_running for each dead worker. */
const DEAD = `
lease_until <= {now} AND NOT EXISTS (SELECT 1 FROM {jobs} AS jobs WHERE jobs.status = 'running' AND jobs.locked_by = workers.id)`

const HAS_DEAD = `SELECT 1 FROM {workers} AS workers WHERE ${DEAD} LIMIT 1`
const REMOVE_DEAD = `
DELETE FROM {workers} WHERE id IN (SELECT id FROM {workers} AS workers WHERE ${DEAD} ORDER BY id FOR UPDATE SKIP LOCKED)`

const ALL = `
SELECT date_part('epoch', {now}) * 1000, workers.id, host, pid, process, queues::text, types::text, concurrency,
  date_part('epoch', started_at) * 1000, date_part('epoch', heartbeat_at) * 1000, date_part('epoch', lease_until) * 1000
FROM (VALUES (1)) AS one LEFT JOIN {workers} AS workers ON true
ORDER BY started_at, workers.id`

export function* beat(text: Text, workerId: string, leaseMs: number): Work<HeartbeatReply> {
  const rows = yield { hot: true, sql: text(HEARTBEAT), params: [workerId, leaseMs] }
  if (rows.length === 0) return { alive: false }
  const claims = rows.filter(([id]) => id !== null)
  return {
    alive: true,
    claims: claims.map(([id, token, requested]) => ({
      id: id as string,
      token: token as string,
      cancelRequested: requested as boolean,
    })),
  }
}

export function* addWorker(text: Text, worker: WorkerInfo, leaseMs: number): Work<void> {
  const { id, host, pid, process, queues, types, concurrency } = worker
  yield {
    sql: text(REGISTER),
    params: [id, host, pid, process, JSON.stringify(queues), JSON.stringify(types), concurrency, leaseMs],
  }
}

export function* removeWorker(text: Text, workerId: string): Work<void> {
  yield { sql: text(RETIRE), params: [workerId] }
}

/** A write that changes nothing of worth: its commit waits for the disk, and takes along what was written before it. */
export function* touchWorker(text: Text, workerId: string): Work<void> {
  yield { sql: text(`UPDATE {workers} SET heartbeat_at = heartbeat_at WHERE id = $1`), params: [workerId] }
}

export function* lostClaims(text: Text, limit: number, types: readonly string[] | undefined): Work<JobRow[]> {
  const rows = yield { sql: text(LOST), params: [Math.max(0, limit), types ? array(types) : null] }
  if ((yield { sql: text(HAS_DEAD), params: [] }).length > 0) yield { sql: text(REMOVE_DEAD), params: [] }
  return rows.map((values) => toRow(values))
}

export function* allWorkers(text: Text): Work<WorkerList> {
  const rows = yield { sql: text(ALL), params: [] }
  return { now: moment(rows[0]![0]), workers: rows.filter(([, id]) => id !== null).map(toWorker) }
}

function toWorker(values: Values): WorkerList['workers'][number] {
  return {
    id: values[1] as string,
    host: values[2] as string,
    pid: values[3] as number,
    process: values[4] as string | null,
    queues: JSON.parse(values[5] as string) as string[],
    types: JSON.parse(values[6] as string) as string[],
    concurrency: values[7] as number,
    startedAt: moment(values[8]),
    heartbeatAt: moment(values[9]),
    leaseUntil: moment(values[10]),
  }
}
