/** Whether what a store threw is worth another try. */
import { JobtableError, type ErrorCode } from './errors.js'

const PASSING: ReadonlySet<unknown> = new Set<ErrorCode>(['store_busy', 'store_full', 'store_read_only', 'store_unavailable'])

/** The database could not serve: the same call may succeed later, perhaps once somebody has mended it. */
export function isOutage(error: unknown): boolean {
  return error instanceof JobtableError && /^(store|schema)_/.test(error.code)
}

/** An outage that likely passes by itself. */
export function isPassing(error: unknown): boolean {
  return error instanceof JobtableError && PASSING.has(error.code)
}
