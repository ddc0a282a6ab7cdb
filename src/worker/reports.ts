/**
 * Writes what handlers report, coalesced: each attempt has at most one report waiting, and all of a worker's reports
 * share one write, at most every `INTERVAL_MS`.
 *
 * While the database is away, stages, progress and log lines are let go; the texts of streams are kept, and tried again.
 *
 * An attempt whose row somebody else has locked is set aside, or each write of the others would wait for it: its reports are kept, and
 * written apart from theirs, until the row is free.
 */
import { JobtableError } from '../errors.js'
import { isPassing } from '../outage.js'
import type { NewEvent, Report, ReportOutcome, Store } from '../store.js'
import type { StreamAppend } from '../streams/record.js'

const INTERVAL_MS = 100
const LOCKED_INTERVAL_MS = 1_000
/** How long a file's note waits for a row that is locked. Milliseconds. */
const LOCKED_PATIENCE_MS = 10_000
const LOCKED_PAUSE_MS = 200
/** How long to wait after a write that failed, at most. Milliseconds. */
const LONGEST_PAUSE_MS = 2_000

/** The streams of an attempt. */
export interface StreamSource {
  /** All that is to be stored. */
  unsent(): StreamAppend[]
  /** These are, or their claim is not held any more. */
  stored(pieces: readonly StreamAppend[]): void
  /** They could not be stored, which may pass or not; answers whether to try again. */
  failed(error: Error, passing: boolean): boolean
}

export interface Reporter {
  readonly id: string
  readonly token: string
  readonly streams?: StreamSource | undefined
  /** The claim is no longer held. */
  leaseLost(): void
}

interface Pending {
  stage?: string
  progress?: number
  events: NewEvent[]
}

type Batch = readonly (readonly [Reporter, Pending])[]

function joined(older: Pending | undefined, newer: Pending | undefined): Pending {
  return { ...older, ...newer, events: [...(older?.events ?? []), ...(newer?.events ?? [])] }
}

/** Reports that are written together, one write after another. */
class Lane {
  readonly #intervalMs: number
  /** Writes, and answers whether the store served. Never rejects. */
  readonly #write: (batch: Batch) => Promise<boolean>
  readonly #pending = new Map<Reporter, Pending>()
  #timer: NodeJS.Timeout | undefined
  #writing: Promise<void> | undefined
  #inFlight = new Set<Reporter>()
  #lastWrite = 0
  #pauseMs: number

  constructor(intervalMs: number, write: (batch: Batch) => Promise<boolean>) {
    this.#intervalMs = this.#pauseMs = intervalMs
    this.#write = write
  }

