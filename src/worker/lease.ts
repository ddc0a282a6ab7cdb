/**
 * Keeps a worker's lease, and with it all of its claims. While the event loop is blocked, `Heart` does.
 *
 * A heartbeat extends the lease, and answers with the claims that the store knows of: an attempt that is not among them has
 * lost its claim, and one that is marked has been asked to stop. When the lease had run out already, every claim is lost, for
 * another worker may have taken it: the attempts are abandoned, and the worker registers anew under another id.
 */
import { uuidv7 } from 'uuidv7'
import type { JobRow, Store, WorkerInfo } from '../store.js'
import type { Attempt } from './attempt.js'
import { monotonicMs } from './heart-marks.js'
import type { Heart } from './heart.js'
import { within } from '../timers.js'

/** A lease that cannot be given up runs out by itself. Milliseconds. */
const SIGN_OFF_MS = 500

export interface LeaseEnv {
  store: Store
  leaseMs: number
  heart: Heart
  attempts: ReadonlySet<Attempt>
  info(id: string): WorkerInfo
  /** The lease had run out: forget the claims that have not started. */
  lost(formerId: string): void
  /** The claims that the store knows of. */
  held(claims: readonly { id: string; token: string }[]): Promise<void>
}

export class Lease {
  readonly #env: LeaseEnv
  #workerId = uuidv7()
  /** The id that the store has confirmed to have a lease. */
  #registeredId: string | undefined
  #beating: Promise<void> | undefined
  #closed = false

  constructor(env: LeaseEnv) {
    this.#env = env
  }

  get workerId(): string {
    return this.#workerId
  }

  /** Its worker has stopped. */
  get closed(): boolean {
    return this.#closed
  }

  /**
   * Whether the claim is still this worker's, as far as this process can tell. One under a former id, or under a lease that has
   * run out while the process was stalled, may be somebody else's by now.
   */
  holds(row: JobRow): boolean {
    return row.lockedBy === this.#workerId && this.#env.heart.beats
  }

  async register(): Promise<void> {
    const since = monotonicMs()
    await this.#env.store.register(this.#env.info(this.#workerId), this.#env.leaseMs)
    this.#extended(since)
  }

  /** A registration whose answer was lost on the way is confirmed by the first heartbeat. */
  #extended(sinceMs: number): void {
    if (this.#registeredId === this.#workerId) return this.#env.heart.extended(sinceMs)
    this.#registeredId = this.#workerId
    this.#env.heart.registered(this.#workerId, sinceMs)
  }

  /** No further beat, and no row of this worker once the present one is over. Rejects when that is not done in time. */
  signOff(): Promise<void> {
    this.#closed = true
    const over = this.#beating?.catch(() => {}) // Whoever asked for it is told.
    return within(
      SIGN_OFF_MS,
      Promise.resolve(over).then(() => this.#env.store.retire(this.#workerId)),
    )
  }

  /** Extends the lease. Beats do not overlap. */
  beat(): Promise<void> {
    if (this.#closed) return Promise.resolve()
    this.#beating ??= this.#beat().finally(() => (this.#beating = undefined))
    return this.#beating
  }

  async #beat(): Promise<void> {
    const { store, leaseMs } = this.#env
    // What is claimed while the heartbeat is on its way may be missing in its answer.
    const before = [...this.#env.attempts]
    const since = monotonicMs()
    const reply = await store.heartbeat(this.#workerId, leaseMs)
    if (!reply.alive) return this.#startAnew(before)
    this.#extended(since)
    const claims = new Map(reply.claims.map((claim) => [claim.id, claim]))
    for (const attempt of before) {
      if (attempt.ended) continue
      const claim = claims.get(attempt.id)
      if (claim?.token !== attempt.token) attempt.leaseLost()
      else if (claim.cancelRequested) attempt.abort('canceled')
    }
    await this.#env.held(reply.claims)
  }

  async #startAnew(attempts: readonly Attempt[]): Promise<void> {
    const formerId = this.#workerId
    this.#workerId = uuidv7()
    this.#env.lost(formerId)
    for (const attempt of attempts) attempt.leaseLost()
    await this.register()
  }

  /** Looks whether anybody has asked a running job to stop, without waiting for the next heartbeat. */
  async checkCanceled(): Promise<void> {
    const attempts = [...this.#env.attempts]
    if (attempts.length === 0) return
    const rows = await this.#env.store.get(attempts.map(({ id }) => id))
    attempts.forEach((attempt, i) => {
      const row = rows[i]
      if (attempt.ended) return
      if (row?.claimToken !== attempt.token) attempt.leaseLost()
      else if (row.cancelRequestedAt !== null) attempt.abort('canceled')
    })
  }
}
