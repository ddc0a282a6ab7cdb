/** What the suites share: clocks and statistics, child processes in a role, raw access to a SQLite file. */
import { fork } from 'node:child_process'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const HERE = dirname(fileURLToPath(import.meta.url))
export const ROOT = dirname(HERE)
export const TMP = join(HERE, '.tmp')

/** CLOCK_MONOTONIC in milliseconds: comparable between the processes of one machine. */
export const now = () => Number(process.hrtime.bigint()) / 1e6
export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))
export const log = (...words) => process.stderr.write(`${words.join(' ')}\n`)

export function median(values) {
  const sorted = values.filter((value) => Number.isFinite(value)).toSorted((a, b) => a - b)
  if (sorted.length === 0) return NaN
  const middle = sorted.length >> 1
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
}

export function percentile(values, share) {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? NaN
}

/**
 * One process in a role (producer, worker or control), driven by calls to the commands of child.mjs. A worker tells how many
 * jobs have started through a pipe that it writes to synchronously: a peer may drain without yielding to its event loop.
 */
export class Child {
  static #alive = new Set()
  /** What a worker has told: how many jobs had started at which moment, and what it had cost until then. */
  progress = [{ count: 0, at: NaN, cpuSeconds: 0, peakMiB: 0 }]
  #process
  #calls = new Map()
  #exited
  #lastId = 0

  constructor(target) {
    const options = { cwd: HERE, stdio: ['ignore', 'inherit', 'inherit', 'pipe', 'ipc'] }
    this.#process = fork(join(HERE, 'child.mjs'), [JSON.stringify(target)], options)
    Child.#alive.add(this)
    this.#exited = new Promise((resolve) => this.#process.once('exit', resolve))
    this.#process.on('message', ({ id, error, answer }) => {
      const call = this.#calls.get(id)
      this.#calls.delete(id)
      if (error === undefined) call?.resolve(answer)
      else call?.reject(new Error(`${target.name}: ${error}`))
    })
    this.#process.on('exit', () => {
      Child.#alive.delete(this)
      for (const { reject } of this.#calls.values())
        reject(new Error(`${target.name}: a process of the benchmark ended too early`))
    })
    this.#readProgress()
    this.ready = this.#expect('ready')
  }

  /** Ends those that a failed measurement has left. */
  static async killAll() {
    await Promise.all([...Child.#alive].map((child) => child.kill()))
  }

  call(command, args = {}) {
    const id = ++this.#lastId
    this.#process.send({ id, command, args })
    return this.#expect(id)
  }

  /** Starts the worker; answers with the moment right before it began to connect. */
  async work(args = {}) {
    const started = this.#expect('work')
    // Answered only when the worker is up, which for some peers is when the queue is empty.
    this.call('work', args).catch(() => undefined)
    return (await started).at
  }

  get count() {
    return this.progress.at(-1).count
  }

  /** Ends the process at once: what it would still write is of no interest. */
  async kill() {
    this.#calls.clear()
    this.#process.kill('SIGKILL')
    await this.#exited
  }

  #expect(id) {
    return new Promise((resolve, reject) => this.#calls.set(id, { resolve, reject }))
  }

  #readProgress() {
    let rest = ''
    this.#process.stdio[3].on('error', () => undefined)
    this.#process.stdio[3].on('data', (chunk) => {
      const lines = (rest + chunk).split('\n')
      rest = lines.pop()
      for (const line of lines) this.progress.push(JSON.parse(line))
    })
  }
}

/** Waits until the workers have started n jobs between them, or for `mostMs`. Answers whether all have started. */
export async function startedJobs(workers, n, mostMs) {
  const from = now()
  while (workers.reduce((sum, { count }) => sum + count, 0) < n) {
    if (now() - from > mostMs) return false
    await sleep(2)
  }
  return true
}

/** A SQLite file, with the driver that is measured, for filling and looking. */
export function openFile(driver, file) {
  const require = createRequire(import.meta.url)
  const Database = driver === 'node:sqlite' ? require('node:sqlite').DatabaseSync : require('better-sqlite3')
  const database = new Database(file)
  database.exec('PRAGMA busy_timeout = 10000')
  return database
}

export function loads(driver) {
  try {
    openFile(driver, ':memory:').close()
    return true
  } catch {
    return false
  }
}
