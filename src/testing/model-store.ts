/**
 * The Store contract kept in plain objects: small enough to be seen to be right, and the measure that random sequences
 * of operations are held against. It takes its time from the clock alone, draws nothing at random and finishes every call
 * before it returns, so the same calls at the same times give the same answers.
 */
import type { FailedJob, NewStep, RecordOutcome, StepRow } from '../effects/record.js'
import { JobtableError } from '../errors.js'
import type {
  Change,
  ClaimRequest,
  ClaimResult,
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
  ReportOutcome,
  Retention,
  SettleOutcome,
  Store,
  WorkerInfo,
  WorkerList,
} from '../store.js'
import { RULES, type RawColumns, type Rules, type StoredJob } from './model-rules.js'
import { closed, countRows, emptyTables, noTransactions, rowOf, type Tables } from './model-tables.js'

export interface Clock {
  /** Milliseconds since 1970. */
  now(): number
}

export interface ModelStoreOptions {
  /** The real time unless given. */
  clock?: Clock
  /** @internal For tests that need a store which breaks one rule. */
  rules?: Rules
}

export interface ModelStore extends Store {
  /** Another handle on the same tables, as another process would have. */
  another(): ModelStore
  /** What `INSERT INTO jobs (id, type, payload, status)` in any SQL client does. */
  rawInsert(columns: RawColumns): void
}

/** A Store in memory, for tests and simulations. */
export function modelStore(options: ModelStoreOptions = {}): ModelStore {
  return new Model(emptyTables(), options.clock ?? Date, options.rules ?? RULES)
}

const VERSION = 1

class Model implements ModelStore {
  readonly name = 'model'
  readonly #tables: Tables
  readonly #clock: Clock
  readonly #rules: Rules
  #closed = false

  constructor(tables: Tables, clock: Clock, rules: Rules) {
    this.#tables = tables
    this.#clock = clock
    this.#rules = rules
  }

