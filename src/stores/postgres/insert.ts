/**
 * Enqueueing. All jobs of a call go into one statement as one JSON text, a parameter that every library passes on unchanged, so
 * that the same statements serve in the product's own transaction.
 *
 * A row that is in the way, by its id or its key, is waited for while its transaction goes on, and then left in place: nothing
 * here makes a transaction fail. Rows go in by the order of their keys, so that two calls with the same keys do not wait for
 * each other in a circle.
 */
import type { InsertOutcome, JobRow, NewJob } from '../../store.js'
import type { Work } from '../../transactions/transaction.js'
import { newRow } from '../new-row.js'
import type { Text } from './dialect.js'
import { checkIdentity, IDENTITY } from './identity.js'
import { columnsOf, moment, toRow } from './row.js'
import { inheritEffects } from './steps.js'

/** How often the holder of a key may be gone by the time one looks at it. */
const MOST_ROUNDS = 20

const COLUMNS_AND_VALUES = `
INSERT INTO {jobs} (id, type, queue, payload, priority, max_attempts, run_after, idempotency_key, fingerprint, trace_context,
  created_at, updated_at)
SELECT job.id, job.type, job.queue, coalesce(job.payload::jsonb, 'null'), coalesce(job.priority, 0), job.max_attempts,
  CASE WHEN job.at IS NULL AND job.delay IS NULL THEN {now}
    ELSE to_timestamp(least(greatest(coalesce(job.at, date_part('epoch', {now}) * 1000 + job.delay), 0), 8.64e15) / 1000) END,
  job.idempotency_key, job.fingerprint, job.trace_context, {now}, {now}
FROM json_to_recordset($1::text::json) AS job (id text, type text, queue text, payload json, priority int, max_attempts int,
  delay float8, at float8, idempotency_key text, fingerprint text, trace_context text, position int)`

/** Inserts the rows that nothing stands against; both conflicts, on the primary key and on jobs_key, are passed over. */
const INSERT = `${COLUMNS_AND_VALUES}
ORDER BY job.idempotency_key, job.type, job.position
ON CONFLICT DO NOTHING
RETURNING id, date_part('epoch', created_at) * 1000 AS created, date_part('epoch', run_after) * 1000 AS due`

/** Inserts rows that nothing can stand against, but for a taken id, of which it fails. That saves a fifth of the server's time. */
const INSERT_PLAIN = `WITH inserted AS (${COLUMNS_AND_VALUES})
SELECT date_part('epoch', {now}) * 1000 AS now`

/** The trigger keeps quiet in this transaction: whoever runs the statement tells the watchers after its commit. */
const quietly = (insert: string): string =>
  insert.replace('FROM json_to_recordset', `FROM set_config('jobtable.quiet', 'on', true), json_to_recordset`)

/** In a transaction that may be of another database, where nothing is inserted then. */
const INSERT_HERE = INSERT.replace('ORDER BY', `WHERE ${IDENTITY} = $2::text\nORDER BY`)

const INSERT_QUIETLY = quietly(INSERT)
const INSERT_PLAIN_QUIETLY = quietly(INSERT_PLAIN)

/** By primary key: the old holder lets go of its key, unless the new row's id is taken. */
const RELEASE = `
UPDATE {jobs} SET superseded_by = $1, updated_at = {now}, rev = rev + 1
WHERE id = $2 AND status = $3 AND type = $4 AND idempotency_key = $5 AND superseded_by IS NULL
  AND NOT EXISTS (SELECT 1 FROM {jobs} AS taken WHERE taken.id = $1)
RETURNING 1`

/** By primary key: takes a release back whose new row could not be inserted after all. */
const TAKE_BACK = `
UPDATE {jobs} SET superseded_by = NULL WHERE id = $1 AND superseded_by = $2`

/** For each job the row with its id, by primary key, and the row that holds its key, by jobs_key. */
const OBSTACLES = `
SELECT same.id IS NOT NULL AS id_taken, date_part('epoch', {now}) * 1000 AS now, ${IDENTITY} AS identity, ${columnsOf('holder.')}
FROM json_to_recordset($1::text::json) AS job (id text, type text, idempotency_key text, position int)
LEFT JOIN {jobs} AS same ON same.id = job.id
LEFT JOIN {jobs} AS holder ON holder.idempotency_key = job.idempotency_key AND holder.type = job.type
  AND holder.idempotency_key IS NOT NULL AND holder.superseded_by IS NULL
ORDER BY job.position`

/** Whether its statements must be one transaction. */
export function needsTransaction(jobs: readonly NewJob[]): boolean {
  return jobs.some(({ supersedes }) => supersedes !== null)
}

interface Insertion {
  sql: string
  /** Of the database that the jobs must come into; undefined where there is no doubt, or none can be cleared up. */
  identity: string | undefined
}

export function* insertAll(
  text: Text,
  jobs: readonly NewJob[],
  { quiet, identity }: { quiet: boolean; identity?: string | undefined },
): Work<InsertOutcome[]> {
  const insertion = { sql: text(identity !== undefined ? INSERT_HERE : quiet ? INSERT_QUIETLY : INSERT), identity }
  if (!mustGoSingly(jobs)) return yield* insertTogether(text, insertion, jobs)
  if (identity !== undefined) checkIdentity((yield { sql: text(`SELECT ${IDENTITY} AS identity`), params: [] })[0]!, identity)
  const outcomes: InsertOutcome[] = []
  for (const job of jobs) outcomes.push(yield* insertAlone(text, insertion, job))
  return outcomes
}

