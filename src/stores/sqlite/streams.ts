/**
 * The texts of streams. A claim's first append to a stream replaces what earlier ones have written to it. Every statement finds its rows
 * by primary key, whose last column is the offset: the newest piece of a stream is the last one of its index.
 */
import {
  byName,
  infoOf,
  textOf,
  type StreamAppend,
  type StreamInfo,
  type StreamPlace,
  type StreamText,
} from '../../streams/record.js'
import type { Fence } from '../../store.js'
import type { Status } from '../../transition.js'
import type { Sql } from './database.js'
import type { SqliteWork } from './work.js'

/** For a claim that is held: that is checked in the same transaction. */
export function* append(now: number, { id, token }: Fence, piece: StreamAppend): SqliteWork<void> {
  const { name, offset, text, done } = piece
  const [run] = yield {
    sql: `SELECT CASE WHEN newest.claim_token = ifnull(?3, '') THEN newest.attempt
       ELSE max(jobs.attempts, ifnull(newest.attempt, 0) + 1) END AS run, newest.attempt AS replaced
     FROM jobs LEFT JOIN (
       SELECT attempt, claim_token FROM job_streams WHERE job_id = ?1 AND name = ?2 ORDER BY attempt DESC, "offset" DESC LIMIT 1
     ) AS newest ON true
     WHERE jobs.id = ?1`,
    params: [id, name, token],
  }
  const [attempt, replaced] = run as [number, number | null]
  if (replaced !== null && replaced < attempt) {
    yield {
      sql: `DELETE FROM job_streams WHERE job_id = ?1 AND name = ?2 AND attempt < ?3`,
      params: [id, name, attempt],
      writes: true,
    }
  }
  yield {
    sql: `INSERT INTO job_streams (job_id, name, attempt, "offset", length, text, state, claim_token, at)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ifnull(?8, ''), ?9)
     ON CONFLICT (job_id, name, attempt, "offset") DO NOTHING`,
    params: [id, name, attempt, offset, text.length, text, done ? 'done' : 'open', token, now],
    writes: true,
  }
}

export function streamsOf(sql: Sql, jobId: string): StreamInfo[] {
  const rows = sql.all(
    // The newest piece of each name, of which there are few.
    `SELECT names.name, jobs.status, piece.attempt, piece."offset" + piece.length, piece.state
     FROM (SELECT DISTINCT name FROM job_streams WHERE job_id = ?1) AS names
     JOIN jobs ON jobs.id = ?1
     JOIN job_streams AS piece ON piece.rowid = (
       SELECT rowid FROM job_streams WHERE job_id = ?1 AND name = names.name ORDER BY attempt DESC, "offset" DESC LIMIT 1)`,
    jobId,
  )
  const streams = rows.map(([name, status, attempt, length, state]) =>
    infoOf(name as string, {
      status: status as Status,
      attempt: attempt as number,
      length: length as number,
      ended: state === 'done',
    }),
  )
  return byName(streams)
}

export function readStream(
  sql: Sql,
  jobId: string,
  name: string,
  after: StreamPlace | null,
  limit: number | null,
): StreamText | undefined {
  const rows = sql.all(
    // One statement, so that all of it is of one moment.
    `WITH newest AS (
       SELECT attempt, "offset" + length AS length, state FROM job_streams
       WHERE job_id = ?1 AND name = ?2 ORDER BY attempt DESC, "offset" DESC LIMIT 1
     ), place AS (
       SELECT newest.*, CASE WHEN attempt = ?3 AND length >= ?4 THEN ?4 ELSE 0 END AS start FROM newest
     )
     SELECT jobs.status, place.attempt, place.length, place.state, place.start, piece."offset", piece.text
     FROM jobs CROSS JOIN place LEFT JOIN job_streams AS piece
       ON piece.job_id = ?1 AND piece.name = ?2 AND piece.attempt = place.attempt
       AND piece."offset" >= (
         SELECT max("offset") FROM job_streams
         WHERE job_id = ?1 AND name = ?2 AND attempt = place.attempt AND "offset" <= place.start)
       AND (?5 IS NULL OR piece."offset" <= place.start + ?5)
     WHERE jobs.id = ?1`,
    jobId,
    name,
    after?.attempt ?? null,
    after?.offset ?? null,
    limit,
  )
  if (rows.length === 0) return undefined
  const [status, attempt, length, state, from] = rows[0] as [Status, number, number, string, number]
  // They are read in this order, which nothing but an ORDER BY would promise.
  const pieces = rows.map((row) => ({ offset: row[5] as number, text: row[6] as string })).sort((a, b) => a.offset - b.offset)
  return textOf({ status, attempt, length, ended: state === 'done', from, pieces }, limit)
}
