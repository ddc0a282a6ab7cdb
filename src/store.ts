/**
 * The Store: everything jobtable asks of a database. SQLite and PostgreSQL implement it; `jobtable/testing` has the
 * conformance suite that says whether one does.
 *
 * A store writes and guards; it decides nothing. What becomes of a job is decided in `transition.ts` and handed over as a
 * `Settlement`; whether an enqueue is a duplicate is decided in `idempotency.ts` from the holder that `insert` returns.
 * A store stamps every time itself, from its database's clock: it is given delays, and returns moments in milliseconds
 * since 1970.
 *
 * The claim. `claim` gives each row to one caller: it sets `running`, counts the attempt, clears the stage and progress of
 * an earlier one, and writes the caller's worker id and a token that no other claim call has used. Row id and token
 * together name one claim. Every later write of the holder is fenced by both, and changes nothing once the row has been
 * settled, recovered or claimed again.
 *
 * The lease. A claim lives as long as its worker's lease, which `heartbeat` extends. When the lease has run out, or the
 * worker's row is gone, the claim is lost: `lost` lists it, and any worker settles it, fenced like all else, so that a
 * holder that finished in the meantime wins. A worker whose lease ran out cannot extend it; it has lost all its claims
 * and must go on under a new id.
 *
 * Every method rejects with a `JobtableError` whose code starts with `store_` or `schema_` when the database cannot serve.
 */
import type { StepStore } from './effects/record.js'
import type { StreamAppend, StreamStore } from './streams/record.js'
import type { Transaction } from './transactions/transaction.js'
import type { HistoryEntry, FinalStatus, Settlement, Status } from './transition.js'

/** One row of `jobs`, as stored. JSON columns are text; times are milliseconds since 1970. */
export interface JobRow {
  id: string
  type: string
  queue: string
  status: Status
  /** JSON text. */
  payload: string
  /** Lower runs first. */
  priority: number
  /** Runs started, the present one included; waits and hand-backs are taken off again. */
  attempts: number
  /** Null: what the type says. */
  maxAttempts: number | null
  waits: number
  runAfter: number
  lockedAt: number | null
  lockedBy: string | null
  claimToken: string | null
  /** When cancellation was first asked for while the job ran. Null for a job that was canceled while it waited. */
  cancelRequestedAt: number | null
  idempotencyKey: string | null
  fingerprint: string | null
  /** The job that took over this one's idempotency key. */
  supersededBy: string | null
  stage: string | null
  /** From 0 to 1. */
  progress: number | null
  /** JSON text. */
  result: string | null
  history: readonly HistoryEntry[]
  /** The newest history entry's message, for whoever reads the table. */
  lastError: string | null
  userMessage: string | null
  /** A W3C `traceparent`, carried from the producer to the handler. */
  traceContext: string | null
  createdAt: number
  /** Every write to this row stamps it. */
  updatedAt: number
  /** One more at every write to this row and to its streams, whatever the clocks do: a greater one is newer. */
  rev: number
  finishedAt: number | null
  /** No column: it is `failed`, has not been superseded, and nobody knows whether an effect of it has happened. */
  held: boolean
}

export interface NewJob {
  id: string
  type: string
  queue: string
  payload: string
  priority: number
  maxAttempts: number | null
  /** When it may run: a delay from now in milliseconds, or a moment. */
  runAfter: { delayMs: number } | { at: number }
  idempotencyKey: string | null
  fingerprint: string | null
  traceContext: string | null
  /**
   * Take the key over from this finished job, if it still holds the key in this very status. The old row keeps the key
   * for the record and points to the new one. An effect belongs to the key: those of a failed or canceled job
   * are copied to the new one in the same commit; of a succeeded one nothing is. Otherwise nothing is inserted and the present holder is returned; a key
   * that nobody holds any more, because its job was pruned, is free.
   */
  supersedes: { id: string; status: FinalStatus } | null
}

/**
 * - `inserted`: the new row
 * - `held`: a row holds the key, perhaps one earlier in the same call, perhaps the very row with this id; `now` is the
 *   database's time, for its age
 * - `id_taken`: a row has this id already, and does not hold the key, or was to be superseded; nothing was inserted
 */
export type InsertOutcome =
  | { type: 'inserted'; row: JobRow }
  | { type: 'held'; holder: JobRow; now: number }
  | { type: 'id_taken' }

export interface ClaimRequest {
  workerId: string
  /** Never used before by any claim call. */
  token: string
  /** In order of preference: the first queue is emptied before the second is looked at. */
  queues: readonly string[]
  /** Only these types are claimed. */
  types: readonly string[]
  /**
   * The most attempts of jobs of these types whose rows do not say it yet. The claim of a last attempt must not be taken back by a crash of the
   * database, or there would be one too many; of a type that is not here, each attempt may be the last.
   */
  maxAttempts?: ReadonlyMap<string, number>
  limit: number
}

