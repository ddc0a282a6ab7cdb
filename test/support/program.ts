/**
 * A server program that a test runs: as an account that it accepts, with a folder of its own in the temporary folder. Both go
 * when `remove` is called or this process ends.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ACCOUNT, giveToServers } from './account.js'
import { Keeper } from './keeper.js'

export class Program {
  readonly name: string
  readonly folder: string
  readonly #keeper: Keeper
  #process: ChildProcess | undefined
  #log = ''

  constructor(name: string) {
    this.name = name
    this.folder = mkdtempSync(join(tmpdir(), `jobtable-${name}-`))
    this.#keeper = new Keeper(this.folder)
    chmodSync(this.folder, 0o755)
    giveToServers(this.folder)
  }

  /** Writes a file into the folder, which the program may read; gives its path. */
  write(file: string, text: string): string {
    const path = join(this.folder, file)
    writeFileSync(path, text, { mode: 0o600 })
    giveToServers(path)
    return path
  }

  /** Starts it and resolves when it has said that it is ready. */
  async start(command: string, args: readonly string[], ready: RegExp): Promise<void> {
    const program = spawn(command, args, {
      ...ACCOUNT,
      cwd: this.folder,
      // Ctrl-C is for the tests, which end their servers in order.
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    this.#process = program
    this.#keeper.watch(program.pid)
    this.#log = ''
    await new Promise<void>((resolve, reject) => {
      const read = (text: string): void => {
        this.#log = (this.#log + text).slice(-10_000)
        if (ready.test(this.#log)) resolve()
      }
      program.stdout.setEncoding('utf8').on('data', read)
      program.stderr.setEncoding('utf8').on('data', read)
      program.once('error', reject)
      program.once('exit', () => {
        this.#process = undefined
        this.#keeper.watch(undefined)
        reject(new Error(`${this.name} ended:\n${this.#log}`))
      })
    })
  }

  get running(): boolean {
    return this.#process !== undefined
  }

  /** The end of what it has said since its last start. */
  get log(): string {
    return this.#log
  }

  async stop(signal: NodeJS.Signals): Promise<void> {
    if (!this.#process) return
    const exited = once(this.#process, 'exit')
    this.#process.kill(signal)
    await exited
  }

  /** Ends it, if it runs, and removes its folder. */
  async remove(): Promise<void> {
    await this.#keeper.release()
  }
}

/** Gives what `work` gives; where that fails, nothing of the program is left. */
export async function orRemove<Result>(program: Program, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work()
  } catch (error) {
    await program.remove()
    throw error
  }
}
