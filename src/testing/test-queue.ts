/**
 * A queue for a product's own tests: the real one, on SQLite in memory unless it is told otherwise, with a clock that moves only when it is told to.
 */
import { deepStrictEqual, ok } from 'node:assert/strict'
import { parseDuration, type Duration } from '../duration.js'
import type { Job } from '../job.js'
import type { Logger } from '../logger.js'
import { Queue } from '../queue.js'
import type { QueueOptions } from '../queue-options.js'
import type { WorkerOptions } from '../worker/options.js'
import type { Worker } from '../worker/worker.js'
import { openStore } from '../open-store.js'
import type { PgPool } from '../stores/postgres/index.js'

/** A clock that stands still until it is moved. The database of a test queue takes its time from it. */
export class FakeClock {
  #now: number

  constructor(start: Date | string = '2030-01-01T00:00:00Z') {
    this.#now = new Date(start).getTime()
  }

  /** Milliseconds since 1970. */
  now(): number {
    return this.#now
  }

  advance(duration: Duration | number): void {
    this.#now += typeof duration === 'number' ? duration : parseDuration(duration)
  }

  /** Moves to this moment, if that is later. */
  advanceTo(at: Date | number): void {
    this.#now = Math.max(this.#now, Number(at))
  }
}

const silent: Logger = { debug() {}, info() {}, warn() {}, error() {} }

export interface TestQueueOptions extends Omit<QueueOptions, 'store' | 'durability'> {
  clock?: FakeClock
  /** As for `jobtable`; for code that enqueues in transactions of its own, which must be in this database. Default: in memory. */
  database?: string | PgPool
}

/** A queue in memory, unless it is given a database. Close it at the end of the test. Logs nothing unless it is given a logger. */
export function testQueue(options: TestQueueOptions = {}): TestQueue {
  return new TestQueue(options)
}

export class TestQueue extends Queue {
  readonly clock: FakeClock

  /** @internal Use `testQueue(...)`. */
  constructor({ clock = new FakeClock(), database = 'sqlite::memory:', ...options }: TestQueueOptions) {
    super(database, { logger: silent, ...options, store: openStore(database, { ...options, clock }) })
    this.clock = clock
  }

  /** As `Queue.work`, with a lease that outlasts any move of the clock unless the options say otherwise. */
  override work(options: WorkerOptions = {}): Worker {
    return super.work({ lease: '36500d', ...options })
  }

  /**
   * Moves the clock through this long, stopping at each moment at which a job becomes due, and runs what is due there: retries,
   * delays and all.
   */
  async runFor(duration: Duration): Promise<void> {
    const end = this.clock.now() + parseDuration(duration)
    for (;;) {
      await this.drain()
      const waiting = (await this.stats()).counts.filter(({ status }) => status === 'pending' || status === 'retrying')
      const next = Math.min(...waiting.map(({ oldestRunAfter }) => oldestRunAfter).filter((at) => at > this.clock.now()))
      if (next > end) break
      this.clock.advanceTo(next)
    }
    this.clock.advanceTo(end)
  }

  /** The jobs enqueued so far, of one type or all, oldest first. */
  async enqueued(type?: string | { name: string }): Promise<Job[]> {
    const jobs = await this.list(type === undefined ? {} : { type: [nameOf(type)] }, { limit: 10_000 })
    return jobs.reverse()
  }

  /** Fails unless a job of this type, with a payload that holds all of these members, has been enqueued. Returns it. */
  async assertEnqueued(type: string | { name: string }, payload: Readonly<Record<string, unknown>> = {}): Promise<Job> {
    const jobs = await this.enqueued(type)
    const found = jobs.find((job) => holds(job.payload, payload))
    ok(
      found,
      `no ${nameOf(type)} job with ${JSON.stringify(payload)} was enqueued; there are: ${JSON.stringify(jobs.map((job) => job.payload))}`,
    )
    return found
  }

  /** Fails if a job of this type, or any job, has been enqueued. */
  async assertNothingEnqueued(type?: string | { name: string }): Promise<void> {
    const jobs = await this.enqueued(type)
    deepStrictEqual(
      jobs.map((job) => ({ type: job.type, payload: job.payload })),
      [],
      'jobs were enqueued',
    )
  }
}

function nameOf(type: string | { name: string }): string {
  return typeof type === 'string' ? type : type.name
}

function holds(payload: unknown, members: Readonly<Record<string, unknown>>): boolean {
  if (typeof payload !== 'object' || payload === null) return Object.keys(members).length === 0
  return Object.entries(members).every(([name, value]) => isEqual((payload as Record<string, unknown>)[name], value))
}

function isEqual(a: unknown, b: unknown): boolean {
  try {
    deepStrictEqual(a, b)
    return true
  } catch {
    return false
  }
}
