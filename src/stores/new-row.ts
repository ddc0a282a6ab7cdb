import type { JobRow, NewJob } from '../store.js'

/** The row as it is stored; reading it back would cost as much as writing it. */
export function newRow(job: NewJob, createdAt: number, runAfter: number): JobRow {
  return {
    id: job.id,
    type: job.type,
    queue: job.queue,
    status: 'pending',
    payload: job.payload,
    priority: job.priority,
    attempts: 0,
    maxAttempts: job.maxAttempts,
    waits: 0,
    runAfter,
    lockedAt: null,
    lockedBy: null,
    claimToken: null,
    cancelRequestedAt: null,
    idempotencyKey: job.idempotencyKey,
    fingerprint: job.fingerprint,
    supersededBy: null,
    stage: null,
    progress: null,
    result: null,
    history: [],
    lastError: null,
    userMessage: null,
    traceContext: job.traceContext,
    createdAt,
    updatedAt: createdAt,
    finishedAt: null,
    rev: 0,
    held: false,
  }
}
