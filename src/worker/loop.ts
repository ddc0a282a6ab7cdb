/**
 * The claim loop: keeps the slots full and carries settlements to the store.
 *
 *   exchange: one call to the store settles what has ended and claims what fits, in one commit. One is in flight at most. Where the
 *             store works elsewhere, it asks for a third of what may be held, and before the jobs of the last one start; and many
 *             settlements go apart, on another connection. So some jobs are claimed while others run and others are written.
 *   waiting:  claimed jobs that have no slot yet, the prefetch. They start before what is claimed after them.
 *   asleep:   the last claim came back short. Woken by a change in the store, by the next due job, or by the poll.
 *
 * How many are claimed: one for each free slot, and beyond that only what the measured pace would start within
 * `PREFETCH_MS`, at most `prefetch`. Short jobs come in large batches, and a long job never sits behind another in a worker
 * that cannot start it: what has waited for `HAND_BACK_MS` goes back.
 *
 * When the store fails, settlements are kept and tried again, with growing pauses; nothing is claimed meanwhile. What has no answer
 * may have taken effect all the same. The token of such a claim is remembered, and what a heartbeat shows to be held under it is
 * handed back.
 */
import { uuidv7 } from 'uuidv7'
import type { ClaimResult, JobRow, SettleOutcome } from '../store.js'
import type { ClaimSettlement } from './maintenance.js'
import { Outbox, type OutboxEnv } from './outbox.js'
import { Pace } from './pace.js'
import { LONGEST_TIMER_MS } from '../timers.js'

/** The prefetch is what would start within this time at the present pace. Milliseconds. */
const PREFETCH_MS = 20
const HAND_BACK_MS = 500
const FIRST_PAUSE_MS = 100
const LONGEST_PAUSE_MS = 5_000
const MOST_UNANSWERED = 1_000

export interface LoopEnv extends Pick<OutboxEnv, 'store' | 'settled' | 'unwritable'> {
  workerId(): string
  queues(): readonly string[]
  types(): readonly string[]
  /** What each type says; see `ClaimRequest`. */
  maxAttempts(): ReadonlyMap<string, number>
  concurrency: number
  prefetch: number
  pollIntervalMs: number
  /** Starts a claimed job in a free slot; the loop is told of its end through `slotFreed`. */
  start(row: JobRow): void
  /** The settlement of a claimed job that was never started. */
  handBack(row: JobRow): ClaimSettlement
  /** The store refused to claim for this worker; wake the loop once it has registered anew. */
  leaseLost(): void
  /** The store failed; it will be tried again. */
  failed(error: unknown, pauseMs: number): void
  recovered(): void
}

type ClaimAnswer = ClaimResult & { settled: SettleOutcome[] }

export class ClaimLoop {
  readonly #env: LoopEnv
  readonly #outbox: Outbox
  #waiting: JobRow[] = []
  #running = 0
  #starts = 0
  #claiming = true
  #awake = true
  /** The last claim was answered in full: there may be more. */
  #plenty = false
  /** It may have missed something; the next one is made soon. */
  #partial = false
  #exchanging = false
  #scheduled = false
  #closed = false
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

