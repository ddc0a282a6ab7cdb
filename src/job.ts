/**
 * A job as its users see it: a snapshot of its row, with what can be done about it.
 */
import { JobtableError } from './errors.js'
import { fileOf, JobFile, type FileStore } from './files.js'
import { readJson } from './json.js'
import { checkOptionNames } from './options.js'
import type { Duration } from './duration.js'
import type { JobEvent, JobRow } from './store.js'
import { isFinal, type HistoryEntry, type Status } from './transition.js'

/** What a job needs of the queue it belongs to. */
export interface JobActions {
  readonly files: FileStore
  fetch(id: string): Promise<JobRow>
  wait(id: string, until: (row: JobRow) => boolean, timeout?: Duration): Promise<JobRow>
  cancelRow(id: string, by: string | undefined): Promise<JobRow>
  retryRow(id: string, by: string | undefined): Promise<JobRow>
  events(id: string): Promise<JobEvent[]>
}

export class Job<Result = unknown> {
  readonly #row: JobRow
  readonly #queue: JobActions

  /** @internal */
  constructor(row: JobRow, queue: JobActions) {
    this.#row = row
    this.#queue = queue
  }

  get id(): string {
    return this.#row.id
  }
  get type(): string {
    return this.#row.type
  }
  get queue(): string {
    return this.#row.queue
  }
  get status(): Status {
    return this.#row.status
  }
  /** The payload as stored. Undefined where somebody wrote a row by hand with text that is no JSON. */
  get payload(): unknown {
    return readJson(this.#row.payload)
  }
  /** Lower runs first. */
  get priority(): number {
    return this.#row.priority
  }
  /** Runs started, without those that only waited or were handed back. */
  get attempts(): number {
    return this.#row.attempts
  }
  /** Null until the row says: it is the type's, and written down when the job first comes back. */
  get maxAttempts(): number | null {
    return this.#row.maxAttempts
  }
  get stage(): string | null {
    return this.#row.stage
  }
  /** From 0 to 1, or null where the handler reports none. */
  get progress(): number | null {
    return this.#row.progress
  }
  /** What to tell whoever ordered the job, once it has failed. Null in every other state. */
  get userMessage(): string | null {
    return this.#row.userMessage
  }
  /** For whoever mends it: the newest error. */
  get lastError(): string | null {
    return this.#row.lastError
  }
  /** Attempts that did not succeed, and repairs, oldest first. */
  get history(): readonly HistoryEntry[] {
    return this.#row.history
  }
  /** Whether it has failed and nobody knows whether an effect of it has happened: `queue.resolve` takes a person's word. */
  get held(): boolean {
    return this.#row.held
  }
  get idempotencyKey(): string | null {
    return this.#row.idempotencyKey
  }
  /** The id of the newer job that took over this one's idempotency key. */
  get supersededBy(): string | null {
    return this.#row.supersededBy
  }
  /** The worker that runs it. */
  get lockedBy(): string | null {
    return this.#row.lockedBy
  }
  get cancelRequested(): boolean {
    return this.#row.cancelRequestedAt !== null
  }
  /** Not before this moment. */
  get runAfter(): Date {
    return new Date(this.#row.runAfter)
  }
  get createdAt(): Date {
    return new Date(this.#row.createdAt)
  }
  get updatedAt(): Date {
    return new Date(this.#row.updatedAt)
  }
  /** Greater after each change that can be seen here, of the streams too; it never goes back, whatever the clocks do. */
  get rev(): number {
    return this.#row.rev
  }
  get finishedAt(): Date | null {
    return this.#row.finishedAt === null ? null : new Date(this.#row.finishedAt)
  }

  /**
   * The result, once there is one; waits for it, whichever process runs the job. Rejects with `job_failed`,
   * `job_canceled`, or after `timeout` with `wait_timeout`, which leaves the job as it is.
   */
  async result(options: { timeout?: Duration } = {}): Promise<Result> {
    checkOptionNames('job.result', options, { timeout: true })
    const row = await this.#queue.wait(this.id, ({ status }) => isFinal(status), options.timeout)
    if (row.status === 'succeeded') return resultOf(row, this.#queue.files) as Result
    if (row.status === 'canceled')
      throw new JobtableError('job_canceled', `job ${row.id} (${row.type}) was canceled`, { data: { id: row.id } })
    throw new JobtableError('job_failed', `job ${row.id} (${row.type}) failed: ${row.lastError ?? 'no reason was recorded'}`, {
      data: { id: row.id, userMessage: row.userMessage, history: row.history },
    })
  }

  /** A new snapshot. */
  async refresh(): Promise<Job<Result>> {
    return new Job<Result>(await this.#queue.fetch(this.id), this.#queue)
  }

  /**
   * A snapshot now, and one after each change that is seen, whichever process makes it, until the job is over: for showing
   * progress. Changes that follow fast upon each other may come as one.
   */
  async *updates(): AsyncGenerator<Job<Result>, void, undefined> {
    let row = await this.#queue.fetch(this.id)
    yield new Job<Result>(row, this.#queue)
    while (!isFinal(row.status)) {
      const seen = row
      row = await this.#queue.wait(this.id, (now) => differs(seen, now))
      yield new Job<Result>(row, this.#queue)
    }
  }

  /**
   * Cancels it at once where it waits; asks its handler to stop where it runs. Rejects with `status_final` where it
   * has succeeded or failed. `by` says in the timeline who asked.
   */
  async cancel(options: { by?: string } = {}): Promise<Job<Result>> {
    return new Job<Result>(await this.#queue.cancelRow(this.id, options.by), this.#queue)
  }

  /**
   * Repair: makes a failed or canceled job pending again, with all of its attempts. Rejects with `status_final` otherwise. `by` says
   * in the history who asked.
   */
  async retry(options: { by?: string } = {}): Promise<Job<Result>> {
    return new Job<Result>(await this.#queue.retryRow(this.id, options.by), this.#queue)
  }

  /** The timeline, oldest first. */
  events(): Promise<JobEvent[]> {
    return this.#queue.events(this.id)
  }

  /** The row with its JSON parsed, for logs and APIs of one's own. Holds the payload: mask it before you show it. */
  toJSON(): Record<string, unknown> {
    const { claimToken: _, fingerprint: __, payload, result, ...row } = this.#row
    return { ...row, payload: readJson(payload), result: readJson(result) ?? null }
  }
}

/** Whether anything changed that a watcher can see. */
export function differs(a: JobRow, b: JobRow): boolean {
  return (
    a.rev !== b.rev ||
    // Written by a jobtable of before there was a rev, or by hand.
    a.updatedAt !== b.updatedAt ||
    a.status !== b.status ||
    a.stage !== b.stage ||
    a.progress !== b.progress ||
    a.attempts !== b.attempts ||
    a.cancelRequestedAt !== b.cancelRequestedAt
  )
}

function resultOf(row: JobRow, files: FileStore): unknown {
  const result = readJson(row.result)
  const file = fileOf(result)
  return file ? new JobFile(file, files) : result
}
