/**
 * What happened, as everybody who took part wrote it down: one file, to which each process appends one line per call of the system. What
 * has been written stays when its process is killed, since only processes die here and never the machine.
 *
 * A line is written before what it announces (`started`, `killed`) or after what it reports (`ended`, `settled`, `acknowledged`, `effect`), so
 * that a kill between the two errs on the side that proves nothing. A process that is killed in the middle of a line leaves a piece of
 * it: each line begins with a line break of its own, so that such a piece spoils no other line.
 */
import { openSync, readSync, writeSync } from 'node:fs'
import type { FinalStatus } from '../../src/index.js'

/** Where a process that was told to die has been killed: somewhere, or at a moment of its own code. */
export type Moment = 'anywhere' | 'order written' | 'order committed' | 'effect written' | 'effect committed' | 'handler ended'

export type BreakKind =
  | 'frozen'
  | 'deployed'
  | 'restarted'
  | 'crashed'
  | 'stalled'
  | 'cut'
  | 'stranded'
  | 'locked'
  | 'writer killed'

type Happened =
  /** A handler begins. */
  | { what: 'started'; id: string; type: string; attempt: number }
  /** A handler is over; `lost`: it threw after it was told that its job is no longer its own. */
  | { what: 'ended'; id: string; attempt: number; how: 'returned' | 'threw' | 'lost' }
  /** A worker was told that its settlement is written. */
  | { what: 'settled'; id: string; status: FinalStatus }
  /** A worker has noticed that the job is no longer its own. */
  | { what: 'lease_lost'; id: string; lease: 'short' | 'default' }
  /** A producer was told that its job is stored; `key` names its type and key where it has one. */
  | { what: 'acknowledged'; id: string; key?: string }
  /** A producer's call was rejected: what it was for may be stored, and may not. */
  | { what: 'refused'; error: string }
  /** The transaction of an effect was committed, as far as the handler was told. */
  | { what: 'effect'; effect: string; id: string }
  /** This process is about to be killed. */
  | { what: 'killed'; moment: Moment }
  /** Something was broken until now, for the processes of these ids; for everybody where there are none. */
  | { what: 'broken'; how: BreakKind; from: number; pids: readonly number[] }

export type Line = Happened & { pid: number; at: number }

export class LedgerWriter {
  readonly #file: number

  constructor(path: string) {
    this.#file = openSync(path, 'a')
  }

  /** Of this process, unless another is named. */
  write(happened: Happened, pid = process.pid): void {
    writeSync(this.#file, `\n${JSON.stringify({ ...happened, pid, at: Date.now() } satisfies Line)}\n`)
  }
}

/** Reads on where it stopped, so that a long run can be looked at often. */
export class LedgerReader {
  readonly lines: Line[] = []
  readonly #file: number
  readonly #buffer = Buffer.alloc(1 << 20)
  #rest = ''
  #offset = 0
  #torn = 0

  constructor(path: string) {
    this.#file = openSync(path, 'a+')
  }

  /** How many lines were cut off by the end of their process. */
  get torn(): number {
    return this.#torn
  }

  read(): readonly Line[] {
    for (;;) {
      const bytes = readSync(this.#file, this.#buffer, 0, this.#buffer.length, this.#offset)
      if (bytes === 0) return this.lines
      this.#offset += bytes
      // Ids, words and numbers: all of it is ASCII.
      const pieces = (this.#rest + this.#buffer.toString('latin1', 0, bytes)).split('\n')
      this.#rest = pieces.pop()!
      for (const piece of pieces) if (piece !== '') this.#take(piece)
    }
  }

  #take(piece: string): void {
    try {
      this.lines.push(JSON.parse(piece) as Line)
    } catch {
      this.#torn++
    }
  }
}
