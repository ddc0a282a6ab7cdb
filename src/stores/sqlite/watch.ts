/**
 * Noticing changes. Commits of this store call the listeners directly. Those of other processes, and of other stores in
 * this one, are noticed by asking SQLite for `data_version`, which costs a few microseconds; waking up to ask costs more.
 * So the operating system is asked to hint at writes to the log, and the timer is slow while the hints arrive. A hint may
 * come before its commit can be seen: after a hint, as after a change, it asks after 1 ms and then at growing distances.
 * Where there are no hints (network file systems, some containers) it asks more often instead. Nothing is asked while
 * nobody watches. None of this keeps the process alive: whoever waits for something must.
 */
import { watch as watchFile, type FSWatcher } from 'node:fs'
import type { Change } from '../../store.js'
import type { Database } from './database.js'

const FASTEST_MS = 1
const HINTED = { slowestMs: 250, share: 1 / 4 }
const UNHINTED = { slowestMs: 10, share: 1 / 50 }
/** So many changes in a row that no hint had announced mean that hints do not work here. */
const MISSES = 3

export class Watcher {
  readonly #database: Database
  readonly #listeners = new Set<(change: Change) => void>()
  #version: number | undefined
  #changedAt = 0
  #timer: NodeJS.Timeout | undefined
  #told = false
  #hints: FSWatcher | undefined
  #hinted = false
  #misses = 0

  constructor(database: Database) {
    this.#database = database
  }

  add(listener: (change: Change) => void): () => void {
    // A function of its own for each call, so that the same listener may watch twice.
    const entry = (change: Change): void => listener(change)
    this.#listeners.add(entry)
    if (this.#listeners.size === 1) this.#start()
    return () => {
      this.#listeners.delete(entry)
      if (this.#listeners.size === 0) this.#stop()
    }
  }

  /** A commit of this store. Listeners are called once for all commits of this turn of the event loop. */
  changed(): void {
    if (this.#listeners.size === 0 || this.#told) return
    this.#told = true
    setImmediate(() => {
      this.#told = false
      this.#tell()
    })
  }

  clear(): void {
    this.#listeners.clear()
    this.#stop()
  }

  #start(): void {
    if (!this.#database.onFile) return
    this.#version = this.#database.dataVersion()
    this.#changedAt = performance.now()
    this.#misses = 0
    this.#listen()
    this.#schedule()
  }

  #stop(): void {
    clearTimeout(this.#timer)
    this.#hints?.close()
    this.#hints = undefined
  }

  #listen(): void {
    try {
      this.#hints = watchFile(`${this.#database.path}-wal`, { persistent: false }, (event) => {
        if (event === 'rename') this.#stopListening()
        else this.#hint()
      })
      this.#hints.on('error', () => this.#stopListening())
    } catch {
      // No log yet, or no watches left: the timer alone serves.
      this.#hints = undefined
    }
  }

  #stopListening(): void {
    this.#hints?.close()
    this.#hints = undefined
  }

  /** Writes of this store hint too, many in one turn of the event loop: one look serves them all. */
  #hint(): void {
    if (this.#hinted) return
    this.#hinted = true
    setImmediate(() => {
      if (this.#listeners.size === 0) return
      clearTimeout(this.#timer)
      this.#changedAt = performance.now()
      this.#look()
    })
  }

  #schedule(): void {
    const { slowestMs, share } = this.#hints && this.#misses < MISSES ? HINTED : UNHINTED
    const pauseMs = Math.min(slowestMs, Math.max(FASTEST_MS, (performance.now() - this.#changedAt) * share))
    this.#timer = setTimeout(() => this.#look(), pauseMs)
    this.#timer.unref()
  }

  #look(): void {
    const version = this.#database.dataVersion()
    const changed = version !== undefined && version !== this.#version
    if (changed) {
      const now = performance.now()
      const announced = this.#hinted || now - this.#changedAt < HINTED.slowestMs
      this.#misses = announced ? 0 : this.#misses + 1
      this.#version = version
      this.#changedAt = now
    }
    this.#hinted = false
    this.#schedule()
    if (changed) this.#tell()
  }

  #tell(): void {
    // What has changed is not to be seen in a version number.
    for (const listener of this.#listeners) listener('any')
  }
}