export interface ClaimResult {
  /** False when the claiming worker has no lease (any more): nothing was claimed. */
  alive: boolean
  /** Ordered by queue as requested, then priority, then `runAfter`, then age. Their status is `running`. */
  jobs: JobRow[]
  /**
   * Milliseconds until the earliest job of these queues that is not due yet, or null. It may be of another type: a hint
   * for when to ask again, not a promise. Given only when fewer than `limit` jobs were claimed.
   */
  nextDueInMs: number | null
  /** Some that are due may not have been looked at. A claim that is made after `nextDueInMs` looks at all. */
  partial?: boolean
}

/** Which claim a write belongs to. A row that is running without a token is fenced by null. */
export interface Fence {
  id: string
  token: string | null
}

export interface FencedSettlement extends Fence {
  settlement: Settlement
  /** Written to a row whose `maxAttempts` is null, so that the row tells. */
  maxAttempts: number
  /**
   * The finished row is kept at least this long, beyond what retention says. Milliseconds, or null. Means nothing to a
   * canceled row: what it did is not done, and need not be remembered.
   */
  keepForMs: number | null
}

/**
 * What became of a settlement:
 * - `settled`: it is written
 * - `lost`: the fence did not hold; nothing was changed
 * - `cancel_requested`: the claim is held, but somebody has asked for its cancellation, and the settlement would have been `retrying`
 *   or `failed`. Nothing was changed: decide again, knowing of the request
 * - `locked`: the claim is held, but a transaction of somebody else's, which is still open, has locked the row. Nothing was changed: try again
 *   later
 */
export type SettleOutcome = 'settled' | 'lost' | 'cancel_requested' | 'locked'

/** What became of a report, in the same words. */
export type ReportOutcome = 'written' | 'lost' | 'locked'

/** What a handler reports while it runs. An absent part is left as it is. */
export interface Report extends Fence {
  stage?: string
  progress?: number
  events?: readonly NewEvent[]
  streams?: readonly StreamAppend[]
}

export type EventKind = 'stage' | 'log' | 'file' | 'canceled' | 'cancel_requested' | 'repaired' | 'handed_back' | 'resolved'

export interface NewEvent {
  kind: EventKind
  attempt: number
  message: string
  /** JSON text, or null. */
  data: string | null
}

/** An entry of a job's timeline. */
export interface JobEvent extends NewEvent {
  jobId: string
  at: number
}

export interface WorkerInfo {
  id: string
  host: string
  pid: number
  /** Tells others on the same machine whether its process is gone; null where nobody could tell. */
  process: string | null
  queues: readonly string[]
  types: readonly string[]
  concurrency: number
}

export interface WorkerRow extends WorkerInfo {
  startedAt: number
  heartbeatAt: number
  leaseUntil: number
}

/** What a worker learns from its own heartbeat. */
export type HeartbeatReply =
  | { alive: true; claims: { id: string; token: string; cancelRequested: boolean }[] }
  /** The lease is gone: every claim of this worker id is lost. */
  | { alive: false }

/** All parts must match. A list matches any of its values: an empty one matches no job. */
export interface JobFilter {
  ids?: readonly string[]
  status?: readonly Status[]
  type?: readonly string[]
  queue?: readonly string[]
  idempotencyKey?: string
  /** Only those that are held, or only those that are not; see `JobRow`. */
  held?: boolean
  /** Text that the newest error's message contains, in any case of letters. */
  errorContains?: string
  /** Only jobs created at least this long ago, or at most this long ago. Milliseconds. */
  olderThanMs?: number
  youngerThanMs?: number
}

export interface CountRow {
  type: string
  queue: string
  status: Status
  count: number
  /** Of those that may run, how many are due. */
  due: number
  /** The earliest `runAfter` among them. */
  oldestRunAfter: number
}

export interface WorkerList {
  /** The database's time, to hold the leases against. */
  now: number
  workers: WorkerRow[]
}

export interface Overview extends WorkerList {
  counts: CountRow[]
}

export interface Finding {
  level: 'ok' | 'warning' | 'error'
  /** A stable word, such as `index_missing`. */
  code: string
  message: string
}

export interface Retention {
  succeededMs: number
  failedMs: number
  canceledMs: number
}

export interface PrunedJob {
  id: string
  result: string | null
  /** The messages of its `file` events: the keys of the files that its attempts stored. */
  files: string[]
}

/**
 * What may have changed: `due`, there may be something to claim; `cancel`, somebody asked a running job to stop; `state`, a job is in
 * another state or stage, but neither of these; `any`, the store cannot tell.
 */
export type Change = 'due' | 'cancel' | 'state' | 'any'

/** From where another thread of this process can open the same database. Survives structured cloning. */
export interface StoreAddress {
  /** As `jobtable` takes it. */
  readonly database: string
  readonly options: {
    readonly durability?: 'full' | 'relaxed'
    readonly driver?: 'node:sqlite' | 'better-sqlite3'
    readonly schema?: string
  }
}

export interface Store extends StepStore, StreamStore {
  /** What to call the database in messages, such as `sqlite:app.db`. Holds no password. */
  readonly name: string

  /** Undefined where no other thread can open it: a database in memory, a pool of the product's, a clock of a test. */
  readonly address?: StoreAddress | undefined

