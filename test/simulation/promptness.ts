/**
 * What must happen in time where nothing is wrong. Whoever is frozen, waits in vain for the database or is about to stop is excused, and
 * has its time again once it is well. Nothing is measured where the clocks cannot be trusted.
 */
import type { JobRow } from '../../src/store.js'
import { CUT_OFF_GRACE_MS } from '../../src/worker/attempt.js'
import { processIdentity } from '../../src/worker/process-identity.js'
import type { Run } from './ledger.js'
import type { Host } from './virtual-time.js'
import type { World } from './world.js'

/** A worker looks every two seconds whether others are gone. */
const GONE_SEEN_WITHIN_MS = 2_500
/** A timeout is looked for four times a second. */
const TIMEOUT_SEEN_WITHIN_MS = 300
/** The longest pause of a claim loop whose database failed. */
const LONGEST_PAUSE_MS = 5_000
/** So long a claim waits in vain for a slot. */
const HAND_BACK_MS = 500
/** For the calls that it takes. */
const SLACK_MS = 250

interface Duty {
  host: Host
  /** In true time. */
  since: number
  withinMs: number
  /** How much longer it may take after a trouble: nothing is asked of a database that was away for so long. */
  pauseMs?: number
  isDone(): boolean
  invariant: string
  detail: string
}

export class Promptness {
  /** Until when somebody else has the row locked, or had it last: it waits so long. */
  lockedUntil: (id: string) => number = () => 0
  readonly #world: World
  readonly #hosts: ReadonlyMap<string, Host>
  readonly #isHeld: (id: string, token: string | null) => boolean

  constructor(world: World, hosts: ReadonlyMap<string, Host>, isHeld: (id: string, token: string | null) => boolean) {
    this.#world = world
    this.#hosts = hosts
    this.#isHeld = isHeld
  }

  /** A handler is told to stop by the next heartbeat, which is due within a third of the lease; one may be on its way already. */
  aborts(run: Run, invariant: string, detail: string): void {
    const { plan, time } = this.#world
    const isDone = (): boolean => run.end !== 'running' || run.attempt.signal.aborted
    this.#must({ host: run.host, since: time.now, withinMs: (2 / 3) * plan.leaseMs + SLACK_MS, isDone, invariant, detail })
  }

  /** A handler that has started is told to stop at its timeout, and left to itself when it does not. */
  times(run: Run): void {
    const { plan, time } = this.#world
    const { attempt, host } = run
    const duty = { host, since: time.now, invariant: 'timeouts are kept' }
    const withinMs = plan.timeoutMs + TIMEOUT_SEEN_WITHIN_MS
    const ended = (): boolean => run.end !== 'running' || attempt.ended
    this.#must({
      ...duty,
      withinMs,
      isDone: () => ended() || attempt.signal.aborted,
      detail: `${attempt.id} goes on after its timeout`,
    })
    const cutOffWithinMs = withinMs + CUT_OFF_GRACE_MS + TIMEOUT_SEEN_WITHIN_MS
    this.#must({ ...duty, withinMs: cutOffWithinMs, isDone: ended, detail: `${attempt.id} was not cut off` })
  }

  /** What is claimed is started, or goes back: when nothing at all could be started for half a second, or a heartbeat first tells of it. */
  starts(host: Host, { id, claimToken }: JobRow, isStarted: () => boolean): void {
    const { plan, time } = this.#world
    const withinMs = (2 / 3) * plan.leaseMs + HAND_BACK_MS * (plan.prefetch + 2) + SLACK_MS
    const isDone = (): boolean => isStarted() || !this.#isHeld(id, claimToken)
    const detail = `${id} is claimed and not started`
    const duty = { host, since: time.now, withinMs, pauseMs: LONGEST_PAUSE_MS }
    this.#must({ ...duty, isDone, invariant: 'nothing runs for ever', detail })
  }

  #must(duty: Duty): void {
    const { time, plan } = this.#world
    if (plan.clocks) return
    time.after(duty.since + duty.withinMs - time.now, null, () => {
      const { host } = duty
      if (!host.alive || host.stopping || duty.isDone()) return
      const wellSince = host.frozen ? time.now : Math.max(duty.since, host.troubledAt)
      if (wellSince > duty.since)
        this.#must({ ...duty, since: wellSince, pauseMs: 0, withinMs: duty.withinMs + (duty.pauseMs ?? 0) })
      else this.#world.fail(duty.invariant, duty.detail)
    })
  }

  /** The claims of a process that is gone are taken back as fast as is promised, if there is anybody with whom nothing is wrong. */
  recovers(host: Host, claims: readonly JobRow[]): void {
    const { plan } = this.#world
    if (plan.clocks || claims.length === 0) return
    const nearby = (other: Host): boolean => other.machine === host.machine
    // Where the system does not tell processes apart, nobody can see that one is gone.
    if (processIdentity() !== null) this.#recoversWithin(GONE_SEEN_WITHIN_MS, claims, nearby)
    this.#recoversByLease(host, this.#world.time.now, claims)
  }

  /** A last heartbeat may have been on its way when its process went. */
  #recoversByLease(host: Host, since: number, claims: readonly JobRow[]): void {
    const { plan, time } = this.#world
    const withinMs = plan.leaseMs * 1.25 + SLACK_MS
    time.after(since + withinMs - time.now, null, () => {
      if (host.beatAt > since) this.#recoversByLease(host, host.beatAt, claims)
      else this.#checkRecovered(since, claims, () => true)
    })
  }

  #recoversWithin(withinMs: number, claims: readonly JobRow[], couldSee: (host: Host) => boolean): void {
    const { time } = this.#world
    const since = time.now
    time.after(withinMs, null, () => this.#checkRecovered(since, claims, couldSee))
  }

  #checkRecovered(since: number, claims: readonly JobRow[], couldSee: (host: Host) => boolean): void {
    const wasWell = (host: Host): boolean =>
      host.alive && !host.stopping && !host.frozen && Math.max(host.upSince, host.troubledAt) < since
    const witness = [...this.#hosts.values()].find((host) => wasWell(host) && couldSee(host))
    const left = claims.find(({ id, claimToken }) => this.#isHeld(id, claimToken) && this.lockedUntil(id) < since)
    if (!witness || !left) return
    this.#world.fail(
      'lost jobs run again soon',
      `${left.id} is still held by a process that is gone, though ${witness.name} is well`,
    )
  }
}
