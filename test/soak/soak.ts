/**
 * A soak: workers and producers are real processes on a real database, and for as long as it was asked to, one after the other is
 * killed, frozen or deployed, and the database breaks. Then all is mended, what is left is let run, and the verdict follows.
 *
 * Breaks come in the order of a shuffled deck, so that even a short soak meets most of them. They overlap as they happen to, but the
 * database breaks in one way at a time, and nothing is done to a process while something else is.
 */
import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { jobtable, type WorkerOptions } from '../../src/index.js'
import { bundle } from '../support/bundle.js'
import { Keeper } from '../support/keeper.js'
import { postgresDatabase, sqliteDatabase, type BreakEnv, type SoakDatabase } from './databases.js'
import { Deck, Dice } from './dice.js'
import { Slot, SoakProcess } from './fleet.js'
import { LedgerReader, LedgerWriter, type BreakKind, type Line, type Moment } from './ledger.js'
import type { Brief } from './messages.js'
import { ask, makeTables, readTables, type Tables } from './product.js'
import { judge, type Verdict } from './verdict.js'

export interface SoakOptions {
  store: 'sqlite' | 'postgres'
  /** It ends after so many kills, or this long, whichever comes first. */
  kills: number
  ms: number
  seed: number
  /** Is told how it goes. */
  say(line: string): void
  /** Ends it at once, without a verdict. */
  signal?: AbortSignal
}

export interface SoakResult {
  lines: readonly Line[]
  tables: Tables
  verdict: Verdict
}

/** Short, so that a run is; one worker has the lease that a product has. */
const LEASE_MS = 2_000
const WORKERS: readonly WorkerOptions[] = [{}, ...Array.from({ length: 3 }, () => ({ lease: `${LEASE_MS}ms` as const }))]
const PRODUCERS = 2
/** Of each producer: what the workers can do in spite of everything, so that a job that was lost does not wait behind others. */
const JOBS_PER_SECOND = 12
/** Between one act and the next. Milliseconds. */
const PAUSE_MS = { least: 100, most: 900 }
/** Before a killed process is started again, at most. Milliseconds. */
const REFILL_MS = 1_000
const TOLD_EVERY_MS = 10_000
/** What has not ended then is stranded: three times the longest lease. Milliseconds. */
const SETTLE_MS = 90_000

/** In each deck of acts, beside one of everything else. */
const WORKER_KILLS = 7
const PRODUCER_KILLS = 3
/** Half of them are killed wherever they are. */
const WORKER_MOMENTS: readonly Moment[] = [
  'anywhere',
  'anywhere',
  'anywhere',
  'effect written',
  'effect committed',
  'handler ended',
]
const PRODUCER_MOMENTS: readonly Moment[] = ['anywhere', 'anywhere', 'order written', 'order committed']

export async function soak(options: SoakOptions): Promise<SoakResult> {
  const folder = mkdtempSync(join(tmpdir(), 'jobtable-soak-'))
  const ends: (() => unknown)[] = []
  const keeper = new Keeper(folder)
  ends.push(() => keeper.release())
  try {
    const program = await bundle('soak', fileURLToPath(new URL('./process.ts', import.meta.url)))
    ends.push(() => program.remove())
    const ways = WORKERS.length + PRODUCERS
    const database = options.store === 'sqlite' ? sqliteDatabase(folder) : await postgresDatabase(ways)
    ends.push(() => database.remove())
    const running = new Soak(options, database, program.script, join(folder, 'ledger.jsonl'))
    ends.push(() => running.destroy())
    return await Promise.race([running.run(), aborted(options.signal)])
  } finally {
    for (const end of ends.reverse()) await end()
  }
}

function aborted(signal: AbortSignal | undefined): Promise<never> {
  return new Promise((_, reject) => {
    const abort = (): void => reject(signal!.reason as Error)
    if (signal?.aborted) abort()
    else signal?.addEventListener('abort', abort, { once: true })
  })
}

class Soak {
  readonly #options: SoakOptions
  readonly #database: SoakDatabase
  readonly #script: string
  readonly #path: string
  readonly #ledger: LedgerWriter
  readonly #reader: LedgerReader
  readonly #dice: Dice
  readonly #processes = new Set<SoakProcess>()
  readonly #workers: Slot[]
  readonly #producers: Slot[]
  readonly #acts: Deck<() => Promise<void>>
  readonly #underWay = new Set<Promise<void>>()
  /** The database breaks in one way at a time. */
  #mended: Promise<void> = Promise.resolve()
  #failure: Error | undefined
  #kills = 0
  #over = false

  constructor(options: SoakOptions, database: SoakDatabase, script: string, path: string) {
    this.#options = options
    this.#database = database
    this.#script = script
    this.#path = path
    this.#ledger = new LedgerWriter(path)
    this.#reader = new LedgerReader(path)
    this.#dice = new Dice(options.seed)
    this.#acts = new Deck(this.#dice, [
      ...Array.from({ length: WORKER_KILLS }, () => () => this.#kill(this.#workers, this.#dice.pick(WORKER_MOMENTS))),
      ...Array.from({ length: PRODUCER_KILLS }, () => () => this.#kill(this.#producers, this.#dice.pick(PRODUCER_MOMENTS))),
      () => this.#freeze(),
      () => this.#deploy(),
      ...database.breaks.map((card) => () => this.#break(card)),
    ])
    this.#workers = WORKERS.map((each, i) => new Slot(() => this.#start({ ...this.#common(i), role: 'worker', options: each })))
    this.#producers = Array.from({ length: PRODUCERS }, (_, i) => {
      const common = this.#common(WORKERS.length + i)
      const pace = JOBS_PER_SECOND
      return new Slot(() => this.#start({ ...common, role: 'producer', seed: this.#dice.between(0, 2 ** 31), perSecond: pace }))
    })
  }

