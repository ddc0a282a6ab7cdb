import type { JobRow } from '../store.js'

/** Which of two states of a job is the newer one: the one with the larger number. */
export function revOf(row: JobRow): number {
  return row.updatedAt
}
