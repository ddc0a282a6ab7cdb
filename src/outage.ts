/** Whether what a store threw is worth another try. */
import { JobtableError } from './errors.js'

const PASSING: ReadonlySet<string> = new Set(['store_busy', 'store_unavailable', 'store_read_only'])

/** The database could not serve: the same call may succeed later, perhaps once somebody has mended it. */
export function isOutage(error: unknown): boolean {
  return error instanceof JobtableError && /^(store|schema)_/.test(error.code)
}

/** An outage that likely passes by itself. */
export function isPassing(error: unknown): boolean {
  return error instanceof JobtableError && PASSING.has(error.code)
}
