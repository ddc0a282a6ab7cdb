/**
 * Keeps the lease while the event loop is blocked.
 *
 * The worker extends its lease by its own heartbeats, from the event loop. A thread of its own looks whether they come. When one is
 * late, because a handler does not let go of the loop, the thread extends the lease over a connection of its own, which it opens then:
 * as long as the loop was seen within the last lease, or a job is within its timeout. A job that blocks the loop for longer than that
 * loses its claim. What the heartbeats answer is for the event loop to read, when it turns again.
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

export interface HeartEnv {
  /** How the thread opens the database; undefined where it cannot. */
  address: StoreAddress | undefined
  leaseMs: number
  /** The thread could not extend the lease. */
  failed(error: Error): void
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
  readonly #marks = new HeartMarks()
  #thread: Thread | undefined
  #runsUntil = 0

  constructor(env: HeartEnv) {
    this.#env = env
  }

  /** The lease has not run out, as far as this process can tell. */
  get beats(): boolean {
    return monotonicMs() < this.#marks.heldUntil
  }

  /** The worker has a lease under a new id, asked for at `sinceMs`. Starts the thread with the first one. */
  registered(workerId: string, sinceMs: number): void {
    this.#marks.heldUntil = sinceMs + this.#env.leaseMs
    this.#thread ??= this.#startThread()
    this.#thread?.postMessage({ workerId } satisfies ToHeart)
  }

  /** The worker has extended its lease by itself, by what it asked for at `sinceMs`. */
  extended(sinceMs: number): void {
    // Not before what the thread has reached meanwhile.
    this.#marks.heldUntil = Math.max(this.#marks.heldUntil, sinceMs + this.#env.leaseMs)
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
    const thread = this.#thread
    if (!thread) return
    const ended = new Promise((resolve) => thread.once('exit', resolve))
    thread.postMessage({ workerId: null } satisfies ToHeart)
    const timer = setTimeout(() => void thread.terminate(), CLOSE_MS)
    await ended
    clearTimeout(timer)
  }

  #startThread(): Thread | undefined {
    const { address, leaseMs, failed } = this.#env
    const file = threadFile()
    if (address === undefined || file === undefined) return undefined
    const workerData: HeartData = { address, leaseMs, memory: this.#marks.memory }
    const thread = new Thread(file, {
      workerData,
      name: 'jobtable-heart',
      // Loaders and the like that were given to this process are not meant for it.
      execArgv: [],
      resourceLimits: { maxYoungGenerationSizeMb: 2, maxOldGenerationSizeMb: 48 },
    })
    // What keeps the process alive is the worker.
    thread.unref()
    thread.on('message', ({ message }: FromHeart) => failed(new Error(message)))
    thread.on('error', failed)
    return thread
  }
}

/** Undefined inside a bundle, and for TypeScript, which not every Node reads. */
function threadFile(): string | undefined {
  const file = fileBeside(import.meta.url, './heart-thread')
  return file?.endsWith('.ts') ? undefined : file
}
