/**
 * What is remembered of steps, effects and checkpoints. The claim's row is locked, so that nobody settles it as lost before the
 * transaction of the write is over. A name that is done, or of another kind, is left as it is. Rows are found by primary key.
 */
import { JobtableError } from '../../errors.js'
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
import { notOpen } from '../../transactions/not-open.js'
import type { Work } from '../../transactions/transaction.js'
import { resolution } from '../resolution.js'
import type { Text } from './dialect.js'
import { moment } from './row.js'
import { HOLDS, reportAll, settleAll } from './settle.js'

const STEPS = `
SELECT name, kind, state, attempt, request::text, provider_key, value::text, date_part('epoch', started_at) * 1000 AS started_at_ms,
  date_part('epoch', ended_at) * 1000 AS ended_at_ms
FROM {steps} WHERE job_id = $1 ORDER BY seq`

export function* stepsOf(text: Text, jobId: string): Work<StepRow[]> {
  const rows = yield { sql: text(STEPS), params: [jobId] }
  return rows.map(([name, kind, state, attempt, request, key, value, startedAt, endedAt]) => ({
    jobId,
    name: name as string,
    kind: kind as StepKind,
    state: state as StepState,
    attempt: attempt as number,
    request: request as string | null,
    key: key as string | null,
    value: value as string | null,
    startedAt: moment(startedAt),
    endedAt: endedAt === null ? null : moment(endedAt),
  }))
}

/** Of a transaction that is to be the same one at the next statement: each statement that is committed by itself has its own. */
const LOOK = `SELECT pg_current_xact_id()::text AS transaction`
const OTHER = (transaction: string): string =>
  `CASE WHEN ${transaction}::text IS NOT NULL THEN pg_current_xact_id()::text <> ${transaction}::text ELSE false END`

/** Parameters are texts: some libraries know no other way to say which type a null is of. */
const RECORD = `
WITH held AS MATERIALIZED (
  SELECT jobs.id FROM {jobs} AS jobs WHERE jobs.id = $1::text AND ${HOLDS('$2::text')}
    AND NOT (${OTHER('$10')}) FOR NO KEY UPDATE OF jobs
), written AS (
  INSERT INTO {steps} AS steps (job_id, name, kind, state, attempt, request, provider_key, value, started_at, ended_at)
  SELECT held.id, $3::text, $4::text, $5::text, $6::int, $7::text::json, $8::text, $9::text::json, {now},
    CASE WHEN $5::text <> 'started' THEN {now} END
  FROM held
  ON CONFLICT (job_id, name) DO UPDATE SET state = excluded.state, attempt = excluded.attempt, request = excluded.request,
    provider_key = excluded.provider_key, value = excluded.value, ended_at = excluded.ended_at
  WHERE steps.kind = excluded.kind AND steps.state <> 'done'
  RETURNING steps.name
)
SELECT (SELECT count(*) FROM held)::int AS held, (SELECT count(*) FROM written)::int AS written, ${OTHER('$10')} AS other`

/** Where a transaction is given, in that one only. */
export function* recordStep(
  text: Text,
  { id, token }: Fence,
  step: NewStep,
  transaction: string | null = null,
): Work<RecordOutcome> {
  const { name, kind, state, attempt, request, key, value } = step
  const params = [id, token, name, kind, state, attempt, request, key, value, transaction]
  const [counts] = yield { sql: text(RECORD), params }
  if (counts![2] === true) throw notOpen(TAKEN)
  if (counts![0] === 0) return 'lost'
  return counts![1] === 0 ? 'taken' : 'recorded'
}

/** By primary key. */
const IS_HERE = `SELECT jobs.id FROM {jobs} AS jobs WHERE jobs.id = $1::text`
/** As the trigger of inserts does, but of a state. */
const ANNOUNCE = `SELECT pg_notify({channel}, 'state')::text AS told, ${OTHER('$1')} AS other`

const TAKEN = 'tx is not what it is taken for'

