/**
 * Keeps the lease while the event loop is blocked.
 *
 * The worker extends its lease by its own heartbeats, from the event loop. A thread of its own looks whether they come. When one is
 * late, because a handler does not let go of the loop, the thread extends the lease over a connection of its own, which it opens then:
 * as long as the loop was seen within the last lease, or a job is within its timeout. A job that blocks the loop for longer than that
 * loses its claim. What the heartbeats answer is for the event loop to read, when it turns again.
 *
 * A thread that dies is told of, and started again with a lease that is extended, after a rest that doubles with each death.
 *
 * Where no other thread can open the database (one in memory, a pool of the product's, a clock of a test), and where the thread's file
 * is not beside this one (jobtable inside a bundle), the lease is only as good as the event loop.
 */
import { Worker as Thread } from 'node:worker_threads'
import { fileBeside } from '../beside.js'
import type { StoreAddress } from '../store.js'
import { HeartMarks, monotonicMs } from './heart-marks.js'

/** How long the thread may take to end by itself. Milliseconds. */
const CLOSE_MS = 500
/** The thread is told of a later end of the running jobs no more often. Milliseconds. */
const TOLD_APART_MS = 100
/** A thread that has died rests for a lease, and twice as long after each further death, but no longer than this. Milliseconds. */
const LONGEST_REST_MS = 3_600_000

export interface HeartEnv {
  /** How the thread opens the database; undefined where it cannot. */
  address: StoreAddress | undefined
  leaseMs: number
  /** The thread could not extend the lease. */
  failed(error: Error): void
  /** The thread has ended by itself. */
  died(error: Error): void
}

/** What the thread is given. */
export interface HeartData {
  address: StoreAddress
  leaseMs: number
  memory: SharedArrayBuffer
}

/** To the thread: the id of the worker from now on, or null for the end. */
export type ToHeart = { workerId: string | null }
/** From the thread: an error. */
export type FromHeart = { message: string }

export class Heart {
  readonly #env: HeartEnv
  readonly #file: string | undefined
  readonly #marks = new HeartMarks()
  /** The one that lives. */
  #thread: Thread | undefined
  #workerId: string | undefined
  #deaths = 0
  /** Not started again before. */
  #restsUntil = 0
  #closed = false
  #runsUntil = 0

  /** Without a file there is no thread. */
  constructor(env: HeartEnv, file = threadFile()) {
    this.#env = env
    this.#file = file
  }

  /** The lease has not run out, as far as this process can tell. */
  get beats(): boolean {
    return monotonicMs() < this.#marks.heldUntil
  }

  /** The worker has a lease under a new id, asked for at `sinceMs`. Starts the thread with the first one. */
  registered(workerId: string, sinceMs: number): void {
    this.#marks.heldUntil = sinceMs + this.#env.leaseMs
    this.#workerId = workerId
    if (this.#thread) this.#thread.postMessage({ workerId } satisfies ToHeart)
    else this.#startThread(workerId)
  }

  /** The worker has extended its lease by itself, by what it asked for at `sinceMs`. */
  extended(sinceMs: number): void {
    // Not before what the thread has reached meanwhile.
    this.#marks.heldUntil = Math.max(this.#marks.heldUntil, sinceMs + this.#env.leaseMs)
    if (!this.#thread && this.#workerId !== undefined) this.#startThread(this.#workerId)
  }

  /** The event loop turns, and no job may run for longer than so many milliseconds from now. */
  seen(runsForMs: number): void {
    const now = monotonicMs()
    this.#marks.seenAt = now
    this.#marks.runsUntil = this.#runsUntil = now + runsForMs
  }

  /** A job starts that may run for so many milliseconds. */
  started(runsForMs: number): void {
    const until = monotonicMs() + runsForMs
    if (until > this.#runsUntil + TOLD_APART_MS) this.#marks.runsUntil = this.#runsUntil = until
  }

  /** Ends the thread. */
  async close(): Promise<void> {
    this.#closed = true
    const thread = this.#thread
    if (!thread) return
    const ended = new Promise((resolve) => thread.once('exit', resolve))
    thread.postMessage({ workerId: null } satisfies ToHeart)
    const timer = setTimeout(() => void thread.terminate(), CLOSE_MS)
    await ended
    clearTimeout(timer)
  }

  #startThread(workerId: string): void {
    const { address, leaseMs, failed } = this.#env
    if (this.#closed || address === undefined || this.#file === undefined || monotonicMs() < this.#restsUntil) return
    const workerData: HeartData = { address, leaseMs, memory: this.#marks.memory }
    const thread = (this.#thread = new Thread(this.#file, {
      workerData,
      name: 'jobtable-heart',
      // Loaders and the like that were given to this process are not meant for it.
      execArgv: [],
      resourceLimits: { maxYoungGenerationSizeMb: 2, maxOldGenerationSizeMb: 48 },
    }))
    // What keeps the process alive is the worker.
    thread.unref()
    thread.on('message', ({ message }: FromHeart) => failed(new Error(message)))
    let cause: unknown
    thread.on('error', (error) => (cause = error))
    thread.once('exit', (code) => this.#ended(cause ?? new Error(`it ended with code ${code}`)))
    thread.postMessage({ workerId } satisfies ToHeart)
  }

  #ended(cause: unknown): void {
    this.#thread = undefined
    if (this.#closed) return
    this.#restsUntil = monotonicMs() + Math.min(LONGEST_REST_MS, this.#env.leaseMs * 2 ** this.#deaths++)
    this.#env.died(cause instanceof Error ? cause : new Error(String(cause)))
  }
}

/** Undefined inside a bundle, and for TypeScript, which not every Node reads. */
function threadFile(): string | undefined {
  const file = fileBeside(import.meta.url, './heart-thread')
  return file?.endsWith('.ts') ? undefined : file
}
