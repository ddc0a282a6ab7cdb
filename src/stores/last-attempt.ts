import type { ClaimRequest, JobRow } from '../store.js'

/** Whether the attempt that a row has been claimed for may be its last one. */
export function mayBeLastAttempt({ maxAttempts: ofTypes }: ClaimRequest, { type, attempts, maxAttempts }: JobRow): boolean {
  return attempts >= (maxAttempts ?? ofTypes?.get(type) ?? 0)
}
