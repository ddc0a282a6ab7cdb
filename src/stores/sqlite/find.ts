/**
 * Lists and counts. They read the table newest first by rowid, which is the order of creation, so that they need no index
 * of their own. They do so in slices of rowids and let other work in between: a big table is read without stopping the
 * event loop, and without one long read transaction that would keep the log from being cut.
 */
import { setImmediate as breathe } from 'node:timers/promises'
import type { CountRow, JobEvent, JobFilter, JobRow } from '../../store.js'
import type { Status } from '../../transition.js'
import type { Database, Sql } from './database.js'
import type { SqlValue } from './driver.js'
import { COLUMNS, HELD, toRow } from './row.js'

const SLICE = 5_000

/** One fixed text, whatever the filter: an absent part is null. Reads ?1 to ?8. */
const MATCHES = `(?1 IS NULL OR status IN (SELECT value FROM json_each(?1)))
  AND (?2 IS NULL OR type IN (SELECT value FROM json_each(?2)))
  AND (?3 IS NULL OR queue IN (SELECT value FROM json_each(?3)))
  AND (?4 IS NULL OR idempotency_key = ?4)
  AND (?5 IS NULL OR instr(jobtable_fold(last_error), ?5) > 0)
  AND (?6 IS NULL OR created_at <= ?6)
  AND (?7 IS NULL OR created_at >= ?7)
  AND (?8 IS NULL OR (${HELD}) = ?8)`

type Conditions = [SqlValue, SqlValue, SqlValue, SqlValue, SqlValue, SqlValue, SqlValue, SqlValue]

function conditions(filter: JobFilter, now: number): Conditions {
  return [
    filter.status ? JSON.stringify(filter.status) : null,
    filter.type ? JSON.stringify(filter.type) : null,
    filter.queue ? JSON.stringify(filter.queue) : null,
    filter.idempotencyKey ?? null,
    filter.errorContains === undefined ? null : filter.errorContains.toLowerCase(),
    filter.olderThanMs === undefined ? null : now - filter.olderThanMs,
    filter.youngerThanMs === undefined ? null : now - filter.youngerThanMs,
    filter.held === undefined ? null : Number(filter.held),
  ]
}

export async function list(database: Database, filter: JobFilter, page: { limit: number; before?: string }): Promise<JobRow[]> {
  if (page.limit <= 0) return []
  const rows: JobRow[] = []
  const few = await database.read((sql) => candidates(sql, filter))
  const before = await database.read((sql) => boundary(sql, page.before))
  if (few !== undefined) {
    return database.read((sql) => {
      const found = sql.all(
        // By rowid.
        `SELECT ${COLUMNS} FROM jobs
         WHERE rowid IN (SELECT value FROM json_each(?9)) AND rowid < ?10 AND ${MATCHES}
         ORDER BY rowid DESC LIMIT ?11`,
        ...conditions(filter, sql.now),
        few,
        before,
        page.limit,
      )
      return found.map(toRow)
    })
  }
  await eachSlice(database, before, (sql, low, high) => {
    const found = sql.all(
      // By rowid, newest first.
      `SELECT ${COLUMNS} FROM jobs WHERE rowid > ?9 AND rowid <= ?10 AND ${MATCHES} ORDER BY rowid DESC LIMIT ?11`,
      ...conditions(filter, sql.now),
      low,
      high,
      page.limit - rows.length,
    )
    for (const values of found) rows.push(toRow(values))
    return rows.length < page.limit
  })
  return rows
}

export async function count(database: Database, filter: JobFilter): Promise<number> {
  const few = await database.read((sql) => candidates(sql, filter))
  if (few !== undefined) {
    return database.read((sql) => {
      const found = sql.all(
        // By rowid.
        `SELECT count(*) FROM jobs WHERE rowid IN (SELECT value FROM json_each(?9)) AND ${MATCHES}`,
        ...conditions(filter, sql.now),
        few,
      )
      return found[0]![0] as number
    })
  }
  let total = 0
  await eachSlice(database, Number.MAX_SAFE_INTEGER, (sql, low, high) => {
    const found = sql.all(
      // By rowid.
      `SELECT count(*) FROM jobs WHERE rowid > ?9 AND rowid <= ?10 AND ${MATCHES}`,
      ...conditions(filter, sql.now),
      low,
      high,
    )
    total += found[0]![0] as number
    return true
  })
  return total
}

