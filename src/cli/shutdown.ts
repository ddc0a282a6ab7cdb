/**
 * How `work` ends.
 *
 *   working ──first signal──> stopping: nothing more is claimed, running jobs go on for the stop timeout
 *               │
 *               ├─ another signal within ECHO_MS of the first: an echo, ignored. Ctrl-C often reaches a process twice, from
 *               │  the terminal and from the program that started it.
 *               └─ a later one: forced; what still runs is handed back at once, and the process ends
 *
 * A stray rejection stops the worker as a first signal does, but is none: the signal after it is the first.
 */
import type { Worker } from '../worker/worker.js'
import { plural } from './format.js'

const ECHO_MS = 1_000
/** How long a forced end tries to hand its jobs back. */
const HAND_BACK_MS = 700
/** So many of the jobs that are waited for are named. */
const MOST_NAMED = 5

export interface ShutdownEnv {
  worker: Worker
  stopTimeout: string
  now(): number
  say(text: string): void
}

export class Shutdown {
  /** Resolves when somebody does not want to wait. */
  readonly forced: Promise<void>
  readonly #env: ShutdownEnv
  #force: (() => void) | undefined
  #firstAt: number | undefined
  #echoTold = false
  #reminder: NodeJS.Timeout | undefined

  constructor(env: ShutdownEnv) {
    this.#env = env
    this.forced = new Promise((resolve) => (this.#force = resolve))
  }

  signal(name: string): void {
    const now = this.#env.now()
    if (this.#firstAt === undefined) {
      this.#firstAt = now
      return this.#begin(name)
    }
    if (now - this.#firstAt >= ECHO_MS) return this.#force!()
    if (this.#echoTold) return
    this.#echoTold = true
    this.#env.say(`${name}: taken as an echo of the first signal`)
  }

  /** Stops because of something that went wrong, which a job that does not end may have caused. */
  stop(): void {
    void this.#env.worker.stop({ abandon: true })
  }

  close(): void {
    clearTimeout(this.#reminder)
  }

  #begin(name: string): void {
    const { worker, stopTimeout, say } = this.#env
    say(
      `${name}: stopping; running jobs have ${stopTimeout} to end, then they are handed back. A signal within 1 s is taken as an echo and ignored, a later one hands them back at once`,
    )
    void worker.stop()
    this.#reminder = setTimeout(() => {
      if (worker.running.length > 0) say(`waiting for ${named(worker)}; signal again to hand back at once`)
    }, ECHO_MS)
  }
}

function named({ running }: Worker): string {
  const names = running.slice(0, MOST_NAMED).map(({ type, id }) => `${type} ${id}`)
  return `${plural(running.length, 'job')} (${names.join(', ')}${running.length > MOST_NAMED ? ', …' : ''})`
}

/** Gives back at once what still runs, spending no attempt. Bounded in time, and never rejects. */
export async function handBack(worker: Worker, say: (text: string) => void): Promise<void> {
  if (worker.running.length > 0) say(`handing back ${named(worker)}`)
  let timer: NodeJS.Timeout | undefined
  const expired = new Promise<'expired'>((resolve) => (timer = setTimeout(() => resolve('expired'), HAND_BACK_MS)))
  const outcome = await Promise.race([worker.stop({ timeout: '0ms' }), expired])
  clearTimeout(timer)
  if (outcome === 'expired') {
    say('could not hand them back, the database took too long: they run again when the lease of this worker has run out')
  }
}
