/** What a visitor has asked for. The job and the note whose it is are one commit. */
import type { EnqueueResult } from 'jobtable'
import type { Transaction } from 'kysely'
import { database, type Tables } from './database.js'

/** As many jobs as the page can show: a token and an address that name them all still fit into a request's headers. */
const SHOWN = 60

export interface Activity {
  job: string
  type: string
  /** What a word of the page says of it: the recipient, the version, the amount; of the model the task and the version, as `summarise/3`. */
  about: string
  asked: number
}

export interface Started {
  job: string
  /** Whether an earlier job answers for it. */
  duplicate: boolean
}

/** Enqueues and notes whose job it is. */
export function start(
  visitor: string,
  about: string,
  enqueue: (tx: Transaction<Tables>) => Promise<EnqueueResult<unknown>>,
): Promise<Started> {
  return database.transaction().execute(async (tx) => {
    const { job, duplicate } = await enqueue(tx)
    await tx
      .insertInto('activity')
      .values({ job: job.id, visitor, type: job.type, about })
      .onConflict((conflict) => conflict.column('job').doUpdateSet((now) => ({ asked: now('activity.asked', '+', 1) })))
      .execute()
    return { job: job.id, duplicate }
  })
}

/** Newest first: ids of jobs grow with time. */
export function activityOf(visitor: string): Promise<Activity[]> {
  return database
    .selectFrom('activity')
    .select(['job', 'type', 'about', 'asked'])
    .where('visitor', '=', visitor)
    .orderBy('job', 'desc')
    .limit(SHOWN)
    .execute()
}

export async function creditsOf(visitor: string): Promise<number> {
  const { sum } = await database
    .selectFrom('ledger')
    .select((row) => row.fn.sum('credits').as('sum'))
    .where('visitor', '=', visitor)
    .executeTakeFirstOrThrow()
  // PostgreSQL gives sums as text.
  return Number(sum ?? 0)
}