export async function countAll(database: Database): Promise<CountRow[]> {
  const groups = new Map<string, CountRow>()
  await eachSlice(database, Number.MAX_SAFE_INTEGER, (sql, low, high) => {
    const found = sql.all(
      // By rowid.
      `SELECT type, queue, status, count(*), sum(status IN ('pending', 'retrying') AND run_after <= ?3), min(run_after)
       FROM jobs WHERE rowid > ?1 AND rowid <= ?2 GROUP BY type, queue, status`,
      low,
      high,
      sql.now,
    )
    for (const [type, queue, status, rows, due, oldest] of found as [string, string, Status, number, number, number][]) {
      const name = JSON.stringify([type, queue, status])
      const group = groups.get(name)
      if (!group) groups.set(name, { type, queue, status, count: rows, due, oldestRunAfter: oldest })
      else {
        group.count += rows
        group.due += due
        group.oldestRunAfter = Math.min(group.oldestRunAfter, oldest)
      }
    }
    return true
  })
  return [...groups.values()]
}

export function eventsOf(sql: Sql, jobId: string): JobEvent[] {
  const rows = sql.all(
    // By job_events_job, whose rowids are in order.
    `SELECT at, kind, attempt, message, data FROM job_events WHERE job_id = ? ORDER BY seq`,
    jobId,
  )
  return rows.map(([at, kind, attempt, message, data]) => ({
    jobId,
    at: at as number,
    kind: kind as JobEvent['kind'],
    attempt: attempt as number,
    message: message as string,
    data: data as string | null,
  }))
}

/** The rowids of the few rows that a filter by id, by key or for what is held leaves, as JSON; undefined when the filter has none of them. */
function candidates(sql: Sql, filter: JobFilter): string | undefined {
  const byId =
    filter.ids &&
    // By primary key.
    sql.all(`SELECT rowid FROM jobs WHERE id IN (SELECT value FROM json_each(?))`, JSON.stringify(filter.ids))
  if (byId) return JSON.stringify(byId.flat())
  if (filter.idempotencyKey === undefined) return filter.held ? inDoubt(sql) : undefined
  const byKey = sql.all(
    // By jobs_key for the holder, by jobs_superseded for those before it.
    `SELECT rowid FROM jobs WHERE idempotency_key = ?1 AND idempotency_key IS NOT NULL AND superseded_by IS NULL
     UNION ALL
     SELECT rowid FROM jobs WHERE idempotency_key = ?1 AND superseded_by IS NOT NULL`,
    filter.idempotencyKey,
  )
  return JSON.stringify(byKey.flat())
}

function inDoubt(sql: Sql): string {
  const found = sql.all(
    // By job_steps_started, and by primary key.
    `SELECT jobs.rowid FROM job_steps JOIN jobs ON jobs.id = job_steps.job_id
     WHERE job_steps.kind = 'effect' AND job_steps.state = 'started'`,
  )
  return JSON.stringify(found.flat())
}

/** The rowid that a page stays below. When the row was pruned meanwhile, ids being in order of time tell where it was. */
function boundary(sql: Sql, before: string | undefined): number {
  if (before === undefined) return Number.MAX_SAFE_INTEGER
  const found = sql.all(
    // Both by primary key.
    `SELECT ifnull(
       (SELECT rowid FROM jobs WHERE id = ?1),
       (SELECT rowid + 1 FROM jobs WHERE id < ?1 ORDER BY id DESC LIMIT 1))`,
    before,
  )
  return (found[0]![0] as number | null) ?? 0
}

/** Goes down the table below a rowid until the visitor has enough. Gaps are jumped over by a seek. */
async function eachSlice(
  database: Database,
  below: number,
  visit: (sql: Sql, low: number, high: number) => boolean,
): Promise<void> {
  for (let bound = below; ;) {
    const next = await database.read((sql) => {
      const high = sql.all(`SELECT max(rowid) FROM jobs WHERE rowid < ?`, bound)[0]![0] as number | null
      if (high === null) return undefined
      return visit(sql, high - SLICE, high) ? high - SLICE + 1 : undefined
    })
    if (next === undefined) return
    bound = next
    await breathe()
  }
}
