import { randomUUID } from 'node:crypto'
import type { NewJob } from '../store.js'

/** A job for a store's tests: pending, due now, without a key, and otherwise as the columns say. */
export function newJob(columns: Partial<NewJob> = {}): NewJob {
  return {
    id: randomUUID(),
    type: 'mail',
    queue: 'default',
    // Every database keeps this as the same text; that they may keep other JSON as another is tested on its own.
    payload: '{}',
    priority: 0,
    maxAttempts: null,
    runAfter: { delayMs: 0 },
    idempotencyKey: null,
    fingerprint: null,
    traceContext: null,
    supersedes: null,
    ...columns,
  }
}
