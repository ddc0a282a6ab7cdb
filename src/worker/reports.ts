/**
 * Writes what handlers report, coalesced: each attempt has at most one report waiting, and all of a worker's reports
 * share one write, at most every `INTERVAL_MS`.
 */
import type { NewEvent, Report, Store } from '../store.js'

const INTERVAL_MS = 100

export interface Reporter {
  readonly id: string
  readonly token: string
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
    const wait = Math.max(0, this.#lastWrite + INTERVAL_MS - performance.now())
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
    try {
      const held = await this.#store.report(
        batch.map(([reporter, pending]): Report => ({ id: reporter.id, token: reporter.token, ...pending })),
      )
      batch.forEach(([reporter], i) => {
        if (!held[i]) reporter.leaseLost()
      })
    } catch (error) {
      // Stages, progress and log lines are for looking at: they are let go rather than hold up the work.
      this.#onError(error)
    } finally {
      this.#inFlight.clear()
    }
  }
}
