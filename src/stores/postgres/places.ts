/**
 * From where to claim, for one store and one set of types: `claim.ts` explains what is decided here. All times are on the clock of
 * `performance.now()`, but for those at which jobs are due.
 */
import type { ClaimRequest, JobRow } from '../../store.js'

/** A job's place, in the order in which it is claimed. Where a claim starts there, nothing before it is looked at. */
export interface Place {
  queue: string
  priority: number
  /** Milliseconds since 1970. */
  runAfter: number
  id: string
}

/** A claim from here: the places, and the jobs that stand before them. */
export interface FromHere {
  places: Place[]
  early: string[]
}

/**
 * After an exact claim of many rows, others of many rows are from here for so long, or for so many times as long as it took, but no
 * longer than that. Milliseconds.
 */
const BRIEFLY = { atLeastMs: 100, times: 10, atMostMs: 1_000 }
/** What a claim of many rows, and one of few, may take before anybody asks why. Milliseconds. */
const UNSUSPICIOUS = { many: 30, few: 20 }
const MANY_ROWS = 100
const UNSUSPICIOUS_MS_PER_ROW = 0.04
/** So many in a row must have taken longer: a busy machine makes one slow now and then. */
const SUSPICIOUS_RUN = { many: 5, few: 8 }
/** Commits that began earlier may end a little later than others: a claim from here starts this much earlier. Milliseconds. */
const MARGIN_MS = 50
/** Scouts may take this share of the time. */
const SHARE = 1 / 10
/** A scout that takes no longer has walked over little: it was something else that made claims slow. Milliseconds. */
const QUICK_SCOUT_MS = 5
/** So long nobody asks again then. Milliseconds. */
const TRUST_MS = 10_000
/** After a scout that failed. Milliseconds. */
const NEXT_TRY_MS = 1_000
/** Beyond this many levels the oldest known ones are forgotten. */
const MOST_LEVELS = 1_000

export interface MadeClaim {
  /** Those that were looked through, as in its request. */
  queues: readonly string[]
  exact: boolean
  jobs: readonly JobRow[]
  /** It was answered in full. */
  plenty: boolean
  /** How many rows it wrote, of jobs that it settled too. */
  rows: number
  /** Undefined where somebody else's lock took its time: that says nothing of the way to the jobs. */
  tookMs: number | undefined
}

/** What is known of the last claim of certain queues, in their order: what is exact for some says nothing of others. */
interface LastClaim {
  exact: boolean
  /** It was answered in full. */
  plenty: boolean
  /** Until then those of many rows are from here. */
  brieflyUntil: number
}

const NONE: LastClaim = { exact: true, plenty: false, brieflyUntil: -Infinity }

export class Places {
  readonly #known = new Map<string, Place>()
  #early: string[] = []
  #fromHere = false
  readonly #last = new Map<string, LastClaim>()
  /** The latest of the last claims' times. */
  #brieflyUntil = -Infinity
  /** Exact claims in a row that took longer than they should. */
  #slow = 0
  #trustedUntil = -Infinity
  #scouting = false
  #scoutFrom = 0

