/**
 * Everybody who waits for something to happen to a job, in one place: one watch on the store and one read per change, however
 * many wait.
 */
import type { Duration } from './duration.js'
import { parseDuration } from './duration.js'
import { JobtableError } from './errors.js'
import type { JobRow, Store } from './store.js'

/** The net below the notifications. Milliseconds. */
const POLL_MS = 1_000
const READ_AT_ONCE = 500

interface Waiter {
  until(row: JobRow): boolean
  resolve(row: JobRow): void
  reject(error: Error): void
}

export class Waiters {
  readonly #store: Store
  readonly #waiters = new Map<string, Set<Waiter>>()
  #unwatch: (() => void) | undefined
  #poll: NodeJS.Timeout | undefined
  #checking = false
  #again = false

  constructor(store: Store) {
    this.#store = store
  }

  /** Resolves with the job's row once `until` says so of it. */
  wait(id: string, until: (row: JobRow) => boolean, timeout?: Duration): Promise<JobRow> {
    const timeoutMs = timeout === undefined ? undefined : parseDuration(timeout)
    return new Promise<JobRow>((resolve, reject) => {
      let timer: NodeJS.Timeout | undefined
      const end = (): void => {
        clearTimeout(timer)
        this.#remove(id, waiter)
      }
      const waiter: Waiter = {
        until,
        resolve: (row) => (end(), resolve(row)),
        reject: (error) => (end(), reject(error)),
      }
      if (timeoutMs !== undefined) {
        timer = setTimeout(
          () =>
            waiter.reject(
              new JobtableError('wait_timeout', `job ${id} has not ended within ${timeout}; it goes on`, { data: { id } }),
            ),
          timeoutMs,
        )
      }
      this.#add(id, waiter)
      void this.#check()
    })
  }

  /** Rejects everybody who still waits. */
  close(): void {
    for (const waiters of [...this.#waiters.values()]) {
      for (const waiter of [...waiters]) {
        waiter.reject(new JobtableError('queue_closed', 'the queue was closed while somebody waited for a job; the job goes on'))
      }
    }
  }

  #add(id: string, waiter: Waiter): void {
    const waiters = this.#waiters.get(id) ?? new Set()
    this.#waiters.set(id, waiters.add(waiter))
    this.#unwatch ??= this.#store.watch(() => void this.#check())
    this.#poll ??= setInterval(() => void this.#check(), POLL_MS)
  }

  #remove(id: string, waiter: Waiter): void {
    const waiters = this.#waiters.get(id)
    waiters?.delete(waiter)
    if (waiters?.size === 0) this.#waiters.delete(id)
    if (this.#waiters.size > 0) return
    this.#unwatch?.()
    this.#unwatch = undefined
    clearInterval(this.#poll)
    this.#poll = undefined
  }

  /** One reader at a time; a change during a read asks for one more. */
  async #check(): Promise<void> {
    if (this.#checking) {
      this.#again = true
      return
    }
    this.#checking = true
    do {
      this.#again = false
      const ids = [...this.#waiters.keys()]
      for (let i = 0; i < ids.length; i += READ_AT_ONCE) await this.#read(ids.slice(i, i + READ_AT_ONCE))
    } while (this.#again)
    this.#checking = false
  }

  async #read(ids: readonly string[]): Promise<void> {
    try {
      const rows = await this.#store.get(ids)
      ids.forEach((id, i) => this.#answer(id, rows[i]))
    } catch (cause) {
      // The store rejects with errors of ours only.
      const error = cause instanceof Error ? cause : new Error('the store failed', { cause })
      for (const id of ids) for (const waiter of [...(this.#waiters.get(id) ?? [])]) waiter.reject(error)
    }
  }

  #answer(id: string, row: JobRow | undefined): void {
    for (const waiter of [...(this.#waiters.get(id) ?? [])]) {
      if (!row) waiter.reject(jobNotFound(id))
      else if (waiter.until(row)) waiter.resolve(row)
    }
  }
}

export function jobNotFound(id: string): JobtableError {
  return new JobtableError('job_not_found', `there is no job ${id}: it never was here, or has been pruned`, { data: { id } })
}