  another(): ModelStore {
    return new Model(this.#tables, this.#clock, this.#rules)
  }

  rawInsert(columns: RawColumns): void {
    this.#open().jobs.set(columns.id, this.#rules.raw(columns, this.#clock.now()))
    this.#changed()
  }

  async migrate(): Promise<{ from: number; to: number }> {
    if (this.#closed) throw closed()
    const from = this.#tables.version
    this.#tables.version = VERSION
    return { from, to: VERSION }
  }

  async close(): Promise<void> {
    this.#closed = true
    for (const watcher of this.#tables.watchers) if (watcher.owner === this) this.#tables.watchers.delete(watcher)
  }

  async insert(jobs: readonly NewJob[]): Promise<InsertOutcome[]> {
    this.#open()
    const now = this.#clock.now()
    for (const job of jobs) JSON.parse(job.payload)
    const outcomes = jobs.map((job) => this.#insertOne(job, now))
    this.#changed()
    return outcomes
  }

  insertIn(): never {
    throw noTransactions()
  }

  recordIn(): never {
    throw noTransactions()
  }

  async transact(): Promise<never> {
    throw noTransactions()
  }

  #insertOne(job: NewJob, now: number): InsertOutcome {
    const { jobs } = this.#tables
    const holder = this.#holder(job)
    const taken = jobs.has(job.id)
    if (taken && holder?.row.id !== job.id) return { type: 'id_taken' }
    if (holder !== undefined) {
      if (!this.#rules.mayTakeOver(holder.row, job.supersedes))
        return { type: 'held', holder: rowOf(this.#tables, holder.row.id)!, now }
      if (taken) return { type: 'id_taken' }
      jobs.set(holder.row.id, this.#rules.superseded(holder, job.id, now))
      if (holder.row.status !== 'succeeded') this.#tables.steps.inherit(job.id, holder.row.id)
    }
    const stored = this.#rules.inserted(job, now)
    jobs.set(job.id, stored)
    return { type: 'inserted', row: stored.row }
  }

  #holder({ type, idempotencyKey }: NewJob): StoredJob | undefined {
    if (idempotencyKey === null) return undefined
    for (const stored of this.#tables.jobs.values()) {
      if (this.#rules.holdsKey(stored.row, type, idempotencyKey)) return stored
    }
    return undefined
  }

  async get(ids: readonly string[]): Promise<(JobRow | undefined)[]> {
    const tables = this.#open()
    return ids.map((id) => rowOf(tables, id))
  }

  async list(filter: JobFilter, page: { limit: number; before?: string }): Promise<JobRow[]> {
    const rows = this.#matching(filter).sort(this.#rules.newestFirst)
    const last = page.before === undefined ? undefined : this.#tables.jobs.get(page.before)?.row
    const rest = last === undefined ? rows : rows.filter((row) => this.#rules.newestFirst(row, last) > 0)
    return rest.slice(0, page.limit)
  }

  async count(filter: JobFilter): Promise<number> {
    return this.#matching(filter).length
  }

  #matching(filter: JobFilter): JobRow[] {
    this.#open()
    const now = this.#clock.now()
    return this.#rows().filter((row) => this.#rules.matches(row, filter, now))
  }

  async events(jobId: string): Promise<JobEvent[]> {
    return [...(this.#open().events.get(jobId) ?? [])]
  }

  async overview(): Promise<Overview> {
    this.#open()
    const now = this.#clock.now()
    const counts = countRows(this.#rows(), (row) => this.#rules.isDue(row, now))
    return { counts, ...(await this.workers()) }
  }

  async workers(): Promise<WorkerList> {
    const { workers } = this.#open()
    return { now: this.#clock.now(), workers: [...workers.values()] }
  }

  async claim(
    request: ClaimRequest,
    settlements: readonly FencedSettlement[] = [],
  ): Promise<ClaimResult & { settled: SettleOutcome[] }> {
    this.#open()
    const now = this.#clock.now()
    const settled = settlements.map((settlement) => this.#settleOne(settlement, now))
    const worker = this.#tables.workers.get(request.workerId)
    if (worker === undefined || !this.#rules.leaseHolds(worker, now))
      return { alive: false, jobs: [], nextDueInMs: null, settled }
    const jobs: JobRow[] = []
    for (const queue of request.queues) {
      const due = this.#rows().filter(
        (row) => row.queue === queue && request.types.includes(row.type) && this.#rules.isDue(row, now),
      )
      for (const { id } of due.sort(this.#rules.claimOrder).slice(0, request.limit - jobs.length)) {
        jobs.push(this.#write(id, (stored) => this.#rules.claimed(stored, request, now)))
      }
    }
    this.#changed()
    return { alive: true, jobs, nextDueInMs: jobs.length < request.limit ? this.#nextDueIn(request.queues, now) : null, settled }
  }

  #nextDueIn(queues: readonly string[], now: number): number | null {
    const later = this.#rows().filter((row) => queues.includes(row.queue) && this.#rules.waits(row) && row.runAfter > now)
    return later.length === 0 ? null : Math.min(...later.map((row) => row.runAfter)) - now
  }

  async settle(settlements: readonly FencedSettlement[]): Promise<SettleOutcome[]> {
    this.#open()
    const now = this.#clock.now()
    const settled = settlements.map((settlement) => this.#settleOne(settlement, now))
    this.#changed()
    return settled
  }

  #settleOne(settlement: FencedSettlement, now: number): SettleOutcome {
    const row = this.#held(settlement)
    if (row === undefined) return 'lost'
    if (this.#rules.overlooksCancel(row, settlement.settlement)) return 'cancel_requested'
    this.#write(settlement.id, (stored) => this.#rules.settled(stored, settlement, now))
    return 'settled'
  }

  async report(reports: readonly Report[]): Promise<ReportOutcome[]> {
    this.#open()
    const now = this.#clock.now()
    const outcomes = reports.map((report): ReportOutcome => {
      if (this.#held(report) === undefined) return 'lost'
      this.#write(report.id, (stored) => this.#rules.reported(stored, report, now))
      for (const event of report.events ?? []) this.#note(report.id, event, now)
      for (const piece of report.streams ?? []) this.#tables.streams.append(this.#held(report)!, piece)
      return 'written'
    })
    this.#changed()
    return outcomes
  }

  async steps(jobId: string): Promise<StepRow[]> {
    return this.#open().steps.of(jobId)
  }

  async recordStep(fence: Fence, step: NewStep): Promise<RecordOutcome> {
    const { steps } = this.#open()
    return this.#held(fence) === undefined ? 'lost' : steps.record(fence.id, step, this.#clock.now())
  }

  async resolveStep(failed: FailedJob, step: Pick<NewStep, 'name' | 'state' | 'value'>, by: string | null): Promise<boolean> {
    const { jobs, steps } = this.#open()
    const now = this.#clock.now()
    const { id: jobId } = failed
    const row = jobs.get(jobId)?.row
    const asFound = row !== undefined && this.#rules.mayRepair(row) && row.finishedAt === failed.finishedAt
    const resolved = asFound ? steps.resolve(jobId, step, now) : undefined
    if (resolved === undefined) return false
    const data = JSON.stringify({ effect: step.name, state: step.state, ...(by !== null && { by }) })
    this.#note(jobId, { kind: 'resolved', attempt: row!.attempts, message: `resolved ${step.name}`, data }, now)
    this.#changed()
    return true
  }

  readonly streams: Store['streams'] = async (jobId) => this.#open().streams.of(this.#tables.jobs.get(jobId)?.row)

  readonly readStream: Store['readStream'] = async (jobId, ...how) =>
    this.#open().streams.read(this.#tables.jobs.get(jobId)?.row, ...how)

  async register(worker: WorkerInfo, leaseMs: number): Promise<void> {
    const now = this.#clock.now()
    this.#open().workers.set(worker.id, { ...worker, startedAt: now, heartbeatAt: now, leaseUntil: now + leaseMs })
  }

  async heartbeat(workerId: string, leaseMs: number): Promise<HeartbeatReply> {
    const { workers } = this.#open()
    const now = this.#clock.now()
    const worker = workers.get(workerId)
    if (worker === undefined || !this.#rules.leaseHolds(worker, now)) return { alive: false }
    workers.set(workerId, { ...worker, heartbeatAt: now, leaseUntil: now + leaseMs })
    const claims = this.#rows().flatMap((row) =>
      row.status === 'running' && row.lockedBy === workerId && row.claimToken !== null
        ? [{ id: row.id, token: row.claimToken, cancelRequested: row.cancelRequestedAt !== null }]
        : [],
    )
    return { alive: true, claims }
  }

  async retire(workerId: string): Promise<void> {
    this.#open().workers.delete(workerId)
    this.#changed()
  }

  async lost(limit: number, types?: readonly string[]): Promise<JobRow[]> {
    const { workers } = this.#open()
    const now = this.#clock.now()
    for (const worker of workers.values()) {
      const holding = this.#rows().some((row) => row.status === 'running' && row.lockedBy === worker.id)
      if (!holding && !this.#rules.leaseHolds(worker, now)) workers.delete(worker.id)
    }
    const rows = this.#rows().filter((row) => this.#rules.isLost(row, workers, now) && (types?.includes(row.type) ?? true))
    return rows.sort((a, b) => (a.lockedAt ?? 0) - (b.lockedAt ?? 0)).slice(0, limit)
  }

  async cancel(ids: readonly string[], by: string | null): Promise<(JobRow | undefined)[]> {
    const { jobs } = this.#open()
    const now = this.#clock.now()
    const message = by === null ? 'cancel' : `cancel, by ${by}`
    const rows = ids.map((id) => {
      const stored = jobs.get(id)
      if (stored === undefined) return undefined
      const after = this.#rules.canceled(stored, now)
      jobs.set(id, after)
      const kind = after.row.status === 'canceled' ? 'canceled' : 'cancel_requested'
      if (after !== stored) this.#note(id, { kind, attempt: after.row.attempts, message, data: null }, now)
      return rowOf(this.#tables, id)
    })
    this.#changed()
    return rows
  }

  async repair(ids: readonly string[], by: string | null): Promise<({ row: JobRow; changed: boolean } | undefined)[]> {
    const { jobs } = this.#open()
    const now = this.#clock.now()
    const answers = ids.map((id) => {
      const stored = jobs.get(id)
      if (stored === undefined) return undefined
      if (!this.#rules.mayRepair(stored.row)) return { row: stored.row, changed: false }
      const row = this.#write(id, () => this.#rules.repaired(stored, by, now))
      this.#note(id, { kind: 'repaired', attempt: stored.row.attempts, message: row.lastError ?? '', data: null }, now)
      return { row, changed: true }
    })
    this.#changed()
    return answers
  }

  async prune(retention: Retention, limit: number): Promise<PrunedJob[]> {
    const { jobs, events } = this.#open()
    const now = this.#clock.now()
    const past = [...jobs.values()].filter((stored) => this.#rules.mayPrune(stored, retention, now)).slice(0, limit)
    const pruned = past.map(({ row }) => {
      const stored = (events.get(row.id) ?? []).filter(({ kind }) => kind === 'file')
      return { id: row.id, result: row.result, files: stored.map(({ message }) => message) }
    })
    for (const { id } of pruned) {
      jobs.delete(id)
      events.delete(id)
      this.#tables.steps.forget(id)
      this.#tables.streams.forget(id)
    }
    this.#changed()
    return pruned
  }

  watch(listener: (change: Change) => void): () => void {
    const { watchers } = this.#tables
    const watcher = { listener, owner: this }
    watchers.add(watcher)
    return () => void watchers.delete(watcher)
  }

  async inspect(): Promise<Finding[]> {
    this.#open()
    return [{ level: 'ok', code: 'version', message: `the tables are at version ${VERSION}` }]
  }

  #open(): Tables {
    if (this.#closed) throw closed()
    if (this.#tables.version === 0)
      throw new JobtableError('schema_missing', 'the model store has no tables: call migrate() first')
    return this.#tables
  }

  #rows(): JobRow[] {
    return [...this.#tables.jobs.keys()].map((id) => rowOf(this.#tables, id)!)
  }

  /** The row of a claim that is still held. */
  #held(fence: Fence): JobRow | undefined {
    const row = this.#tables.jobs.get(fence.id)?.row
    return row !== undefined && this.#rules.fenceHolds(row, fence) ? row : undefined
  }

  #write(id: string, change: (stored: StoredJob) => StoredJob): JobRow {
    const after = change(this.#tables.jobs.get(id)!)
    this.#tables.jobs.set(id, after)
    return after.row
  }

  #note(jobId: string, event: NewEvent, at: number): void {
    const { events } = this.#tables
    events.set(jobId, [...(events.get(jobId) ?? []), { ...event, jobId, at }])
  }

  /** Listeners run after the present call has answered, each at most once, and not at all when dropped meanwhile. */
  #changed(): void {
    for (const watcher of this.#tables.watchers) {
      queueMicrotask(() => {
        if (this.#tables.watchers.has(watcher)) watcher.listener('any')
      })
    }
  }
}
