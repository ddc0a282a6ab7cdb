/**
 * The texts of streams. A claim's first append to a stream replaces what earlier ones have written to it. Rows are found by primary
 * key, whose last column is the offset: the newest piece of a stream is the last one of its index.
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
import type { Work } from '../../transactions/transaction.js'
import type { Status } from '../../transition.js'
import type { Text } from './dialect.js'

/**
 * Part of a report: appends the pieces of the reports in `held`, whose rows are locked. No other claim can have appended since the
 * statement began, for the lock shows that the claim has been held all the time.
 */
export const APPEND = `
, piece AS MATERIALIZED (
  SELECT held.id, coalesce(held.token, '') AS token, held.attempts, piece.*
  FROM held CROSS JOIN LATERAL json_to_recordset(held.streams) AS piece (name text, "offset" int, length int, text text, done boolean)
  WHERE held.streams IS NOT NULL
), run AS MATERIALIZED (
  SELECT one.id, one.name, CASE WHEN newest.claim_token = one.token THEN newest.attempt
    ELSE greatest(one.attempts, coalesce(newest.attempt, 0) + 1) END AS attempt
  FROM (SELECT DISTINCT id, name, token, attempts FROM piece) AS one LEFT JOIN LATERAL (
    SELECT streams.attempt, streams.claim_token FROM {streams} AS streams
    WHERE streams.job_id = one.id AND streams.name = one.name ORDER BY streams.attempt DESC, streams."offset" DESC LIMIT 1
  ) AS newest ON true
), replaced AS (
  DELETE FROM {streams} AS streams USING run
  WHERE streams.job_id = run.id AND streams.name = run.name AND streams.attempt < run.attempt
), appended AS (
  INSERT INTO {streams} (job_id, name, attempt, "offset", length, text, state, claim_token, at)
  SELECT piece.id, piece.name, run.attempt, piece."offset", piece.length, piece.text,
    CASE WHEN piece.done THEN 'done' ELSE 'open' END, piece.token, {now}
  FROM piece JOIN run ON run.id = piece.id AND run.name = piece.name
  ON CONFLICT (job_id, name, attempt, "offset") DO NOTHING
)`

export function piecesForSql(pieces: readonly StreamAppend[]): string {
  return JSON.stringify(pieces.map((piece) => ({ ...piece, length: piece.text.length })))
}

/** The newest piece of each name, of which there are few. */
const STREAMS = `
SELECT names.name, jobs.status, newest.attempt, newest."offset" + newest.length, newest.state
FROM (SELECT DISTINCT streams.name FROM {streams} AS streams WHERE streams.job_id = $1) AS names
JOIN {jobs} AS jobs ON jobs.id = $1
CROSS JOIN LATERAL (
  SELECT streams.attempt, streams."offset", streams.length, streams.state FROM {streams} AS streams
  WHERE streams.job_id = $1 AND streams.name = names.name ORDER BY streams.attempt DESC, streams."offset" DESC LIMIT 1) AS newest`

export function* streamsOf(text: Text, jobId: string): Work<StreamInfo[]> {
  const rows = yield { sql: text(STREAMS), params: [jobId] }
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

/** One statement, so that all of it is of one moment. From the piece that holds the place on. */
const READ = `
WITH newest AS (
  SELECT attempt, "offset" + length AS length, state FROM {streams}
  WHERE job_id = $1 AND name = $2 ORDER BY attempt DESC, "offset" DESC LIMIT 1
), place AS MATERIALIZED (
  SELECT newest.*, CASE WHEN attempt = $3::bigint AND length >= $4::bigint THEN $4::bigint::int ELSE 0 END AS start FROM newest
)
SELECT jobs.status, place.attempt, place.length, place.state, place.start, piece."offset", piece.text
FROM {jobs} AS jobs CROSS JOIN place LEFT JOIN {streams} AS piece
  ON piece.job_id = $1 AND piece.name = $2 AND piece.attempt = place.attempt
  AND piece."offset" >= (
    SELECT max("offset") FROM {streams} WHERE job_id = $1 AND name = $2 AND attempt = place.attempt AND "offset" <= place.start)
  AND ($5::bigint IS NULL OR piece."offset" <= place.start + $5::bigint)
WHERE jobs.id = $1 ORDER BY piece."offset"`

export function* readStream(
  text: Text,
  jobId: string,
  name: string,
  after: StreamPlace | null,
  limit: number | null,
): Work<StreamText | undefined> {
  const params = [jobId, name, after?.attempt ?? null, after?.offset ?? null, limit]
  const rows = yield { hot: true, sql: text(READ), params }
  if (rows.length === 0) return undefined
  const [status, attempt, length, state, from] = rows[0] as [Status, number, number, string, number]
  const pieces = rows.map((row) => ({ offset: row[5] as number, text: row[6] as string }))
  return textOf({ status, attempt, length, ended: state === 'done', from, pieces }, limit)
}