/** Whether only a taken id can stand against any of them. */
export function isPlain(jobs: readonly NewJob[]): boolean {
  return jobs.every(({ idempotencyKey, supersedes }) => idempotencyKey === null && supersedes === null)
}

/** Inserts plain jobs. A taken id makes the whole statement fail with a unique violation, and `insertAll` tells which it was. */
export function* insertPlain(text: Text, jobs: readonly NewJob[], options: { quiet: boolean }): Work<InsertOutcome[]> {
  const rows = yield {
    hot: true,
    sql: text(options.quiet ? INSERT_PLAIN_QUIETLY : INSERT_PLAIN),
    params: [`[${jobs.map((job, position) => forSql({ job, position })).join(',')}]`],
  }
  const now = moment(rows[0]![0])
  return jobs.map((job) => ({ type: 'inserted', row: newRow(job, now, dueOf(job, now)) }))
}

/** As the statement computes it. */
function dueOf({ runAfter }: NewJob, now: number): number {
  return Math.min(8.64e15, Math.max(0, 'at' in runAfter ? Math.round(runAfter.at) : now + Math.round(runAfter.delayMs)))
}

/** What one of them does to the next would come out in another order if they went together. */
function mustGoSingly(jobs: readonly NewJob[]): boolean {
  return needsTransaction(jobs) || new Set(jobs.map(({ id }) => id)).size < jobs.length
}

function* insertAlone(text: Text, insertion: Insertion, job: NewJob): Work<InsertOutcome> {
  const released = job.supersedes !== null && (yield* release(text, job, job.supersedes))
  const [outcome] = yield* insertTogether(text, insertion, [job])
  if (released && outcome!.type === 'inserted') yield* inheritEffects(text, job.id, job.supersedes!.id)
  else if (released) yield { sql: text(TAKE_BACK), params: [job.supersedes!.id, job.id] }
  return outcome!
}

function* release(text: Text, job: NewJob, old: { id: string; status: string }): Work<boolean> {
  const params = [job.id, old.id, old.status, job.type, job.idempotencyKey]
  return (yield { sql: text(RELEASE), params }).length > 0
}

function* insertTogether(text: Text, { sql, identity }: Insertion, jobs: readonly NewJob[]): Work<InsertOutcome[]> {
  const outcomes: (InsertOutcome | undefined)[] = Array.from(jobs, () => undefined)
  let open = jobs.map((job, position) => ({ job, position }))
  for (let round = 0; open.length > 0; round++) {
    if (round === MOST_ROUNDS) throw new Error('the holders of these keys are gone each time that one looks')
    const params = [`[${open.map(forSql).join(',')}]`, ...(identity === undefined ? [] : [identity])]
    const rows = yield { hot: true, sql, params }
    const times = new Map(rows.map(([id, created, due]) => [id as string, [moment(created), moment(due)] as const]))
    for (const { job, position } of open) {
      const [createdAt, runAfter] = times.get(job.id) ?? []
      if (createdAt !== undefined) outcomes[position] = { type: 'inserted', row: newRow(job, createdAt, runAfter!) }
    }
    open = open.filter(({ position }) => outcomes[position] === undefined)
    if (open.length > 0) open = yield* lookAtObstacles(text, open, outcomes, identity)
  }
  return outcomes as InsertOutcome[]
}

interface Open {
  job: NewJob
  position: number
}

/** Answers with those whose obstacle is gone. */
function* lookAtObstacles(
  text: Text,
  open: Open[],
  outcomes: (InsertOutcome | undefined)[],
  identity: string | undefined,
): Work<Open[]> {
  const asked = open.map(({ job: { id, type, idempotencyKey }, position }) => ({
    id,
    type,
    idempotency_key: idempotencyKey,
    position,
  }))
  const rows = yield { sql: text(OBSTACLES), params: [JSON.stringify(asked)] }
  checkIdentity(rows[0]!, identity, 2)
  return open.filter(({ job, position }, i) => {
    const values = rows[i]!
    const idTaken = values[0] as boolean
    const holder = values[3] === null ? undefined : toRow(values, 3)
    const isOwnRow = holder?.id === job.id
    if (holder && (isOwnRow ? !supersedesItself(job, holder) : !idTaken))
      outcomes[position] = { type: 'held', holder, now: moment(values[1]) }
    else if (idTaken) outcomes[position] = { type: 'id_taken' }
    return outcomes[position] === undefined
  })
}

/** Its id being taken, a job cannot replace the row that has it. */
function supersedesItself({ id, supersedes }: NewJob, holder: JobRow): boolean {
  return supersedes?.id === id && supersedes.status === holder.status
}

/** What is zero is left out: the server reads each member. */
function forSql({ job, position }: Open): string {
  const rest = JSON.stringify({
    id: job.id,
    type: job.type,
    queue: job.queue,
    priority: job.priority || undefined,
    max_attempts: job.maxAttempts ?? undefined,
    delay: 'at' in job.runAfter ? undefined : Math.round(job.runAfter.delayMs) || undefined,
    at: 'at' in job.runAfter ? Math.round(job.runAfter.at) : undefined,
    idempotency_key: job.idempotencyKey ?? undefined,
    // Of jobs with one key the first is to have it.
    position: job.idempotencyKey === null ? undefined : position,
    fingerprint: job.fingerprint ?? undefined,
    trace_context: job.traceContext ?? undefined,
  })
  // The payload is JSON already. Of a JSON null the database makes no value at all, and the statement a JSON null again.
  return `${rest.slice(0, -1)},"payload":${job.payload}}`
}