/** In a transaction that others commit; they are told by the commit. `tells` where it is known to be open. */
export function* recordIn(text: Text, write: TransactionWrite, tells: boolean): Work<RecordOutcome> {
  const transaction = tells ? null : ((yield { sql: LOOK, params: [] })[0]![0] as string)
  const outcome = yield* recordAny(text, write, transaction)
  const { id } = 'step' in write ? write.fence : write.settlement
  if (outcome === 'lost' && (yield { sql: text(IS_HERE), params: [id] }).length === 0) {
    throw new JobtableError(
      'config_invalid',
      `tx is a transaction of another database: there is no job ${id} in the one that it is in; pass one of the database that the queue is in`,
    )
  }
  return outcome
}

function* recordAny(text: Text, write: TransactionWrite, transaction: string | null): Work<RecordOutcome> {
  if ('step' in write) return yield* recordStep(text, write.fence, write.step, transaction)
  const { settlement, streams = [] } = write
  // Nobody is told before the commit, and never of a settlement that does not hold.
  const [told] = yield { sql: text(ANNOUNCE), params: [transaction] }
  if (told![1] === true) throw notOpen(TAKEN)
  // What is appended without a claim is nothing, and what is settled without one is told as lost.
  const { id, token } = settlement
  if (streams.length > 0) yield* reportAll(text, [{ id, token, streams }], 'patient')
  const [outcome] = yield* settleAll(text, [settlement], 'patient')
  return outcome === 'settled' ? 'recorded' : 'lost'
}

/** Fails, so that the transaction can only be rolled back, whatever its owner makes of the error. */
export function* spoil(reason: RecordOutcome): Work<void> {
  yield {
    sql: `SELECT ('jobtable: this transaction must not be committed, its write was ' || $1::text)::int AS spoilt`,
    params: [reason],
  }
}

/** Both by primary key, in the order in which they began. */
const INHERIT = `
INSERT INTO {steps} (job_id, name, kind, state, attempt, request, provider_key, value, started_at, ended_at)
SELECT $1::text, steps.name, steps.kind, steps.state, steps.attempt, steps.request, steps.provider_key, steps.value,
  steps.started_at, steps.ended_at
FROM {steps} AS steps
WHERE steps.job_id = $2::text AND steps.kind = 'effect'
  AND EXISTS (SELECT 1 FROM {jobs} AS jobs WHERE jobs.id = $2::text AND jobs.status IN ('failed', 'canceled'))
ORDER BY steps.seq`

/** See `NewJob.supersedes`. The old job's row is locked by its release. */
export function* inheritEffects(text: Text, heir: string, old: string): Work<void> {
  yield { sql: text(INHERIT), params: [heir, old] }
}

const RESOLVE = `
WITH over AS MATERIALIZED (
  SELECT jobs.id, jobs.attempts FROM {jobs} AS jobs
  WHERE jobs.id = $1 AND CASE WHEN jobs.status IN ('failed', 'canceled') AND jobs.superseded_by IS NULL THEN true END
    AND round(date_part('epoch', jobs.finished_at) * 1000) IS NOT DISTINCT FROM $7::float8
  FOR NO KEY UPDATE OF jobs
), resolved AS (
  UPDATE {steps} AS steps SET state = $3, value = $4::text::json, ended_at = {now}, attempt = ${BY_PERSON}
  FROM over WHERE steps.job_id = over.id AND steps.name = $2 AND steps.kind = 'effect'
    AND (steps.state = 'started' OR steps.attempt = ${BY_PERSON})
  RETURNING over.attempts
)
INSERT INTO {events} (job_id, at, kind, attempt, message, data)
SELECT $1, {now}, 'resolved', resolved.attempts, $5, $6::text::jsonb FROM resolved
RETURNING job_id`

export function* resolveStep(
  text: Text,
  { id, finishedAt }: FailedJob,
  { name, state, value }: Pick<NewStep, 'name' | 'state' | 'value'>,
  by: string | null,
): Work<boolean> {
  const { message, data } = resolution(name, state, by)
  return (yield { sql: text(RESOLVE), params: [id, name, state, value, message, data, finishedAt] }).length > 0
}