  /** Whether it works elsewhere, while this process goes on: then two large inserts are worth making beside each other. */
  readonly parallel?: boolean

  /**
   * Brings the tables up to this version, once, whoever else does so at the same time. `schema_too_new` when a newer
   * jobtable has been here. Every other method needs it to have been called.
   */
  migrate(): Promise<{ from: number; to: number }>

  /** Frees every resource; pending watchers are dropped. May be called twice. */
  close(): Promise<void>

  /**
   * Inserts all of the jobs in one commit, which has happened when the promise resolves, and answers each in order. A key
   * is unique per type among the rows that have not been superseded. Nothing is inserted when it rejects.
   */
  insert(jobs: readonly NewJob[]): Promise<InsertOutcome[]>

  /**
   * As `insert`, in a transaction of the product's own, which commits it or not; watchers are called after its commit, if the
   * database tells. It must be one of this very database. Where its library is synchronous, the answer is no promise. Does not need
   * `migrate` to have been called by this process: `schema_missing` when nobody has.
   */
  insertIn(transaction: Transaction, jobs: readonly NewJob[]): InsertOutcome[] | Promise<InsertOutcome[]>

  /** The rows with these ids, in this order; undefined for one that does not exist. */
  get(ids: readonly string[]): Promise<(JobRow | undefined)[]>

  /**
   * Newest first by creation; `before` is the id of the last row of the page before. Where an id carries its time, as those that jobtable
   * makes, a store may go by that, which is the producer's clock.
   */
  list(filter: JobFilter, page: { limit: number; before?: string }): Promise<JobRow[]>

  /** How many rows match, without reading them all into memory. */
  count(filter: JobFilter): Promise<number>

  /** A job's timeline, oldest first. */
  events(jobId: string): Promise<JobEvent[]>

  /** Row counts by type, queue and status, and the workers. Reads the whole table. */
  overview(): Promise<Overview>

  /** The workers that have a row, dead ones included. Reads no jobs. */
  workers(): Promise<WorkerList>

  /** Settles claims and then claims more, in one commit; see `settle` and `ClaimRequest`. */
  claim(request: ClaimRequest, settlements?: readonly FencedSettlement[]): Promise<ClaimResult & { settled: SettleOutcome[] }>

  /**
   * Ends claims, in one commit: writes the settlement, clears the claim, and for a final status stamps `finishedAt`. A
   * settlement's entry is appended to the history, of which the newest `MAX_HISTORY` are kept. Answers for each, in order. No settlement
   * waits for long because the row of another is locked: neither here, nor in `claim` and `report`.
   */
  settle(settlements: readonly FencedSettlement[]): Promise<SettleOutcome[]>

  /** Writes stages, progress, timeline events and what streams got, in one commit. Answers for each, in order. */
  report(reports: readonly Report[]): Promise<ReportOutcome[]>

  /** Signs a worker on, with a lease of `leaseMs` from now, under an id that was never used before. Needed before it claims. */
  register(worker: WorkerInfo, leaseMs: number): Promise<void>

  /**
   * Extends the lease of a registered worker to `leaseMs` from now, and lists the claims it holds. Refused, with nothing
   * written, when the lease has run out or the worker is not registered (any more).
   */
  heartbeat(workerId: string, leaseMs: number): Promise<HeartbeatReply>

  /** Removes the worker's row. Claims it still holds are lost at once. */
  retire(workerId: string): Promise<void>

  /**
   * Running rows, of these types or of any, whose worker's lease has run out, or which name no registered worker, oldest claim first, and not
   * locked for the reader. Rows of dead workers that hold no more claims are removed on the way.
   */
  lost(limit: number, types?: readonly string[]): Promise<JobRow[]>

  /**
   * Cancels what waits, asks for the cancellation of what runs, leaves what is final or asked already, and notes what it
   * changed in the timeline, with `by`. Answers with the row as it now is; undefined for an id that does not exist.
   */
  cancel(ids: readonly string[], by: string | null): Promise<(JobRow | undefined)[]>

  /**
   * Makes failed and canceled jobs pending again and due now, with their attempts and waits at 0 and without cancel request,
   * user message, stage and progress, keeping id and key; a history entry of kind and code `repaired` is appended, and the
   * timeline notes it, with `by`. Answers with the row, and whether it was changed: what has another status, or was
   * superseded, is left.
   */
  repair(ids: readonly string[], by: string | null): Promise<({ row: JobRow; changed: boolean } | undefined)[]>

  /**
   * Deletes at most `limit` finished rows that are past their retention and `keepFor`, with their events, steps and streams, and answers with
   * what was deleted, so that their files can go too. Call again until it answers with fewer than `limit`.
   */
  prune(retention: Retention, limit: number): Promise<PrunedJob[]>

  /**
   * Calls the listener after anything may have changed, by this process or another: soon, not often, and perhaps for
   * nothing. Returns the function that ends it.
   */
  watch(listener: (change: Change) => void): () => void

  /** Examines the database: version, indexes, settings, size, leftovers. */
  inspect(): Promise<Finding[]>
}
