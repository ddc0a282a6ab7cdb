/** What one run is like: how large, how fast, and which faults it meets. Drawn from the seed before anything happens. */
import type { Random } from './random.js'

/** The job type whose payload takes time to be checked. */
export const SLOW_TYPE = 'export'

export interface Plan {
  /** Worker processes, the sweeper not counted. */
  workers: number
  machines: number
  concurrency: number
  prefetch: number
  /** The store works elsewhere, as PostgreSQL does: workers claim ahead, and settle apart from their claims. */
  parallel: boolean
  leaseMs: number
  pollMs: number
  stopTimeoutMs: number
  timeoutMs: number
  maxAttempts: number
  jobs: number
  /** Most jobs take no time, so that workers claim ahead. */
  brisk: boolean
  /** How long faults go on. */
  faultMs: number
  /** The share of calls that meet a fault of their own. */
  callFaults: number
  /** The share of calls during which the caller dies. */
  deaths: number
  crashes: number
  pauses: number
  stops: number
  outages: number
  /** How often somebody locks a running row, and holds it. */
  locks: number
  /** How often a person cancels or repairs something. */
  interventions: number
  /** How often somebody looks for jobs that are held, and resolves one. */
  looks: number
  /** Clocks leap, stand still, go at rates of their own, and the database's is set forward and back. */
  clocks: boolean
  notificationLoss: number
  /** The share of jobs that have an effect at the provider. */
  effects: number
  /** The share of calls of the provider that meet a fault. */
  providerFaults: number
  /** Whether watchers hear what kind of change it was. */
  exactNotifications: boolean
  /** How long finished jobs are kept. */
  retentionMs: number
  /** How long the healthy system is looked at even when every job is over. */
  quietMs: number
}

export function planOf(random: Random): Plan {
  const leaseMs = random.pick([1_000, 2_000, 4_000])
  return {
    workers: random.whole(2, 3),
    machines: random.whole(1, 2),
    concurrency: random.whole(1, 4),
    prefetch: random.pick([0, 0, 2, 8]),
    leaseMs,
    pollMs: random.pick([300, 1_000, 2_000]),
    stopTimeoutMs: random.pick([0, 500, 2_000]),
    timeoutMs: random.pick([1_500, 3_000, 6_000]),
    maxAttempts: random.whole(1, 4),
    jobs: random.whole(3, 12),
    brisk: random.chance(0.2),
    faultMs: random.between(2, 9) * 1_000,
    callFaults: random.pick([0, 0.02, 0.08, 0.25]),
    deaths: random.pick([0, 0, 0.01, 0.03]),
    crashes: random.whole(0, 3),
    pauses: random.whole(0, 3),
    stops: random.whole(0, 3),
    outages: random.pick([0, 0, 1, 2]),
    interventions: random.whole(0, 8),
    looks: random.whole(0, 8),
    clocks: random.chance(0.25),
    notificationLoss: random.pick([0, 0.1, 0.5, 1]),
    effects: random.pick([0, 0.2, 0.6]),
    providerFaults: random.pick([0.1, 0.4, 0.8]),
    exactNotifications: random.chance(0.5),
    retentionMs: random.pick([2_000, 3_600_000]),
    quietMs: random.chance(0.25) ? 2 * leaseMs + 8_000 : 0,
    locks: random.pick([0, 0, 0, 4]),
    parallel: random.chance(0.5),
  }
}
