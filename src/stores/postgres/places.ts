/**
 * From where to claim: the decision between exact claims and claims from here, which `claim.ts` explains, for one store. All
 * times are on the clock of `performance.now()`.
 */
import type { ClaimRequest, JobRow } from '../../store.js'

/** Where to start in one level: nothing before it is looked at. */
export interface Place {
  queue: string
  priority: number
  /** Milliseconds since 1970. */
  runAfter: number
}

/** What a claim of many rows, and one of few, may take before anybody asks why. Milliseconds. */
const UNSUSPICIOUS = { many: 3, few: 20 }
const MANY_ROWS = 100
const UNSUSPICIOUS_MS_PER_ROW = 0.04
/** So many in a row must have taken longer: a busy machine makes one slow now and then. */
const SUSPICIOUS_RUN = { many: 3, few: 8 }
/** Commits that began earlier may end a little later than others: a claim from here starts this much earlier. Milliseconds. */
const MARGIN_MS = 50
/** Exact claims may take this share of the time with what they cost more. */
const SHARE = 1 / 10
/** In exact claims that took long. */
const MEASURE_EVERY = 16
/** Beyond this many levels the oldest known ones are forgotten. */
const MOST_LEVELS = 1_000

export class Places {
  readonly #known = new Map<string, Place>()
  /** Milliseconds that claims from here take, beyond what their rows explain; undefined before the first. */
  #hereMs: number | undefined
  /** Exact claims in a row that took longer than they should. */
  #slow = 0
  /** Exact claims to go before one from here is measured again. */
  #measureIn = 0
  #measure = false
  #exactFrom = 0

  /** The places to claim from, or undefined for an exact claim. */
  choose(request: ClaimRequest, now: number): Place[] | undefined {
    if (now >= this.#exactFrom && !this.#measure) return undefined
    const places = request.queues.flatMap((queue) =>
      [...this.#known.values()].filter((place) => place.queue === queue).sort((a, b) => a.priority - b.priority),
    )
    return places.length > 0 ? places : undefined
  }

  /** Whether claims take longer than they should. */
  get slow(): boolean {
    return this.#slow >= SUSPICIOUS_RUN.many
  }

  /** In how many milliseconds an exact claim is allowed. */
  exactInMs(now: number): number {
    return Math.max(0, this.#exactFrom - now)
  }

  /** A claim was made: from where, what it brought, how many rows it wrote in all, and how long it took. */
  learn(exact: boolean, jobs: readonly JobRow[], rows: number, tookMs: number, now: number): void {
    for (const job of jobs) this.#advance(job)
    const unexplainedMs = Math.max(0, tookMs - rows * UNSUSPICIOUS_MS_PER_ROW)
    if (!exact) {
      this.#measure = false
      this.#hereMs = Math.min(unexplainedMs, (this.#hereMs ?? unexplainedMs) + unexplainedMs / 8)
      return
    }
    const size = rows >= MANY_ROWS ? 'many' : 'few'
    this.#slow = unexplainedMs > UNSUSPICIOUS[size] ? this.#slow + 1 : 0
    if (this.#slow < SUSPICIOUS_RUN[size]) return
    if (this.#hereMs === undefined || --this.#measureIn < 0) {
      this.#measure = true
      this.#measureIn = MEASURE_EVERY
    } else {
      this.#exactFrom = now + Math.max(0, unexplainedMs - this.#hereMs - UNSUSPICIOUS.many) / SHARE
    }
  }

  /** Jobs were inserted here, perhaps into a level that is new or before the place that is known. */
  inserted(rows: readonly JobRow[]): void {
    if (this.#known.size === 0) return
    for (const { queue, priority, runAfter } of rows) {
      const key = keyOf(queue, priority)
      const place = this.#known.get(key)
      if (!place || runAfter < place.runAfter) this.#known.set(key, { queue, priority, runAfter })
    }
  }

  #advance({ queue, priority, runAfter }: JobRow): void {
    const key = keyOf(queue, priority)
    const from = runAfter - MARGIN_MS
    const place = this.#known.get(key)
    if (place && from <= place.runAfter) return
    this.#known.delete(key)
    this.#known.set(key, { queue, priority, runAfter: from })
    if (this.#known.size > MOST_LEVELS) this.#known.delete(this.#known.keys().next().value!)
  }
}

function keyOf(queue: string, priority: number): string {
  return `${priority} ${queue}`
}
