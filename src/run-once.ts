/** Work within a time limit, for platforms that end a process a while after its start. */
import { parseDuration, type Duration } from './duration.js'
import { Timers } from './timers.js'
import type { WorkerOptions } from './worker/options.js'
import type { Worker } from './worker/worker.js'

export interface RunOnceOptions extends Omit<WorkerOptions, 'pollInterval' | 'stopTimeout'> {
  /** The call ends within this time. Its last third, but no more than five seconds, is for running jobs to end: nothing is claimed in it. */
  budget: Duration
}

export interface RunTotals {
  succeeded: number
  failed: number
  retrying: number
  canceled: number
}

export interface RunOnceResult extends RunTotals {
  /** Nothing that these workers could run was due any more. If false, call again. */
  finished: boolean
}

const MOST_MARGIN_MS = 5_000
/** Of the margin, for aborted handlers to end and for the last writes. Milliseconds. */
const LAST_WRITES_MS = 400
/** Before the end of the budget, when a database that does not answer is waited for no longer. Milliseconds. */
const BEFORE_END_MS = 50

/**
 * Runs what is due until nothing is left or the budget is nearly spent, and stops the worker. Where the database is away, that stop is not
 * waited for to its end: what it could not write is found lost.
 */
export async function runWithin(start: () => Worker, budget: Duration): Promise<RunOnceResult> {
  const budgetMs = parseDuration(budget)
  const marginMs = Math.min(MOST_MARGIN_MS, budgetMs / 3)
  const worker = start()
  const timers = new Timers()
  const spent = timers.sleep(budgetMs - Math.min(BEFORE_END_MS, marginMs / 2))
  try {
    const idle = worker.idle().then(() => true)
    const finished = await Promise.race([idle, timers.sleep(budgetMs - marginMs).then(() => false)])
    idle.catch(() => {}) // A worker that could not start in time is stopped while it tries.
    const stopped = worker.stop({ timeout: `${Math.max(0, Math.round(marginMs) - LAST_WRITES_MS)}ms` })
    await Promise.race([stopped, spent])
    return { ...worker.totals, finished }
  } finally {
    timers.close()
    void worker.stop() // If it was not stopped above, something went wrong before.
  }
}
