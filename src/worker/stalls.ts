/** Notices when the event loop stood still, and names the jobs that may have blocked it. */
import type { Logger } from '../logger.js'
import type { AttemptFacts } from './options.js'

/** Longer than a garbage collection or a busy machine takes. Milliseconds. */
const STALL_MS = 2_000

export class Stalls {
  readonly #logger: Logger
  #lookedAt = performance.now()
  #suspects: AttemptFacts[] = []

  constructor(logger: Logger) {
    this.#logger = logger
  }

  /** The first job starts: until now nothing was looked at. */
  begin(): void {
    this.#lookedAt = performance.now()
    this.#suspects = []
  }

  /** A job has ended: if nothing else has had a turn for long, it was this one that took it. */
  ended(facts: () => AttemptFacts): void {
    if (performance.now() - this.#lookedAt > STALL_MS) this.#suspects.push(facts())
  }

  /** To be called every `everyMs` while jobs run. */
  look(everyMs: number, running: () => readonly AttemptFacts[]): void {
    const now = performance.now()
    const stoodMs = now - this.#lookedAt - everyMs
    this.#lookedAt = now
    const suspects = this.#suspects.splice(0)
    if (stoodMs < STALL_MS) return
    const jobs = [...suspects, ...running()].map(({ type, id }) => `${type} ${id}`)
    this.#logger.warn(
      { stoodMs: Math.round(stoodMs), jobs },
      `the event loop stood still for ${(stoodMs / 1_000).toFixed(1)} s while these jobs ran, of which one blocked it if nothing else in this process did: ${jobs.slice(0, 5).join(', ')}${jobs.length > 5 ? ' ...' : ''}; long computations need a thread of their own`,
    )
  }
}
