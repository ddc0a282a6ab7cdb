/**
 * One run: a few seconds of virtual time with faults, then none until every job has come to its end, then everybody stops. The seed says
 * everything that happens.
 */
import { Actors } from './actors.js'
import { Coverage } from './coverage.js'
import { Database } from './database.js'
import type { Invariants } from './invariants.js'
import type { Variant } from './variants.js'
import { World, type Violation } from './world.js'

/** A healthy system that has not ended its jobs by then never will; nor will one in which nothing has become of any job for so long. */
const ALL_OVER_WITHIN_MS = 600_000
const STUCK_AFTER_MS = 60_000
const ALL_STOPPED_WITHIN_MS = 60_000
/** A timer that is left behind by then was forgotten. */
const REST_MS = 3_000

export interface RunOptions {
  seed: number
  variant?: Variant | undefined
  /** Filled with what happened, line by line. */
  trace?: string[]
  /** Where to add to what was met. */
  coverage?: Coverage
}

export interface RunResult {
  seed: number
  steps: number
  virtualMs: number
  violation: Violation | undefined
}

export async function simulate(options: RunOptions): Promise<RunResult> {
  const restore = options.variant?.patch?.()
  // Thousands of errors are made that nobody looks at. Whoever looks at one plays its seed again.
  const { stackTraceLimit } = Error
  if (!options.trace) Error.stackTraceLimit = 0
  try {
    return await runOnce(options)
  } finally {
    Error.stackTraceLimit = stackTraceLimit
    restore?.()
  }
}

async function runOnce({ seed, variant, trace, coverage = new Coverage() }: RunOptions): Promise<RunResult> {
  const world = new World(seed, coverage, trace)
  const { time, plan } = world
  const database = new Database(world, variant)
  const { invariants } = database
  const actors = new Actors(world, database)
  actors.begin()
  world.note(null, () => JSON.stringify(plan))

  time.after(plan.faultMs, null, () => {
    world.healthy = true
    world.note(null, () => 'no more faults')
    actors.heal()
  })
  const quietAt = plan.faultMs + plan.quietMs
  if (plan.quietMs > 0) time.after(quietAt, null, () => invariants.settledDown())

  const failed = (): boolean => world.violation !== undefined
  const over = (): boolean => time.now > quietAt && invariants.allOver && database.quiet && actors.allAnswered
  const stuckAt = (): number =>
    Math.min(plan.faultMs + ALL_OVER_WITHIN_MS, Math.max(quietAt, invariants.changedAt) + STUCK_AFTER_MS)
  await time.run(() => failed() || over() || time.now > stuckAt())
  if (!failed()) await end(world, actors, invariants)
  return { seed, steps: time.steps, virtualMs: time.now, violation: world.violation }
}

/** Everybody stops. */
async function end(world: World, actors: Actors, invariants: Invariants): Promise<void> {
  const { time } = world
  if (invariants.allOver && !actors.allAnswered) world.fail('nothing runs for ever', 'somebody still waits for an answer')
  actors.end()
  const mustStopBy = time.now + ALL_STOPPED_WITHIN_MS
  await time.run(() => world.violation !== undefined || actors.allClosed || time.now > mustStopBy)
  const restUntil = time.now + REST_MS
  await time.run(() => world.violation !== undefined || time.now > restUntil)
  if (!actors.allClosed) world.fail('a stop ends', 'a process has not stopped')
  const leaving = actors.leavingTimers
  if (leaving.length > 0) world.fail('a stop leaves nothing behind', `timers of ${leaving.join(', ')}`)
  invariants.ended()
}
