export { jobtable, Queue, type QueueStats } from './queue.js'
export type { QueueOptions } from './queue-options.js'
export type { EnqueueResult, JobType } from './define.js'
export { Job } from './job.js'
export { JobFile, localFiles, type FileContent, type FileDescription, type FileStore } from './files.js'
export type { EnqueueOptions, NamedEnqueueOptions } from './producer.js'
export type { Handler, JobTypeOptions, PreparedType, RetryOptions } from './job-type.js'
export type { IsolateOptions } from './isolate/index.js'
export type { Isolation } from './isolate/host.js'
export type { IdempotencyRule, KeyPart, NoIdempotency, OnDuplicate } from './idempotency.js'
export type { JobContext, JobLog, Storable } from './worker/context.js'
export type { EffectCall, EffectOptions, Reconciled } from './effects/effect.js'
export type {
  FailedJob,
  NewStep,
  OwnTransaction,
  RecordOutcome,
  StepKind,
  StepRow,
  StepState,
  StepStore,
  TransactionWrite,
} from './effects/record.js'
export type { Resolution } from './effects/resolve.js'
export type { StreamAppend, StreamInfo, StreamPlace, StreamStore, StreamText } from './streams/record.js'
export type { JobStream, StreamOptions } from './streams/stream.js'
export type { JobTransaction } from './transactions/own.js'
export type { AttemptFacts, WorkerEvents, WorkerOptions } from './worker/options.js'
export type { RunOnceOptions, RunOnceResult, RunTotals } from './run-once.js'
export type { Worker } from './worker/worker.js'
export { nextRunAfter, type Backoff } from './backoff.js'
export { classify } from './classify/index.js'
export { userMessage, type LocalText, type Locale, type Messages } from './messages.js'
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
export { MAX_HISTORY, STATUSES, type FinalStatus, type HistoryEntry, type Settlement, type Status } from './transition.js'
export type { ProductTransaction } from './transactions/index.js'
export type { Query, QueryParameter, Transaction, Values } from './transactions/transaction.js'
export type {
  Change,
  ClaimRequest,
  ClaimResult,
  CountRow,
  EventKind,
  Fence,
  FencedSettlement,
  Finding,
  HeartbeatReply,
  InsertOutcome,
  JobEvent,
  JobFilter,
  JobRow,
  NewEvent,
  NewJob,
  Overview,
  PrunedJob,
  Report,
  Retention,
  SettleOutcome,
  Store,
  WorkerInfo,
  WorkerRow,
} from './store.js'
