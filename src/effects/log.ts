/** How a running handler reads and writes what is recorded of its job. In an isolated handler, by messages to its worker. */
import { JobtableError } from '../errors.js'
import { isPassing } from '../outage.js'
import type { Fence } from '../store.js'
import type { NewStep, StepRow, StepStore } from './record.js'

export interface StepLog {
  load(): Promise<StepRow[]>
  /** Rejects with `lease_lost` when the claim is not held any more, and with `steps_changed` when the name is taken. */
  record(step: NewStep): Promise<void>
}

/** What the worker's context has for an isolated handler's sake. */
export interface Logged {
  readonly stepLog: StepLog
}

export interface StoreLogEnv {
  store: StepStore
  fence: Fence
  /** The attempt is over: nothing more is to be written. */
  ended(): boolean
  leaseLost(): void
  /** Whether the claim is still held, as far as this process can tell. */
  holds(): boolean
}

/** The value of a step is worth waiting for the database, as long as the lease may be held without it. Milliseconds. */
const PATIENCE_MS = 30_000
const FIRST_PAUSE_MS = 100
const LONGEST_PAUSE_MS = 2_000

export class StoreLog implements StepLog {
  readonly #env: StoreLogEnv

  constructor(env: StoreLogEnv) {
    this.#env = env
  }

  load(): Promise<StepRow[]> {
    return this.#patiently(() => this.#env.store.steps(this.#env.fence.id))
  }

  async record(step: NewStep): Promise<void> {
    let tries = 0
    const outcome = await this.#patiently(() => {
      tries++
      return this.#env.store.recordStep(this.#env.fence, step)
    })
    if (outcome === 'lost') {
      this.#env.leaseLost()
      throw claimLost(`${step.kind} ${step.name} is not recorded`)
    }
    // One whose answer was lost on the way may have been written at the first try.
    if (outcome === 'taken' && tries === 1) throw nameTaken(step)
    if (step.state === 'started') this.#checkHeld(step)
  }

  /**
   * The answer may have been long under way, or the process stalled: what was cut off meanwhile, or has no lease any more, must not be
   * called, for somebody else may call it. The database may know of a longer lease, and then the job is tried again.
   */
  #checkHeld({ name }: NewStep): void {
    if (this.#env.ended()) throw claimLost(`the attempt ended before the effect ${name} was called`)
    if (this.#env.holds()) return
    throw new JobtableError(
      'store_unavailable',
      `the lease could not be extended in time, so the effect ${name} is not called: another worker may have the job by now`,
    )
  }

  #patiently<T>(work: () => Promise<T>): Promise<T> {
    return patiently(work, () => (this.#env.ended() ? claimLost('the attempt has ended') : undefined))
  }
}

/** Does the work again while the database is away, until there is a reason to stop. */
export async function patiently<T>(work: () => Promise<T>, reasonToStop: () => Error | undefined): Promise<T> {
  const until = performance.now() + PATIENCE_MS
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(LONGEST_PAUSE_MS, pauseMs * 2)) {
    const reason = reasonToStop()
    if (reason) throw reason
    try {
      return await work()
    } catch (error) {
      if (!isPassing(error) || performance.now() + pauseMs > until) throw error
    }
    await new Promise((resolve) => setTimeout(resolve, pauseMs))
  }
}

export function claimLost(what: string): JobtableError {
  return new JobtableError('lease_lost', `the claim on this job is not held any more: ${what}`)
}

function nameTaken({ kind, name }: NewStep): JobtableError {
  return new JobtableError(
    'steps_changed',
    `the ${kind} ${name} cannot be recorded: the job has something done, or of another kind, under this name; give it a name of its own`,
    { data: { name } },
  )
}
