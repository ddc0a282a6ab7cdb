/** Looks for what claims from here would miss; see `claim.ts`. Reads only, on a connection of its own: claims go on meanwhile. */
import type { ClaimRequest } from '../../store.js'
import type { Work } from '../../transactions/transaction.js'
import { array } from './array.js'
import { everyLevel } from './claim.js'
import type { Text } from './dialect.js'
import type { Place } from './places.js'
import { moment } from './row.js'

/** Of each level at most so many are told; the next scout finds the rest. */
const MOST_EARLY = 500

/** By jobs_claimable, from the very beginning of each level to the place that is known there. $2 to $4 are the places. */
const SCOUT = `
WITH RECURSIVE ${everyLevel('$5')},
known AS MATERIALIZED (
  SELECT queue, priority, to_timestamp(run_after / 1000) AS run_after
  FROM unnest($2::text[], $3::int[], $4::float8[]) AS known (queue, priority, run_after)
)
SELECT early.id, level.queue, level.priority, date_part('epoch', early.run_after) * 1000 AS run_after_ms
FROM level LEFT JOIN known ON known.queue = level.queue AND known.priority = level.priority
CROSS JOIN LATERAL (
  SELECT jobs.id, jobs.run_after FROM {jobs} AS jobs
  WHERE jobs.status IN ('pending', 'retrying') AND jobs.queue = level.queue AND jobs.priority = level.priority
    AND jobs.run_after < coalesce(known.run_after, 'infinity') AND jobs.run_after <= {now} AND jobs.type = ANY ($1::text[])
  ORDER BY jobs.run_after, jobs.id LIMIT ${MOST_EARLY}) AS early`

export function* scout(text: Text, { types, queues }: ClaimRequest, known: readonly Place[]): Work<Place[]> {
  const rows = yield {
    hot: true,
    sql: text(SCOUT),
    params: [
      array(types),
      array(known.map(({ queue }) => queue)),
      array(known.map(({ priority }) => priority)),
      array(known.map(({ runAfter }) => runAfter)),
      array(queues),
    ],
  }
  return rows.map(([id, queue, priority, runAfter]) => ({
    id: id as string,
    queue: queue as string,
    priority: priority as number,
    runAfter: moment(runAfter),
  }))
}
