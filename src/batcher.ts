/**
 * Enqueues that are in flight at the same time share one commit. Each caller's promise still resolves only after the commit that
 * holds its jobs, and with nothing else in flight a lone enqueue waits for nobody.
 */
import { JobtableError } from './errors.js'
import type { InsertOutcome, NewJob } from './store.js'

interface Waiting {
  jobs: readonly NewJob[]
  resolve(outcomes: InsertOutcome[]): void
  reject(error: unknown): void
}

/** So many jobs are worth a commit of their own beside another, where the store is elsewhere. */
const MANY = 100
const MOST_BESIDE = 2

/** A commit takes no more than this many jobs of several callers, so that none waits for ever. */
const LARGEST_SHARED_COMMIT = 1_000

export class InsertBatcher {
  readonly #insert: (jobs: readonly NewJob[]) => Promise<InsertOutcome[]>
  #waiting: Waiting[] = []
  readonly #beside: number
  readonly #commits = new Set<Promise<void>>()
  #flushing: Promise<void> | undefined
  #closed = false

  /** `parallel`: the store works elsewhere, while this process goes on. */
  constructor(insert: (jobs: readonly NewJob[]) => Promise<InsertOutcome[]>, parallel = false) {
    this.#insert = insert
    this.#beside = parallel ? MOST_BESIDE : 1
  }

  insert(jobs: readonly NewJob[]): Promise<InsertOutcome[]> {
    if (this.#closed) return Promise.reject(new JobtableError('queue_closed', 'the queue is closed: nothing was enqueued'))
    const outcomes = new Promise<InsertOutcome[]>((resolve, reject) => this.#waiting.push({ jobs, resolve, reject }))
    this.#flushing ??= this.#flush()
    return outcomes
  }

  /** Resolves once everything that was handed in has been answered; refuses what comes later. */
  async close(): Promise<void> {
    this.#closed = true
    await this.#flushing
    await Promise.all(this.#commits)
  }

  async #flush(): Promise<void> {
    while (this.#waiting.length > 0) {
      // The turn of the event loop ends first: what is enqueued in it belongs together.
      await new Promise(setImmediate)
      if (this.#commits.size >= this.#beside) await Promise.race(this.#commits)
      const callers = this.#take()
      const commit = this.#commit(callers).finally(() => this.#commits.delete(commit))
      this.#commits.add(commit)
      // Small ones follow each other, so that more of them come together in the next.
      if (callers.reduce((sum, { jobs }) => sum + jobs.length, 0) < MANY) await commit
    }
    this.#flushing = undefined
  }

  #take(): Waiting[] {
    let size = 0
    let count = 0
    while (count < this.#waiting.length && (count === 0 || size < LARGEST_SHARED_COMMIT))
      size += this.#waiting[count++]!.jobs.length
    return this.#waiting.splice(0, count)
  }

  async #commit(callers: readonly Waiting[]): Promise<void> {
    try {
      const outcomes = await this.#insert(callers.length === 1 ? callers[0]!.jobs : callers.flatMap(({ jobs }) => jobs))
      let start = 0
      for (const { jobs, resolve } of callers) resolve(outcomes.slice(start, (start += jobs.length)))
    } catch (error) {
      for (const { reject } of callers) reject(error)
    }
  }
}
