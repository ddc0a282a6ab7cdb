/**
 * The claim loop: keeps the slots full and carries settlements to the store.
 *
 *   exchange: one call to the store settles what has ended and claims what fits, in one commit. One is in flight at most.
 *   waiting:  claimed jobs that have no slot yet, the prefetch. They start before anything new is claimed.
 *   asleep:   the last claim came back short. Woken by a change in the store, by the next due job, or by the poll.
 *
 * How many are claimed: one for each free slot, and beyond that only what the measured pace would start within
 * `PREFETCH_MS`, at most `prefetch`. Short jobs come in large batches, and a long job never sits behind another in a worker
 * that cannot start it: what has waited for `HAND_BACK_MS` goes back.
 *
 * When the store fails, settlements are kept and tried again, with growing pauses; nothing is claimed meanwhile. What has no answer
 * may have taken effect all the same. The token of such a claim is remembered, and what a heartbeat shows to be held under it is
 * handed back. Such a settlement, when it is found to be lost at the next try, is looked for in its row.
 *
 * A settlement whose row somebody else has locked is set aside, and tried again apart from the exchanges, which would wait for it.
 */
import { uuidv7 } from 'uuidv7'
import { isOutage } from '../outage.js'
import type { ClaimResult, JobRow, SettleOutcome, Store } from '../store.js'
import { isLeftBy, type ClaimSettlement } from './maintenance.js'
import { Pace } from './pace.js'
import { LONGEST_TIMER_MS } from '../timers.js'

/** The prefetch is what would start within this time at the present pace. Milliseconds. */
const PREFETCH_MS = 20
const HAND_BACK_MS = 500
const FIRST_PAUSE_MS = 100
const LONGEST_PAUSE_MS = 5_000
const LOCKED_PAUSE_MS = 1_000
const MOST_UNANSWERED = 1_000

export interface LoopEnv {
  store: Store
  workerId(): string
  queues(): readonly string[]
  types(): readonly string[]
  concurrency: number
  prefetch: number
  pollIntervalMs: number
  /** Starts a claimed job in a free slot; the loop is told of its end through `slotFreed`. */
  start(row: JobRow): void
  /** The settlement of a claimed job that was never started. */
  handBack(row: JobRow): ClaimSettlement
  /** A settlement was answered. One that was `locked` is kept, and answered again. */
  settled(settlement: ClaimSettlement, outcome: SettleOutcome): void
  /** The store refused to claim for this worker; wake the loop once it has registered anew. */
  leaseLost(): void
  /** What is written in place of a settlement that the store cannot write. */
  unwritable(settlement: ClaimSettlement, error: unknown): ClaimSettlement
  /** The store failed; it will be tried again. */
  failed(error: unknown, pauseMs: number): void
  recovered(): void
}

type ClaimAnswer = ClaimResult & { settled: SettleOutcome[] }

export class ClaimLoop {
  readonly #env: LoopEnv
  #outbox: ClaimSettlement[] = []
  #waiting: JobRow[] = []
  #running = 0
  #starts = 0
  #claiming = true
  #awake = true
  /** The last claim was answered in full: there may be more. */
  #plenty = false
  #exchanging = false
  /** Settlements that are still to be written one by one: until then, what ends meanwhile waits. */
  #heldSingly = 0
  #scheduled = false
  #closed = false
  #inFlight = 0
  /** Nothing is asked of the store until the timer has run out. */
  #paused = false
  /** The length of the last pause since the store last served a call. */
  #pauseMs = 0
  #timer: NodeJS.Timeout | undefined
  #staleTimer: NodeJS.Timeout | undefined
  readonly #pace = new Pace()
  #idleCallbacks: (() => void)[] = []
  /** The tokens of claims whose answer was lost, oldest first. */
  readonly #unanswered = new Set<string>()
  /** Settlements that had no answer. */
  readonly #doubtful = new WeakSet<ClaimSettlement>()
  #locked: ClaimSettlement[] = []
  readonly #toldLocked = new WeakSet<ClaimSettlement>()
  #lockedTimer: NodeJS.Timeout | undefined