  constructor(env: LoopEnv) {
    this.#env = env
    this.#outbox = new Outbox({
      store: env.store,
      settled: (settlement, outcome) => env.settled(settlement, outcome),
      unwritable: (settlement, error) => env.unwritable(settlement, error),
      served: () => this.#schedule(),
      failed: (error) => this.#pause(error),
    })
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
    this.#outbox.close()
    this.#waiting = []
    clearTimeout(this.#timer)
    clearTimeout(this.#staleTimer)
  }

  /** Settlements that are not known to be written. */
  get unsettled(): number {
    return this.#outbox.unsettled
  }

  #schedule(): void {
    if (this.#closed || this.#scheduled || this.#paused || (this.#exchanging && !this.#ahead)) return
    this.#scheduled = true
    // After this turn of the event loop: what ends in it is settled together.
    setImmediate(() => {
      this.#scheduled = false
      // What was scheduled before a pause is left to its timer, which an exchange would take away.
      if (this.#closed || this.#paused) return
      if (this.#exchanging) this.#settleApart()
      else void this.#exchange()
    })
  }

  /** When many jobs have ended, their settlements go by themselves; answers whether that is so. */
  #settleApart(): boolean {
    const many = this.#ahead && this.#outbox.ready >= this.#third()
    if (many) this.#outbox.sendApart()
    return many
  }

  async #exchange(): Promise<void> {
    if (this.#exchanging || this.#closed) return
    const settlements = this.#settleApart() ? [] : this.#outbox.take()
    const limit = this.#limit()
    if (limit === 0 && settlements.length === 0) return this.#checkIdle()
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
      this.#awake ||= limit > 0 // Where the settlements are to blame, nothing pauses.
      return this.#outbox.refused(settlements, error)
    }
    this.#exchanging = false
    this.#accept(settlements, limit, answer)
  }

  #doubt(token: string): void {
    this.#unanswered.add(token)
    if (this.#unanswered.size > MOST_UNANSWERED) this.#unanswered.delete(this.#unanswered.values().next().value!)
  }

  async #call(settlements: readonly ClaimSettlement[], limit: number, token: string): Promise<ClaimAnswer> {
    const { store, workerId, queues, types, maxAttempts } = this.#env
    if (limit === 0) return { alive: true, jobs: [], nextDueInMs: null, settled: await store.settle(settlements) }
    const request = { workerId: workerId(), token, queues: queues(), types: types(), maxAttempts: maxAttempts(), limit }
    return store.claim(request, settlements)
  }

  #accept(settlements: readonly ClaimSettlement[], limit: number, answer: ClaimAnswer): void {
    this.#answered()
    this.#waiting.push(...answer.jobs)
    this.#outbox.answered(settlements, answer.settled)
    this.#pace.measure()
    if (!answer.alive) this.#env.leaseLost()
    if (!this.#claiming) this.#handBackWaiting()
    // A full batch means that there may be more; a short one, that there is nothing due but what a wake-up will tell.
    if (limit > 0) this.#plenty = answer.jobs.length === limit
    if (limit > 0) this.#partial = answer.partial === true
    if (limit > 0 && !this.#plenty) this.#sleep(answer.nextDueInMs)
    if (this.#ahead && this.#waiting.length > this.#env.concurrency) {
      // Handlers may have no pause before they end. What is asked first is on its way by then.
      void this.#exchange()
      setImmediate(() => this.#startWaiting())
    } else this.#startWaiting()
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

  /** Some call failed. When two fail at once, it is one failure. */
  #pause(error: unknown): void {
    this.#awake = true
    if (this.#closed || this.#paused) return
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
    const most = this.#most()
    // A crash strands no more than this: what has ended and waits to be written goes with the claim, as a rule.
    const room = most - this.#running - this.#waiting.length - this.#outbox.held
    // With a prefetch, claiming one at a time would give its worth away: a claim waits until the batch is worth it.
    const withoutSlot = this.#waiting.length + this.#running - this.#env.concurrency
    if (withoutSlot > (most - this.#env.concurrency) / 2 || room < 0) return 0
    return this.#ahead ? Math.min(room, this.#third()) : room
  }

  /** How many jobs to hold: one for each slot, and what starts soon. */
  #most(): number {
    return this.#env.concurrency + Math.min(this.#env.prefetch, Math.floor(this.#pace.perMs * PREFETCH_MS))
  }

  /** One is claimed while another runs and the last is written. No fewer than the slots, which are filled at once. */
  #third(): number {
    return Math.max(this.#env.concurrency, Math.ceil(this.#most() / 3))
  }

  /** Whether there are more jobs than slots, and a store that works on them while the handlers do. */
  get #ahead(): boolean {
    return this.#env.store.parallel === true && this.#most() > this.#env.concurrency
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
    if (this.#exchanging || ((this.#awake || this.#plenty || this.#partial) && this.#claiming)) return
    for (const callback of this.#idleCallbacks.splice(0)) callback()
  }
}
