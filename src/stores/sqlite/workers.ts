/** Leases. One row per worker carries the lease of all its claims, so that a heartbeat is one write whatever it holds. */
import type { HeartbeatReply, JobRow, WorkerInfo, WorkerList, WorkerRow } from '../../store.js'
import { moment, type Sql } from './database.js'
import type { SqlRow } from './driver.js'
import { COLUMNS, toRow } from './row.js'

export function beat(sql: Sql, workerId: string, leaseMs: number): HeartbeatReply {
  // By primary key. A lease that ran out is not extended: its claims may be somebody else's by now.
  const extended = sql.run(
    `UPDATE job_workers SET heartbeat_at = ?2, lease_until = ?3 WHERE id = ?1 AND lease_until > ?2`,
    workerId,
    sql.now,
    moment(sql.now + leaseMs),
  )
  if (extended === 0) return { alive: false }
  // By jobs_running.
  const claims = sql.all(
    `SELECT id, claim_token, cancel_requested_at IS NOT NULL FROM jobs
     WHERE status = 'running' AND locked_by = ? AND claim_token IS NOT NULL`,
    workerId,
  )
  return {
    alive: true,
    claims: claims.map(([id, token, requested]) => ({
      id: id as string,
      token: token as string,
      cancelRequested: requested === 1,
    })),
  }
}

export function addWorker(sql: Sql, worker: WorkerInfo, leaseMs: number): void {
  sql.run(
    `INSERT INTO job_workers (id, host, pid, process, queues, types, concurrency, started_at, heartbeat_at, lease_until)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8, ?9)`,
    worker.id,
    worker.host,
    worker.pid,
    worker.process,
    JSON.stringify(worker.queues),
    JSON.stringify(worker.types),
    worker.concurrency,
    sql.now,
    moment(sql.now + leaseMs),
  )
}

/** By primary key. */
export function hasLease(sql: Sql, workerId: string): boolean {
  return sql.all(`SELECT 1 FROM job_workers WHERE id = ? AND lease_until > ?`, workerId, sql.now).length === 1
}

/** A write that changes nothing of worth: its commit waits for the disk, and takes along what was written before it. */
export function touchWorker(sql: Sql, workerId: string): void {
  sql.run(`UPDATE job_workers SET heartbeat_at = heartbeat_at WHERE id = ?`, workerId)
}

export function removeWorker(sql: Sql, workerId: string): void {
  sql.run(`DELETE FROM job_workers WHERE id = ?`, workerId)
}

export function lostClaims(sql: Sql, limit: number, types: readonly string[] | undefined): JobRow[] {
  // The inner SELECT walks jobs_running, without the rows themselves, and asks job_workers by primary key.
  const rows = sql.all(
    `SELECT ${COLUMNS} FROM jobs
     WHERE rowid IN (
       SELECT rowid FROM jobs
       WHERE status = 'running' AND NOT EXISTS (
         SELECT 1 FROM job_workers WHERE job_workers.id = jobs.locked_by AND job_workers.lease_until > ?1))
       AND (?3 IS NULL OR type IN (SELECT value FROM json_each(?3)))
     ORDER BY locked_at, rowid LIMIT ?2`,
    sql.now,
    limit,
    types === undefined ? null : JSON.stringify(types),
  )
  return rows.map(toRow)
}

/** Whether there are dead workers without claims; takes no lock. */
export function hasDeadWorkers(sql: Sql): boolean {
  const found = sql.all(
    `SELECT 1 FROM job_workers
     WHERE lease_until <= ? AND NOT EXISTS (SELECT 1 FROM jobs WHERE status = 'running' AND locked_by = job_workers.id)
     LIMIT 1`,
    sql.now,
  )
  return found.length > 0
}

export function removeDeadWorkers(sql: Sql): void {
  sql.run(
    // By jobs_running for each dead worker.
    `DELETE FROM job_workers
     WHERE lease_until <= ? AND NOT EXISTS (SELECT 1 FROM jobs WHERE status = 'running' AND locked_by = job_workers.id)`,
    sql.now,
  )
}

export function allWorkers(sql: Sql): WorkerList {
  const rows = sql.all(
    `SELECT id, host, pid, process, queues, types, concurrency, started_at, heartbeat_at, lease_until FROM job_workers
     ORDER BY started_at, id`,
  )
  return { now: sql.now, workers: rows.map(toWorker) }
}

function toWorker(values: SqlRow): WorkerRow {
  return {
    id: values[0] as string,
    host: values[1] as string,
    pid: values[2] as number,
    process: values[3] as string | null,
    queues: JSON.parse(values[4] as string) as string[],
    types: JSON.parse(values[5] as string) as string[],
    concurrency: values[6] as number,
    startedAt: values[7] as number,
    heartbeatAt: values[8] as number,
    leaseUntil: values[9] as number,
  }
}