  constructor(env: LoopEnv) {
    this.#env = env
  }

  /** Something may be due. With nothing else to do it is looked for at once. */
  wake(): void {
    this.#awake = true
    if (this.#running > 0 || this.#exchanging || this.unsettled > 0 || this.#paused) this.#schedule()
    else void this.#exchange()
  }

  /** A started job has ended; `settlement` is null when nothing is to be written. */
  slotFreed(settlement: ClaimSettlement | null): void {
    this.#running--
    this.#pace.ended()
    if (settlement) this.#outbox.push(settlement)
    this.#startWaiting()
    if (this.#running === 0) this.#pace.pause()
    this.#schedule()
  }

  /** Writes a settlement whose job holds no slot (any more). */
  settle(settlement: ClaimSettlement): void {
    this.#outbox.push(settlement)
    this.#schedule()
  }

  /** Whether a claim may be held of which nobody here knows. */
  get doubts(): boolean {
    return this.#unanswered.size > 0
  }

  /** Those of the claims whose answer was lost: nobody here knows of them. */
  unanswered<Claim extends { token: string }>(claims: readonly Claim[]): Claim[] {
    return claims.filter(({ token }) => this.#unanswered.has(token))
  }

  /** Returns claimed jobs that were not started. */
  handBack(rows: readonly JobRow[]): void {
    for (const row of rows) {
      // A claim is made whole or not at all, so that what is held under its token is seen at once.
      this.#unanswered.delete(row.claimToken!)
      this.settle(this.#env.handBack(row))
    }
  }

  /** Claims nothing more, and hands back what has not started. */
  stopClaiming(): void {
    this.#claiming = false
    this.#handBackWaiting()
    this.#schedule()
  }

  /** Forgets the claims that have not started: their lease is lost. */
  dropWaiting(): void {
    this.#waiting = []
  }

  /** Resolves once nothing runs, nothing is left to settle, and a claim, if any is still made, has found nothing. */
  idle(): Promise<void> {
    return new Promise((resolve) => {
      this.#idleCallbacks.push(resolve)
      this.wake()
    })
  }

  /** Ends the loop, whatever is left. */
  close(): void {
    this.#closed = true
    this.#claiming = false
    this.#outbox = []
    this.#waiting = []
    this.#locked = []
    clearTimeout(this.#timer)
    clearTimeout(this.#lockedTimer)
    clearTimeout(this.#staleTimer)
  }

  /** Settlements that are not known to be written. */
  get unsettled(): number {
    return this.#outbox.length + this.#inFlight + this.#locked.length
  }

  #schedule(): void {
    if (this.#closed || this.#scheduled || this.#exchanging || this.#paused) return
    this.#scheduled = true
    // After this turn of the event loop: what ends in it is settled together.
    setImmediate(() => {
      this.#scheduled = false
      // What was scheduled before a pause is left to its timer, which an exchange would take away.
      if (!this.#paused) void this.#exchange()
    })
  }

  async #exchange(): Promise<void> {
    if (this.#exchanging || this.#closed) return
    const limit = this.#limit()
    const settling = this.#heldSingly > 0 ? 0 : this.#outbox.length
    if (limit === 0 && settling === 0) return this.#checkIdle()
    const settlements = settling > 0 ? this.#takeOutbox() : []
    this.#exchanging = true
    if (limit > 0) {
      this.#awake = false
      clearTimeout(this.#timer)
    }
    const token = uuidv7()
    let answer: ClaimAnswer
    try {
      answer = await this.#call(settlements, limit, token)
    } catch (error) {
      this.#exchanging = false
      if (limit > 0) this.#doubt(token)
      return this.#notSettled(settlements, error)
    }
    this.#exchanging = false
    this.#accept(settlements, limit, answer)
  }

  #takeOutbox(): ClaimSettlement[] {
    const settlements = this.#outbox
    this.#outbox = []
    this.#inFlight += settlements.length
    return settlements
  }

  #notSettled(settlements: readonly ClaimSettlement[], error: unknown): void {
    if (settlements.length > 0 && !isOutage(error)) void this.#settleSingly(settlements)
    else this.#retryLater(settlements, error)
  }

  /** One of them cannot be written: it must not hold up the others, nor its job, which fails for it. */
  async #settleSingly(settlements: readonly ClaimSettlement[]): Promise<void> {
    for (const [i, settlement] of settlements.entries()) {
      this.#heldSingly = settlements.length - i
      try {
        await this.#settleOne(settlement)
      } catch (error) {
        this.#heldSingly = 0
        if (isOutage(error)) return this.#retryLater(settlements.slice(i), error)
        this.#inFlight--
        return this.#retryLater(settlements.slice(i + 1), error)
      }
    }
    this.#heldSingly = 0
    this.#awake = true
    this.#schedule()
  }

  async #settleOne(settlement: ClaimSettlement): Promise<void> {
    let claim = settlement
    let outcomes: SettleOutcome[]
    try {
      outcomes = await this.#env.store.settle([claim])
    } catch (error) {
      if (isOutage(error)) throw error
      claim = this.#env.unwritable(settlement, error)
      outcomes = await this.#env.store.settle([claim])
    }
    this.#settled([claim], outcomes)
  }

  /** Settlements in flight were answered. */
  #settled(settlements: readonly ClaimSettlement[], outcomes: readonly SettleOutcome[]): void {
    const doubtful: ClaimSettlement[] = []
    settlements.forEach((settlement, i) => {
      const outcome = outcomes[i]!
      if (outcome === 'locked') this.#setAside(settlement)
      else if (outcome === 'lost' && this.#doubtful.has(settlement)) doubtful.push(settlement)
      else this.#told(settlement, outcome)
    })
    if (doubtful.length > 0) void this.#lookFor(doubtful)
  }

  #told(settlement: ClaimSettlement, outcome: SettleOutcome): void {
    this.#inFlight--
    this.#env.settled(settlement, outcome)
  }

  async #lookFor(settlements: readonly ClaimSettlement[]): Promise<void> {
    // Where the rows cannot be read, nobody can say that they were written.
    const rows = await this.#env.store.get(settlements.map(({ id }) => id)).catch(() => [])
    settlements.forEach((settlement, i) => this.#told(settlement, isLeftBy(settlement, rows[i]) ? 'settled' : 'lost'))
    this.#schedule()
  }

  #setAside(settlement: ClaimSettlement): void {
    this.#inFlight--
    if (this.#closed) return
    this.#locked.push(settlement)
    if (!this.#toldLocked.has(settlement)) this.#env.settled(settlement, 'locked')
    this.#toldLocked.add(settlement)
    this.#lockedTimer ??= setTimeout(() => void this.#settleLocked(), LOCKED_PAUSE_MS)
  }

  async #settleLocked(): Promise<void> {
    this.#lockedTimer = undefined
    const settlements = this.#locked
    this.#locked = []
    this.#inFlight += settlements.length
    try {
      this.#settled(settlements, await this.#env.store.settle(settlements))
    } catch (error) {
      return this.#notSettled(settlements, error)
    }
    this.#schedule()
  }

  #doubt(token: string): void {
    this.#unanswered.add(token)
    if (this.#unanswered.size > MOST_UNANSWERED) this.#unanswered.delete(this.#unanswered.values().next().value!)
  }

  async #call(settlements: readonly ClaimSettlement[], limit: number, token: string): Promise<ClaimAnswer> {
    const { store, workerId, queues, types } = this.#env
    if (limit === 0) return { alive: true, jobs: [], nextDueInMs: null, settled: await store.settle(settlements) }
    return store.claim({ workerId: workerId(), token, queues: queues(), types: types(), limit }, settlements)
  }

  #accept(settlements: readonly ClaimSettlement[], limit: number, answer: ClaimAnswer): void {
    this.#answered()
    this.#waiting.push(...answer.jobs)
    this.#settled(settlements, answer.settled)
    this.#pace.measure()
    if (!answer.alive) this.#env.leaseLost()
    if (!this.#claiming) this.#handBackWaiting()
    this.#startWaiting()
    // A full batch means that there may be more; a short one, that there is nothing due but what a wake-up will tell.
    if (limit > 0) this.#plenty = answer.jobs.length === limit
    if (limit > 0 && !this.#plenty) this.#sleep(answer.nextDueInMs)
    this.#schedule()
  }

  /** The store has served a call. */
  #answered(): void {
    if (this.#pauseMs === 0) return
    this.#pauseMs = 0
    this.#paused = false
    this.#env.recovered()
  }

  #sleep(nextDueInMs: number | null): void {
    if (this.#closed) return
    const wait = Math.min(this.#env.pollIntervalMs, nextDueInMs ?? Infinity, LONGEST_TIMER_MS)
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.wake(), Math.max(1, wait))
  }

  #retryLater(settlements: readonly ClaimSettlement[], error: unknown): void {
    this.#inFlight -= settlements.length
    if (this.#closed) return
    for (const settlement of settlements) this.#doubtful.add(settlement)
    this.#outbox = [...settlements, ...this.#outbox]
    this.#awake = true
    this.#pauseMs = Math.min(LONGEST_PAUSE_MS, Math.max(FIRST_PAUSE_MS, this.#pauseMs * 2))
    this.#env.failed(error, this.#pauseMs)
    clearTimeout(this.#timer)
    this.#paused = true
    this.#timer = setTimeout(() => {
      // Not only when the store has served a call: there may be nothing to ask of it until the next job has ended.
      this.#paused = false
      void this.#exchange()
    }, this.#pauseMs)
  }

  /** How many to claim now. */
  #limit(): number {
    if (!this.#claiming || !(this.#awake || this.#plenty)) return 0
    const prefetch = Math.min(this.#env.prefetch, Math.floor(this.#pace.perMs * PREFETCH_MS))
    const most = this.#env.concurrency + prefetch
    // A crash strands no more than this: what has ended and waits to be written goes with the claim, as a rule.
    const late = this.#heldSingly > 0 ? this.#heldSingly + this.#outbox.length : 0
    const room = most - this.#running - this.#waiting.length - late
    // With a prefetch, claiming one at a time would give its worth away: a claim waits until the batch is worth it.
    return this.#waiting.length > prefetch / 2 ? 0 : Math.max(0, room)
  }

  #startWaiting(): void {
    while (this.#running < this.#env.concurrency && this.#waiting.length > 0) {
      if (this.#running++ === 0) this.#pace.begin()
      this.#starts++
      this.#env.start(this.#waiting.shift()!) // May end at once, and so come back here.
    }
    if (this.#waiting.length > 0) this.#watchStale()
  }

  /** Hands back what waits if nothing could be started in all of `HAND_BACK_MS`. */
  #watchStale(): void {
    const startsBefore = this.#starts
    this.#staleTimer ??= setTimeout(() => {
      this.#staleTimer = undefined
      if (this.#starts === startsBefore) this.#handBackWaiting()
      else if (this.#waiting.length > 0) this.#watchStale()
    }, HAND_BACK_MS)
  }

  #handBackWaiting(): void {
    if (this.#waiting.length === 0) return
    const rows = this.#waiting
    this.#waiting = []
    this.#pace.forget()
    this.handBack(rows)
  }

  #checkIdle(): void {
    if (this.#running > 0 || this.#waiting.length > 0 || this.unsettled > 0) return
    if (this.#exchanging || ((this.#awake || this.#plenty) && this.#claiming)) return
    for (const callback of this.#idleCallbacks.splice(0)) callback()
  }
}
