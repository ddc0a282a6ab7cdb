/** What a queue says when a job cannot be changed as asked. */
import { JobtableError } from './errors.js'
import type { JobRow } from './store.js'

export function statusFinal(row: JobRow, what: 'canceled' | 'retried'): JobtableError {
  const rule = what === 'retried' ? 'only a failed or canceled job can be' : 'it is over'
  return new JobtableError('status_final', `job ${row.id} is ${row.status} and cannot be ${what}: ${rule}`, {
    data: { id: row.id, status: row.status },
  })
}

export function superseded({ id, supersededBy }: JobRow, what: string): JobtableError {
  return new JobtableError(
    'key_superseded',
    `job ${id} ${what}: the newer job ${supersededBy} has taken over its idempotency key; look at that one`,
    { data: { id, supersededBy } },
  )
}