  add(reporter: Reporter, pending: Pending): void {
    this.#pending.set(reporter, joined(this.#pending.get(reporter), pending))
    const wait = Math.max(0, this.#lastWrite + this.#pauseMs - performance.now())
    this.#timer ??= setTimeout(() => void this.flush(), wait)
  }

  /** What waits. It does so no more. */
  take(reporter: Reporter): Pending | undefined {
    const pending = this.#pending.get(reporter)
    this.#pending.delete(reporter)
    if (this.#pending.size === 0) this.#disarm()
    return pending
  }

  /** What is under way is not kept either, should it come back. */
  drop(reporter: Reporter): void {
    this.take(reporter)
    this.#inFlight.delete(reporter)
  }

  has(reporter: Reporter): boolean {
    return this.#pending.has(reporter) || this.#inFlight.has(reporter)
  }

  async flush(): Promise<void> {
    while (this.#writing) await this.#writing
    this.#disarm()
    if (this.#pending.size === 0) return
    this.#writing = this.#writeAll().finally(() => (this.#writing = undefined))
    await this.#writing
  }

  #disarm(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  async #writeAll(): Promise<void> {
    const batch = [...this.#pending]
    this.#inFlight = new Set(this.#pending.keys())
    this.#pending.clear()
    this.#lastWrite = performance.now()
    const served = await this.#write(batch)
    this.#pauseMs = served ? this.#intervalMs : Math.min(Math.max(this.#intervalMs, LONGEST_PAUSE_MS), this.#pauseMs * 2)
    this.#inFlight.clear()
  }
}

export class Reports {
  readonly #store: Store
  readonly #onError: (error: unknown) => void
  readonly #common = new Lane(INTERVAL_MS, (batch) => this.#write(batch))
  readonly #aside = new Lane(LOCKED_INTERVAL_MS, (batch) => this.#write(batch))
  /** Those whose row was locked when it was to be written last. */
  readonly #locked = new WeakSet<Reporter>()

  constructor(store: Store, onError: (error: unknown) => void) {
    this.#store = store
    this.#onError = onError
  }

  add(reporter: Reporter, report: { stage?: string; progress?: number; event?: NewEvent }): void {
    const { event, ...rest } = report
    this.#laneOf(reporter).add(reporter, { ...rest, events: event === undefined ? [] : [event] })
  }

  /** Whether something of it is not stored yet. */
  has(reporter: Reporter): boolean {
    return this.#common.has(reporter) || this.#aside.has(reporter)
  }

  /** Drops what waits, for a claim that is lost or over. */
  drop(reporter: Reporter): void {
    this.#common.drop(reporter)
    this.#aside.drop(reporter)
    this.#locked.delete(reporter)
  }

  /** Writes all that waits with what this reporter has, or of all reporters; resolves when it is stored, or could not be. Never rejects. */
  async flush(reporter?: Reporter): Promise<void> {
    if (reporter) await this.#flushOf(reporter)
    else await Promise.all([this.#common.flush(), this.#aside.flush()])
  }

  /** Its row may turn out to be locked meanwhile, or to be free again: what it has goes to the other lane then. */
  async #flushOf(reporter: Reporter): Promise<void> {
    let lane: Lane
    do await (lane = this.#laneOf(reporter)).flush()
    while (this.#laneOf(reporter) !== lane)
  }

  /**
   * Writes one event now, after what waits. Rejects when it could not be stored; answers whether the claim is still held. Waits for a row
   * that is locked, but not for long, nor once the signal is aborted.
   */
  async note(reporter: Reporter, event: NewEvent, signal: AbortSignal): Promise<boolean> {
    await this.flush(reporter)
    const until = performance.now() + LOCKED_PATIENCE_MS
    for (;;) {
      const [outcome] = await this.#store.report([{ id: reporter.id, token: reporter.token, events: [event] }])
      if (outcome === 'lost') reporter.leaseLost()
      if (outcome !== 'locked') return outcome === 'written'
      if (signal.aborted || performance.now() > until) throw rowLocked(reporter)
      await new Promise((resolve) => setTimeout(resolve, LOCKED_PAUSE_MS))
    }
  }

  #laneOf(reporter: Reporter): Lane {
    return this.#locked.has(reporter) ? this.#aside : this.#common
  }

  async #write(batch: Batch): Promise<boolean> {
    const pieces = batch.map(([{ streams }]) => streams?.unsent() ?? [])
    try {
      const outcomes = await this.#store.report(
        batch.map(([reporter, pending], i): Report => ({
          id: reporter.id,
          token: reporter.token,
          ...pending,
          ...(pieces[i]!.length > 0 && { streams: pieces[i]! }),
        })),
      )
      batch.forEach(([reporter, pending], i) => this.#answered(reporter, pending, pieces[i]!, outcomes[i]!))
      return true
    } catch (error) {
      // Stages, progress and log lines are for looking at: they are let go rather than hold up the work.
      this.#onError(error)
      this.#keepStreams(
        batch.flatMap(([reporter], i) => (pieces[i]!.length > 0 ? [reporter] : [])),
        error,
      )
      return false
    }
  }

  #answered(reporter: Reporter, pending: Pending, pieces: readonly StreamAppend[], outcome: ReportOutcome): void {
    if (outcome === 'locked') return this.#setAside(reporter, pending, pieces)
    if (this.#locked.delete(reporter)) {
      const newer = this.#aside.take(reporter)
      if (newer) this.#common.add(reporter, newer)
    }
    if (outcome === 'lost') reporter.leaseLost()
    reporter.streams?.stored(pieces)
  }

  #setAside(reporter: Reporter, pending: Pending, pieces: readonly StreamAppend[]): void {
    if (!this.has(reporter)) return
    const newer = this.#laneOf(reporter).take(reporter)
    this.#locked.add(reporter)
    if (pieces.length === 0 || reporter.streams!.failed(rowLocked(reporter), true))
      this.#aside.add(reporter, joined(pending, newer))
  }

  /** A text without its middle is none: what could not be written is written later, or its attempt fails. */
  #keepStreams(reporters: readonly Reporter[], cause: unknown): void {
    const error = cause instanceof Error ? cause : new Error('the store failed', { cause })
    for (const reporter of reporters) {
      if (reporter.streams!.failed(error, isPassing(error))) this.add(reporter, {})
    }
  }
}

function rowLocked({ id }: Reporter): JobtableError {
  return new JobtableError(
    'store_busy',
    `the row of job ${id} is locked by a transaction that is still open, so that nothing can be written to it: end the transaction first, and let none stay open for long; \`jobtable doctor\` lists those that do`,
    { data: { jobId: id } },
  )
}
