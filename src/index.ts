export { jobtable, Queue, type EnqueueResult, type JobType, type QueueOptions, type QueueStats } from './queue.js'
export { Job } from './job.js'
export { JobFile, localFiles, type FileContent, type FileDescription, type FileStore } from './files.js'
export type { EnqueueOptions, NamedEnqueueOptions } from './producer.js'
export type { Handler, JobTypeOptions, RetryOptions } from './job-type.js'
export type { IdempotencyRule, KeyPart, NoIdempotency, OnDuplicate } from './idempotency.js'
export type { JobContext, JobLog } from './worker/context.js'
export type { WorkerEvents, WorkerOptions } from './worker/options.js'
export { Worker } from './worker/worker.js'
export { nextRunAfter, type Backoff } from './backoff.js'
export { classify } from './classify/index.js'
export { userMessage, type Messages } from './messages.js'
export { maskPayload, maskSecrets } from './mask.js'
export type { Duration } from './duration.js'
export type { Logger } from './logger.js'
export type { JsonValue } from './json.js'
export {
  JobAborted,
  JobtableError,
  type AbortCause,
  type Blame,
  type Classification,
  type ErrorCode,
  type ErrorKind,
} from './errors.js'
export { PermanentError, RetryAfter, TransientError, type HandlerErrorDetails } from './handler-errors.js'
export { STATUSES, type HistoryEntry, type Status } from './transition.js'
export type { CountRow, Finding, JobEvent, JobFilter, Store, WorkerRow } from './store.js'
