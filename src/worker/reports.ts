/**
 * Writes what handlers report, coalesced: each attempt has at most one report waiting, and all of a worker's reports
 * share one write, at most every `INTERVAL_MS`.
 *
 * While the database is away, stages, progress and log lines are let go; the texts of streams are kept, and tried again.
 */
import { JobtableError } from '../errors.js'
import type { NewEvent, Report, Store } from '../store.js'
import type { StreamAppend } from '../streams/record.js'

const INTERVAL_MS = 100
/** How long to wait after a write that failed, at most. Milliseconds. */
const LONGEST_PAUSE_MS = 2_000
const PASSING: ReadonlySet<string> = new Set(['store_busy', 'store_unavailable', 'store_read_only'])

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

export class Reports {
  readonly #store: Store
  readonly #onError: (error: unknown) => void
  readonly #pending = new Map<Reporter, Pending>()
  #timer: NodeJS.Timeout | undefined
  #writing: Promise<void> | undefined
  #inFlight = new Set<Reporter>()
  #lastWrite = 0
  #pauseMs = INTERVAL_MS

  constructor(store: Store, onError: (error: unknown) => void) {
    this.#store = store
    this.#onError = onError
  }

  add(reporter: Reporter, report: { stage?: string; progress?: number; event?: NewEvent }): void {
    let pending = this.#pending.get(reporter)
    if (!pending) this.#pending.set(reporter, (pending = { events: [] }))
    if (report.stage !== undefined) pending.stage = report.stage
    if (report.progress !== undefined) pending.progress = report.progress
    if (report.event !== undefined) pending.events.push(report.event)
    const wait = Math.max(0, this.#lastWrite + this.#pauseMs - performance.now())
    this.#timer ??= setTimeout(() => void this.flush(), wait)
  }

  /** Whether something of it is not stored yet. */
  has(reporter: Reporter): boolean {
    return this.#pending.has(reporter) || this.#inFlight.has(reporter)
  }

  /** Drops what waits, for a claim that is lost. */
  drop(reporter: Reporter): void {
    this.#pending.delete(reporter)
  }

  /** Writes all that waits; resolves when it is stored, or could not be. Never rejects. */
  async flush(): Promise<void> {
    while (this.#writing) await this.#writing
    clearTimeout(this.#timer)
    this.#timer = undefined
    if (this.#pending.size === 0) return
    this.#writing = this.#write().finally(() => (this.#writing = undefined))
    await this.#writing
  }

  /** Writes one event now, after what waits. Rejects when it could not be stored; answers whether the claim is still held. */
  async note(reporter: Reporter, event: NewEvent): Promise<boolean> {
    await this.flush()
    const [held] = await this.#store.report([{ id: reporter.id, token: reporter.token, events: [event] }])
    if (!held) reporter.leaseLost()
    return held === true
  }

  async #write(): Promise<void> {
    const batch = [...this.#pending]
    this.#inFlight = new Set(this.#pending.keys())
    this.#pending.clear()
    this.#lastWrite = performance.now()
    const pieces = batch.map(([{ streams }]) => streams?.unsent() ?? [])
    try {
      const held = await this.#store.report(
        batch.map(([reporter, pending], i): Report => ({
          id: reporter.id,
          token: reporter.token,
          ...pending,
          ...(pieces[i]!.length > 0 && { streams: pieces[i]! }),
        })),
      )
      this.#pauseMs = INTERVAL_MS
      batch.forEach(([reporter], i) => {
        if (!held[i]) reporter.leaseLost()
        reporter.streams?.stored(pieces[i]!)
      })
    } catch (error) {
      // Stages, progress and log lines are for looking at: they are let go rather than hold up the work.
      this.#onError(error)
      this.#keepStreams(
        batch.flatMap(([reporter], i) => (pieces[i]!.length > 0 ? [reporter] : [])),
        error,
      )
    } finally {
      this.#inFlight.clear()
    }
  }

  /** A text without its middle is none: what could not be written is written later, or its attempt fails. */
  #keepStreams(reporters: readonly Reporter[], cause: unknown): void {
    const error = cause instanceof Error ? cause : new Error('the store failed', { cause })
    const passing = error instanceof JobtableError && PASSING.has(error.code)
    this.#pauseMs = Math.min(LONGEST_PAUSE_MS, this.#pauseMs * 2)
    for (const reporter of reporters) {
      if (reporter.streams!.failed(error, passing)) this.add(reporter, {})
    }
  }
}
