/** What the handlers really did, whatever the table says of it: one record for each start. */
import type { Attempt } from '../../src/worker/attempt.js'
import type { Host } from './virtual-time.js'

export type End =
  | 'running'
  | 'returned'
  | 'refused'
  | 'transient'
  | 'unknown'
  | 'permanent'
  | 'snoozed'
  | 'rate_limited'
  | 'aborted'
  | 'held'

export interface Run {
  readonly attempt: Attempt
  readonly host: Host
  readonly startedAt: number
  end: End
  endedAt: number
  /** What it has written to its stream. */
  written: string
}

export class Ledger {
  readonly runs: Run[] = []
  readonly #byClaim = new Map<string, Run>()
  readonly #starts = new Map<string, number>()
  /** How often the effect that belongs to a job's success was committed with it. */
  readonly effects = new Map<string, number>()

  begin(attempt: Attempt, host: Host, now: number): Run {
    const run: Run = { attempt, host, startedAt: now, end: 'running', endedAt: Infinity, written: '' }
    this.runs.push(run)
    this.#byClaim.set(`${attempt.id} ${attempt.token}`, run)
    this.#starts.set(attempt.id, this.startsOf(attempt.id) + 1)
    return run
  }

  startsOf(jobId: string): number {
    return this.#starts.get(jobId) ?? 0
  }

  /** The run under this claim, if its handler was started. */
  of(jobId: string, token: string | null): Run | undefined {
    return this.#byClaim.get(`${jobId} ${token}`)
  }

  /** The job is deleted: another may come under its id. */
  forget(jobId: string): void {
    this.effects.delete(jobId)
  }

  effect(jobId: string): void {
    this.effects.set(jobId, (this.effects.get(jobId) ?? 0) + 1)
  }
}
