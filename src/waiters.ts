/**
 * Everybody who waits for something to happen to a job, in one place: one watch on the store and one read of the awaited rows
 * per change, however many wait. After a read that took long there is a rest, and then one read for all that changed in it, so
 * that waiting for thousands of jobs does not read thousands of rows at every commit. Who comes is answered without a rest, by
 * a read of their own job. While the database is away they wait on.
 */
import type { Duration } from './duration.js'
import { parseDuration } from './duration.js'
import { JobtableError } from './errors.js'
import { isPassing } from './outage.js'
import type { JobRow, Store } from './store.js'

/** The net below the notifications. Milliseconds. */
const POLL_MS = 1_000
const READ_AT_ONCE = 500
/** How long to rest after a read, in lengths of that read: reading takes at most a fifth of the time. */
const REST = 4
/** No timer of Node is longer: a longer one fires at once. Milliseconds, 24.8 days. */
const LONGEST_TIMER_MS = 2_147_483_647

/** Somebody who is told of a job's row at each read of it, changed or not, until they leave or are told of a failure. */
export interface Follower {
  seen(row: JobRow): void
  /** There is no such job (any more), the queue was closed, or the database cannot be read at all. Nothing follows. */
  failed(error: Error): void
}

export class Waiters {
  readonly #store: Store
  readonly #waiters = new Map<string, Set<Follower>>()
  #unwatch: (() => void) | undefined
  #poll: NodeJS.Timeout | undefined
  /** Asked for just now, and not read yet. */
  #fresh: string[] = []
  #checking = false
  #again = false
  /** No read before this, on the clock of `performance.now()`. */
  #restUntil = 0
  #closed = false

  constructor(store: Store) {
    this.#store = store
  }

  /** Resolves with the job's row once `until` says so of it. */
  wait(id: string, until: (row: JobRow) => boolean, timeout?: Duration): Promise<JobRow> {
    if (this.#closed) return Promise.reject(queueClosed())
    const timeoutMs = timeout === undefined ? undefined : parseDuration(timeout)
    return new Promise<JobRow>((resolve, reject) => {
      let timer: NodeJS.Timeout | undefined
      const waiter: Follower = {
        seen: (row) => {
          if (!until(row)) return
          clearTimeout(timer)
          leave()
          resolve(row)
        },
        failed: (error) => {
          clearTimeout(timer)
          reject(error)
        },
      }
      if (timeoutMs !== undefined) {
        timer = setTimeout(
          () => {
            leave()
            reject(new JobtableError('wait_timeout', `job ${id} has not ended within ${timeout}; it goes on`, { data: { id } }))
          },
          Math.min(timeoutMs, LONGEST_TIMER_MS),
        )
      }
      const leave = this.follow(id, waiter)
    })
  }

  /** Tells the follower of the job's row soon, and at every read after a change. The function that it returns ends that. */
  follow(id: string, follower: Follower): () => void {
    if (this.#closed) {
      queueMicrotask(() => follower.failed(queueClosed()))
      return () => {}
    }
    this.#add(id, follower)
    if (this.#fresh.push(id) === 1) void this.#readFresh()
    return () => this.#remove(id, follower)
  }

  /** Rejects everybody who still waits, and who comes later. */
  close(): void {
    this.#closed = true
    for (const id of [...this.#waiters.keys()]) this.#fail(id, queueClosed())
  }

  #add(id: string, waiter: Follower): void {
    const waiters = this.#waiters.get(id) ?? new Set()
    this.#waiters.set(id, waiters.add(waiter))
    this.#unwatch ??= this.#store.watch(() => void this.#check())
    this.#poll ??= setInterval(() => void this.#check(), POLL_MS)
  }

  #remove(id: string, waiter: Follower): void {
    const waiters = this.#waiters.get(id)
    waiters?.delete(waiter)
    if (waiters?.size === 0) this.#waiters.delete(id)
    if (this.#waiters.size > 0) return
    this.#unwatch?.()
    this.#unwatch = undefined
    clearInterval(this.#poll)
    this.#poll = undefined
  }

  async #readFresh(): Promise<void> {
    await Promise.resolve() // What is asked for together is read together.
    const ids = this.#fresh
    this.#fresh = []
    await this.#readAll(ids)
  }

  /** One reader at a time; a change during a read or a rest asks for one more. */
  async #check(): Promise<void> {
    this.#again = true
    if (this.#checking) return
    this.#checking = true
    while (this.#again) {
      await this.#rest()
      this.#again = false
      const since = performance.now()
      await this.#readAll([...this.#waiters.keys()])
      const now = performance.now()
      this.#restUntil = now + Math.min(POLL_MS, REST * (now - since))
    }
    this.#checking = false
  }

  /** Not for parts of a millisecond, so that few are answered at once. While somebody waits, it is the poll that keeps us alive. */
  async #rest(): Promise<void> {
    const restMs = Math.floor(this.#restUntil - performance.now())
    if (restMs > 0) await new Promise((resolve) => setTimeout(resolve, restMs).unref())
  }

  async #readAll(ids: readonly string[]): Promise<void> {
    for (let i = 0; i < ids.length; i += READ_AT_ONCE) await this.#read(ids.slice(i, i + READ_AT_ONCE))
  }

  async #read(ids: readonly string[]): Promise<void> {
    try {
      const rows = await this.#store.get(ids)
      ids.forEach((id, i) => this.#answer(id, rows[i]))
    } catch (cause) {
      if (isPassing(cause)) return // The poll asks again.
      // The store rejects with errors of ours only.
      const error = cause instanceof Error ? cause : new Error('the store failed', { cause })
      for (const id of ids) this.#fail(id, error)
    }
  }

  #answer(id: string, row: JobRow | undefined): void {
    if (!row) this.#fail(id, jobNotFound(id))
    else for (const waiter of [...(this.#waiters.get(id) ?? [])]) waiter.seen(row)
  }

  #fail(id: string, error: Error): void {
    for (const waiter of [...(this.#waiters.get(id) ?? [])]) {
      this.#remove(id, waiter)
      waiter.failed(error)
    }
  }
}

function queueClosed(): JobtableError {
  return new JobtableError('queue_closed', 'the queue was closed while somebody waited for a job; the job goes on')
}

export function jobNotFound(id: string): JobtableError {
  return new JobtableError('job_not_found', `there is no job ${id}: it never was here, or has been pruned`, { data: { id } })
}
