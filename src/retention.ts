/** How long finished jobs are kept. */
import { parseDuration, type Duration } from './duration.js'
import type { Retention } from './store.js'

export interface RetentionOptions {
  succeeded?: Duration
  failed?: Duration
  canceled?: Duration
}

export function prepareRetention({ succeeded = '7d', failed = '30d', canceled = '30d' }: RetentionOptions = {}): Retention {
  return { succeededMs: parseDuration(succeeded), failedMs: parseDuration(failed), canceledMs: parseDuration(canceled) }
}
