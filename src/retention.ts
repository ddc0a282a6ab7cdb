/** How long finished jobs are kept. */
import { parseDuration, type Duration } from './duration.js'
import { checkOptionNames } from './options.js'
import type { Retention } from './store.js'

export interface RetentionOptions {
  succeeded?: Duration
  failed?: Duration
  canceled?: Duration
}

export function prepareRetention(options: RetentionOptions = {}): Retention {
  checkOptionNames('retention', options, { succeeded: true, failed: true, canceled: true })
  const { succeeded = '7d', failed = '30d', canceled = '30d' } = options
  return { succeededMs: parseDuration(succeeded), failedMs: parseDuration(failed), canceledMs: parseDuration(canceled) }
}