  /** From where to claim, or undefined for an exact claim. */
  choose(request: ClaimRequest, now: number): FromHere | undefined {
    const { plenty, brieflyUntil } = this.#lastOf(request.queues)
    const briefly = request.limit >= MANY_ROWS && now < brieflyUntil
    if (!this.#fromHere && !briefly) return undefined
    // In a backlog, of which many jobs may have one time, what was late to come can wait for the next exact claim.
    const places = briefly && plenty ? this.#ends(request.queues) : this.known(request.queues)
    return places.length > 0 ? { places, early: this.#early.splice(0, request.limit) } : undefined
  }

  /** The places in these queues, in the order of claiming: a little before the ends. */
  known(queues: readonly string[]): Place[] {
    return this.#ends(queues).map((place) => ({ ...place, runAfter: place.runAfter - MARGIN_MS, id: '' }))
  }

  /** Where the claims have ended. */
  #ends(queues: readonly string[]): Place[] {
    return queues.flatMap((queue) =>
      [...this.#known.values()].filter((place) => place.queue === queue).sort((a, b) => a.priority - b.priority),
    )
  }

  /** Answers whether it was one slow claim too many. */
  learn({ queues, exact, jobs, plenty, rows, tookMs }: MadeClaim, now: number): boolean {
    for (const job of jobs) this.#advance(job)
    const size = rows >= MANY_ROWS ? 'many' : 'few'
    let { brieflyUntil } = this.#lastOf(queues)
    if (exact && size === 'many')
      brieflyUntil = now + Math.min(BRIEFLY.atMostMs, Math.max(BRIEFLY.atLeastMs, BRIEFLY.times * (tookMs ?? 0)))
    this.#last.set(orderOf(queues), { exact, plenty, brieflyUntil })
    this.#brieflyUntil = Math.max(this.#brieflyUntil, brieflyUntil)
    if (!exact) return false
    if (!this.#fromHere) this.#early = []
    if (tookMs === undefined) return false
    const slow = tookMs - rows * UNSUSPICIOUS_MS_PER_ROW > UNSUSPICIOUS[size]
    this.#slow = slow ? this.#slow + 1 : 0
    if (this.#slow < SUSPICIOUS_RUN[size] || now < this.#trustedUntil || this.#known.size === 0) return false
    this.#fromHere = true
    this.#slow = 0
    this.#scoutFrom = now
    return true
  }

  /** Jobs were inserted here, perhaps into a level that is new or before the place that is known. */
  inserted(rows: readonly Place[], now: number): void {
    if (this.#known.size === 0) return
    for (const row of rows) {
      const place = this.#known.get(keyOf(row))
      if (!place) this.#begin(row)
      else if ((this.#fromHere || now < this.#brieflyUntil) && row.runAfter <= place.runAfter) this.#early.push(row.id)
    }
  }

  /** Whether a scout is to be sent now; whoever is told so sends it and tells what became of it. */
  wantsScout(now: number): boolean {
    if (!this.#fromHere || this.#scouting || now < this.#scoutFrom) return false
    this.#scouting = true
    return true
  }

  /** In how many milliseconds to claim again, or to send a scout, for what the last claim may have missed; Infinity when it missed nothing. */
  againInMs(queues: readonly string[], now: number): number {
    const { exact, brieflyUntil } = this.#lastOf(queues)
    if (!this.#fromHere) return exact ? Infinity : Math.max(0, brieflyUntil - now)
    return this.#scouting ? Infinity : Math.max(0, this.#scoutFrom - now)
  }

  /** Whether the last claim of these queues may have missed what the next one finds. */
  partial(queues: readonly string[]): boolean {
    return !this.#fromHere && !this.#lastOf(queues).exact
  }

  scouted(found: readonly Place[], tookMs: number, now: number): void {
    this.#scouting = false
    for (const job of found) {
      if (!this.#known.has(keyOf(job))) this.#begin(job)
      this.#early.push(job.id)
    }
    this.#scoutFrom = now + tookMs / SHARE
    if (tookMs > QUICK_SCOUT_MS) return
    this.#fromHere = false
    this.#early = []
    this.#trustedUntil = now + TRUST_MS
  }

  scoutFailed(now: number): void {
    this.#scouting = false
    this.#scoutFrom = now + NEXT_TRY_MS
  }

  #lastOf(queues: readonly string[]): LastClaim {
    return this.#last.get(orderOf(queues)) ?? NONE
  }

  /** A new level, of which this is the first job that is known. */
  #begin({ queue, priority, runAfter }: Place): void {
    this.#know({ queue, priority, runAfter, id: '' })
  }

  /** Jobs of one level come in order. One that was only inserted may be far from due, and says nothing of those that are. */
  #advance({ queue, priority, runAfter, id }: JobRow): void {
    const place = this.#known.get(keyOf({ queue, priority }))
    if (place && place.id !== '' && runAfter < place.runAfter) return
    this.#know({ queue, priority, runAfter, id })
  }

  #know(place: Place): void {
    this.#known.delete(keyOf(place))
    this.#known.set(keyOf(place), place)
    if (this.#known.size > MOST_LEVELS) this.#known.delete(this.#known.keys().next().value!)
  }
}

function orderOf(queues: readonly string[]): string {
  return JSON.stringify(queues)
}

function keyOf({ queue, priority }: Pick<Place, 'queue' | 'priority'>): string {
  return `${priority} ${queue}`
}