  /** By the way that each takes to the database. */
  get #slots(): readonly Slot[] {
    return [...this.#workers, ...this.#producers]
  }

  async run(): Promise<SoakResult> {
    const { url } = this.#database
    const queue = jobtable(url)
    await queue.open()
    await queue.close()
    await makeTables(url)
    await Promise.all(this.#slots.map((slot) => slot.fill()))

    const began = performance.now()
    const telling = setInterval(() => this.#options.say(this.#progress(performance.now() - began)), TOLD_EVERY_MS)
    try {
      const goesOn = (): boolean => this.#kills < this.#options.kills || this.#acts.begun
      while (goesOn() && performance.now() - began < this.#options.ms) {
        if (this.#failure) throw this.#failure
        if (this.#over) throw new Error('the soak is over')
        await this.#acts.deal()()
        await sleep(this.#dice.between(PAUSE_MS.least, PAUSE_MS.most)) // Acts that come at the same moment would be one.
      }
      await Promise.all(this.#underWay)
      if (this.#failure) throw this.#failure
      await this.#settle()
    } finally {
      clearInterval(telling)
    }
    const [lines, tables] = [this.#reader.read(), await readTables(url)]
    if (this.#reader.torn > this.#kills) throw new Error(`${this.#reader.torn} lines of the ledger cannot be read`)
    return { lines, tables, verdict: judge(lines, tables) }
  }

  /** Ends whatever still runs. A server that is being restarted is left to come back, or its end would miss it: seconds at most. */
  async destroy(): Promise<void> {
    this.#over = true
    await Promise.all([...this.#processes].map((process) => process.destroy()))
    await Promise.all(this.#underWay)
  }

  #common(way: number): Pick<Brief, 'url' | 'ledger' | 'leaseMs'> {
    return { url: this.#database.urlFor(way), ledger: this.#path, leaseMs: LEASE_MS }
  }

  #start(brief: Brief): SoakProcess {
    if (this.#over) throw new Error('the soak is over')
    const process = new SoakProcess(this.#script, brief, this.#ledger)
    this.#processes.add(process)
    return process
  }

  async #kill(slots: readonly Slot[], moment: Moment): Promise<void> {
    // The other acts of the last deck go on.
    if (this.#kills >= this.#options.kills) return
    const slot = await this.#freeSlot(slots)
    this.#kills++
    this.#begin(slot.during((process) => process.kill(moment), this.#dice.between(0, REFILL_MS)))
  }

  async #freeze(): Promise<void> {
    const slot = await this.#freeSlot(this.#workers)
    const ms = LEASE_MS * (1.2 + this.#dice.next())
    this.#begin(slot.during((process) => this.#broken('frozen', () => process.freeze(ms), this.#slots.indexOf(slot))))
  }

  async #deploy(): Promise<void> {
    const slot = await this.#freeSlot(this.#workers)
    this.#begin(slot.during((process) => this.#broken('deployed', () => process.stop(), this.#slots.indexOf(slot))))
  }

  async #break(card: SoakDatabase['breaks'][number]): Promise<void> {
    const env: BreakEnv = {
      dice: this.#dice,
      leaseMs: LEASE_MS,
      lock: () => this.#lock(),
      broken: (how, work, way) => this.#broken(how, work, way),
    }
    this.#mended = this.#mended.then(() => card(env))
    this.#begin(this.#mended)
  }

  async #freeSlot(slots: readonly Slot[]): Promise<Slot> {
    for (;;) {
      const free = slots.filter((slot) => slot.free)
      if (free.length > 0) return this.#dice.pick(free)
      if (this.#failure) throw this.#failure
      if (this.#over) throw new Error('the soak is over')
      await sleep(20)
    }
  }

  async #broken(how: BreakKind, work: () => Promise<unknown>, way?: number): Promise<void> {
    const whose = (): number[] => (way === undefined ? [] : [this.#slots[way]!.process!.pid])
    const [from, before] = [Date.now(), whose()]
    await work()
    // Another process may have come into this place meanwhile.
    this.#ledger.write({ what: 'broken', how, from, pids: [...before, ...whose()] })
  }

  async #lock(): Promise<(end: 'stop' | 'kill') => Promise<void>> {
    const locker = this.#start({ ...this.#common(0), role: 'locker' })
    await locker.ready()
    return (end) => (end === 'kill' ? locker.destroy() : locker.stop())
  }

  /** Lets it go on beside the rest. A break that fails is the soak's own fault, and ends it. */
  #begin(work: Promise<void>): void {
    const done: Promise<void> = work
      .catch((error: unknown) => void (this.#failure ??= error instanceof Error ? error : new Error(String(error))))
      .finally(() => this.#underWay.delete(done))
    this.#underWay.add(done)
  }

  /** Nothing is enqueued any more; the workers run what is there, and stop. */
  async #settle(): Promise<void> {
    await Promise.all(this.#producers.map((slot) => slot.process!.stop()))
    const open = `SELECT count(*) FROM jobs WHERE status IN ('pending', 'running', 'retrying')`
    for (const end = performance.now() + SETTLE_MS; performance.now() < end && !this.#over; await sleep(200)) {
      const [row] = await ask(this.#database.url, open)
      if (Number(row![0]) === 0) break
    }
    await Promise.all(this.#workers.map((slot) => slot.process!.stop()))
  }

  #progress(ms: number): string {
    const counts = new Map<string, number>()
    for (const line of this.#reader.read()) {
      const what = line.what === 'broken' ? line.how : line.what
      counts.set(what, (counts.get(what) ?? 0) + 1)
    }
    return `${Math.round(ms / 1_000)} s: ${[...counts].map(([what, count]) => `${what} ${count}`).join(', ')}`
  }
}
