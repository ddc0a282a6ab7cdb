/** The processes of a soak, each in a place that is filled again when its process is gone. `process.ts` is the other end. */
import { fork, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import type { LedgerWriter, Moment } from './ledger.js'
import type { Brief, FromProcess, ToProcess } from './messages.js'

/** A moment that does not come is not waited for longer. Milliseconds. */
const MOMENT_MS = 2_000
/** A process that was told to stop has ended by then, or something is wrong. Milliseconds. */
const STOP_MS = 30_000

export class SoakProcess {
  readonly #child: ChildProcess
  readonly #ledger: LedgerWriter
  readonly #exit: Promise<unknown>
  #stderr = ''

  constructor(script: string, brief: Brief, ledger: LedgerWriter) {
    this.#ledger = ledger
    this.#child = fork(script, [JSON.stringify(brief)], { execArgv: [], stdio: ['ignore', 'ignore', 'pipe', 'ipc'] })
    this.#child.stderr?.setEncoding('utf8').on('data', (text: string) => (this.#stderr = (this.#stderr + text).slice(-2_000)))
    // A message to one that is being killed has nowhere to go.
    this.#child.on('error', () => undefined)
    this.#exit = once(this.#child, 'exit')
  }

  get pid(): number {
    return this.#child.pid!
  }

  get alive(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null
  }

  /** Resolves when it works. Rejects when it has ended before, unless it was killed. */
  async ready(): Promise<void> {
    const told = new Promise<boolean>((resolve) => this.#child.once('message', (_: FromProcess) => resolve(true)))
    if (await Promise.race([told, this.#exit.then(() => false)])) return
    if (this.#child.signalCode === null) throw new Error(`a process of the soak ended by itself:\n${this.#stderr}`)
  }

  /** Resolves when it is dead. At a moment of its own code it kills itself; when that does not come, or anywhere, this does it. */
  async kill(moment: Moment): Promise<void> {
    if (moment !== 'anywhere') {
      this.#tell({ type: 'die', moment })
      await Promise.race([this.#exit, sleep(MOMENT_MS, undefined, { ref: false })])
    }
    if (this.alive) {
      this.#ledger.write({ what: 'killed', moment: 'anywhere' }, this.pid)
      this.#child.kill('SIGKILL')
    }
    await this.#exit
  }

  /** Ends it in order. */
  async stop(): Promise<void> {
    if (!this.alive) return
    this.#tell({ type: 'stop' })
    const ended = await Promise.race([this.#exit.then(() => true), sleep(STOP_MS, false, { ref: false })])
    if (!ended) throw new Error(`process ${this.pid} of the soak did not stop:\n${this.#stderr}`)
  }

  /**
   * Freezes it for so long, be it in the middle of a write. A shell does both halves, so that a soak that is ended in between leaves
   * nothing frozen behind.
   */
  async freeze(ms: number): Promise<void> {
    const shell = spawn(
      'sh',
      ['-c', 'kill -STOP "$1" && sleep "$2"; kill -CONT "$1"', 'freeze', String(this.pid), String(ms / 1_000)],
      {
        detached: true,
        stdio: 'ignore',
      },
    )
    await once(shell, 'exit')
  }

  /** At the end of everything, whatever it is doing. */
  async destroy(): Promise<void> {
    if (this.alive) this.#child.kill('SIGKILL')
    await this.#exit
  }

  #tell(order: ToProcess): void {
    if (this.#child.connected) this.#child.send(order)
  }
}

/** Where one process after the other has its turn. */
export class Slot {
  readonly #start: () => SoakProcess
  #process: SoakProcess | undefined
  /** Its process works, and nobody is about to do anything to it. */
  #free = false

  constructor(start: () => SoakProcess) {
    this.#start = start
  }

  get free(): boolean {
    return this.#free && this.#process!.alive
  }

  get process(): SoakProcess | undefined {
    return this.#process
  }

  async fill(): Promise<void> {
    this.#process = this.#start()
    await this.#process.ready()
    this.#free = true
  }

  /** Does something to the process that nothing else is to come into. Where it has ended after that, another one comes in its place. */
  async during(work: (process: SoakProcess) => Promise<void>, pauseMs = 0): Promise<void> {
    this.#free = false
    await work(this.#process!)
    if (!this.#process!.alive) {
      await sleep(pauseMs)
      await this.fill()
    }
    this.#free = true
  }
}
