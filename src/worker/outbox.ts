/**
 * The settlements of one worker, until each has been answered.
 *
 *   waiting:   goes along with the next claim, in one commit; or apart from the claims, when there are many.
 *   in flight: the store has it. What has no answer may have taken effect all the same: when such a settlement is found to be
 *              lost at the next try, it is looked for in its row.
 *   singly:    the call was refused: each of its settlements is tried by itself, so that one which cannot be written does not
 *              hold up the others, nor its job, which fails for it.
 *   locked:    somebody else has locked its row: it is tried again apart from the others, which would wait for it.
 */
import { isOutage } from '../outage.js'
import type { SettleOutcome, Store } from '../store.js'
import { isLeftBy, type ClaimSettlement } from './maintenance.js'

const LOCKED_PAUSE_MS = 1_000

export interface OutboxEnv {
  store: Store
  /** A settlement was answered. One that was `locked` is kept, and answered again. */
  settled(settlement: ClaimSettlement, outcome: SettleOutcome): void
  /** What is written in place of a settlement that the store cannot write. */
  unwritable(settlement: ClaimSettlement, error: unknown): ClaimSettlement
  /** A call that the outbox made has been answered. */
  served(): void
  /** A call failed, and may be made again after a while; the settlements wait. */
  failed(error: unknown): void
}

export class Outbox {
  readonly #env: OutboxEnv
  #waiting: ClaimSettlement[] = []
  #inFlight = 0
  #apart = 0
  /** Those that are still to be written one by one: until then, what ends meanwhile waits. */
  #singly = 0
  #locked: ClaimSettlement[] = []
  #lockedTimer: NodeJS.Timeout | undefined
  readonly #toldLocked = new WeakSet<ClaimSettlement>()
  /** Settlements that had no answer. */
  readonly #doubtful = new WeakSet<ClaimSettlement>()
  #closed = false

  constructor(env: OutboxEnv) {
    this.#env = env
  }

  push(settlement: ClaimSettlement): void {
    this.#waiting.push(settlement)
  }

  /** How many may go with the next call. */
  get ready(): number {
    return this.#singly > 0 ? 0 : this.#waiting.length
  }

  /** How many jobs are still held for them, but for those that go with a claim and locked ones. */
  get held(): number {
    return this.#waiting.length + this.#apart + this.#singly
  }

  /** How many are not known to be written. */
  get unsettled(): number {
    return this.#waiting.length + this.#inFlight + this.#locked.length
  }

  /** All that are ready, for a call that the caller makes; it tells how that ended by `answered` or `refused`. */
  take(): ClaimSettlement[] {
    if (this.#singly > 0) return []
    const settlements = this.#waiting
    this.#waiting = []
    this.#inFlight += settlements.length
    return settlements
  }

  /** Makes a call for all that are ready, unless one is under way. */
  sendApart(): void {
    if (this.#apart > 0) return
    const settlements = this.take()
    this.#apart = settlements.length
    void this.#settle(settlements, () => (this.#apart = 0))
  }

  answered(settlements: readonly ClaimSettlement[], outcomes: readonly SettleOutcome[]): void {
    const doubtful: ClaimSettlement[] = []
    settlements.forEach((settlement, i) => {
      const outcome = outcomes[i]!
      if (outcome === 'locked') this.#setAside(settlement)
      else if (outcome === 'lost' && this.#doubtful.has(settlement)) doubtful.push(settlement)
      else this.#told(settlement, outcome)
    })
    if (doubtful.length > 0) void this.#lookFor(doubtful)
  }

  /** Their call failed. */
  refused(settlements: readonly ClaimSettlement[], error: unknown): void {
    if (settlements.length > 0 && !isOutage(error)) void this.#settleSingly(settlements)
    else this.#putBack(settlements, error)
  }

  /** Forgets them all. */
  close(): void {
    this.#closed = true
    this.#waiting = []
    this.#locked = []
    clearTimeout(this.#lockedTimer)
  }

  async #settle(settlements: readonly ClaimSettlement[], over: () => void): Promise<void> {
    let outcomes: SettleOutcome[]
    try {
      outcomes = await this.#env.store.settle(settlements)
    } catch (error) {
      over()
      return this.refused(settlements, error)
    }
    over()
    this.answered(settlements, outcomes)
    this.#env.served()
  }

  #putBack(settlements: readonly ClaimSettlement[], error: unknown): void {
    this.#inFlight -= settlements.length
    if (this.#closed) return
    for (const settlement of settlements) this.#doubtful.add(settlement)
    this.#waiting = [...settlements, ...this.#waiting]
    this.#env.failed(error)
  }

  async #settleSingly(settlements: readonly ClaimSettlement[]): Promise<void> {
    // Two calls may have been refused, and are made so at once.
    this.#singly += settlements.length
    for (const [i, settlement] of settlements.entries()) {
      try {
        await this.#settleOne(settlement)
      } catch (error) {
        this.#singly -= settlements.length - i
        if (isOutage(error)) return this.#putBack(settlements.slice(i), error)
        this.#inFlight--
        return this.#putBack(settlements.slice(i + 1), error)
      }
      this.#singly--
    }
    this.#env.served()
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
    this.answered([claim], outcomes)
  }

  #told(settlement: ClaimSettlement, outcome: SettleOutcome): void {
    this.#inFlight--
    this.#env.settled(settlement, outcome)
  }

  async #lookFor(settlements: readonly ClaimSettlement[]): Promise<void> {
    // Where the rows cannot be read, nobody can say that they were written.
    const rows = await this.#env.store.get(settlements.map(({ id }) => id)).catch(() => [])
    settlements.forEach((settlement, i) => this.#told(settlement, isLeftBy(settlement, rows[i]) ? 'settled' : 'lost'))
    this.#env.served()
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
    await this.#settle(settlements, () => {})
  }
}
