/** Where a test happens: a folder with a database file, queues on it, and a connection of the test's own to look into it. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { onTestFinished } from 'vitest'
import { jobtable, type Job, type Logger, type Queue, type QueueOptions, type Status, type Store } from '../../../src/index.js'
import { openDriver, type SqlRow, type SqlValue } from '../../../src/stores/sqlite/driver.js'
import { sqliteStore } from '../../../src/stores/sqlite/index.js'
import { FakeClock } from '../../../src/testing/index.js'
import type { LedgerLine } from './messages.js'

export interface LogLine {
  level: keyof Logger
  facts: Record<string, unknown>
  message: string
}

/** A logger that remembers. */
export interface Log extends Logger {
  readonly lines: LogLine[]
}

export function recordingLog(): Log {
  const lines: LogLine[] = []
  const at = (level: keyof Logger) => (facts: object, message: string) => {
    lines.push({ level, facts: { ...facts }, message })
  }
  return { lines, debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}

export interface PlaceOptions extends Omit<QueueOptions, 'store'> {
  /** Changes what the store does, for what a test wants to see or to hold up. */
  around?: (store: Store) => Store
}

/** What a process of a test is given. */
export interface Site {
  /** The database. */
  readonly url: string
  /** For its files. */
  readonly folder: string
  /** Whether no other connection is in the middle of a write. */
  writable(): boolean | Promise<boolean>
}

/** What the processes of a folder have run. */
export class Ledger {
  readonly folder: string

  constructor(folder: string) {
    this.folder = folder
  }

  /** Every run of a handler in the processes of this place, in no order. */
  ledger(): LedgerLine[] {
    const lines = this.#files().flatMap((file) => readFileSync(file, 'utf8').split('\n'))
    return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as LedgerLine)
  }

  /** The runs of one job, in order. */
  runsOf(id: string): LedgerLine[] {
    return this.ledger()
      .filter((line) => line.id === id)
      .sort((a, b) => a.at - b.at)
  }

  /** How much it holds, without reading it. */
  get bytes(): number {
    return this.#files().reduce((sum, file) => sum + statSync(file).size, 0)
  }

  /** How much of it is of this process. */
  bytesOf(pid: number): number {
    return statSync(join(this.folder, `ledger-${pid}.jsonl`)).size
  }

  #files(): string[] {
    const names = readdirSync(this.folder).filter((name) => name.startsWith('ledger-'))
    return names.map((name) => join(this.folder, name))
  }
}

/** A folder that is removed with the test. */
export function folder(): string {
  const made = mkdtempSync(join(tmpdir(), 'jobtable-faults-'))
  onTestFinished(() => rmSync(made, { recursive: true, force: true, maxRetries: 5 }))
  return made
}

export class Place extends Ledger implements Site {
  readonly file: string
  readonly url: string

  constructor() {
    super(folder())
    this.file = join(this.folder, 'app.db')
    this.url = `sqlite:${this.file}`
  }

  /** A queue in this process, in real time. */
  queue(options: PlaceOptions = {}): Queue {
    return this.#open(options, undefined)
  }

  /** A queue in this process, whose database takes its time from the clock. */
  clockQueue(options: PlaceOptions = {}, clock = new FakeClock()): { queue: Queue; clock: FakeClock } {
    return { queue: this.#open(options, clock), clock }
  }

  /** One statement on a connection of the test's own; answers with the rows as arrays. */
  sql(statement: string, ...params: SqlValue[]): SqlRow[] {
    const driver = openDriver(this.file)
    try {
      driver.exec('PRAGMA busy_timeout = 20000')
      const prepared = driver.prepare(statement)
      if (!/\b(insert|update|delete|create)\b/i.test(statement)) return prepared.all(...params)
      prepared.run(...params)
      return []
    } finally {
      driver.close()
    }
  }

  /** Whether no other connection is in the middle of a write. */
  writable(): boolean {
    const driver = openDriver(this.file)
    try {
      driver.exec('PRAGMA busy_timeout = 0')
      driver.exec('BEGIN IMMEDIATE')
      driver.exec('ROLLBACK')
      return true
    } catch {
      return false
    } finally {
      driver.close()
    }
  }

  #open({ around, ...options }: PlaceOptions, clock: FakeClock | undefined): Queue {
    const store = sqliteStore({ path: this.file, synchronous: 'normal', ...(clock && { clock }) })
    const queue = jobtable(this.url, { logger: recordingLog(), ...options, store: around ? around(store) : store })
    onTestFinished(() => queue.close())
    return queue
  }
}

export function place(): Place {
  return new Place()
}

/** Waits until the probe answers with something true. The limit only ends a test that would hang. Milliseconds. */
export async function until<Answer>(
  what: string,
  probe: () => Answer | Promise<Answer>,
  limitMs = 40_000,
): Promise<NonNullable<Answer>> {
  for (const end = performance.now() + limitMs; performance.now() < end; await sleep(20)) {
    const answer = await probe()
    if (answer) return answer
  }
  throw new Error(`it did not come to pass: ${what}`)
}

/** The job, once it has this status. */
export function untilStatus(queue: Queue, id: string, ...statuses: Status[]): Promise<Job> {
  return until(`job ${id} is ${statuses.join(' or ')}`, async () => {
    const job = await queue.get(id)
    return job && statuses.includes(job.status) ? job : undefined
  })
}

/** Something to wait at until the test opens it. */
export interface Gate {
  readonly opened: Promise<void>
  open(): void
}

export function gate(): Gate {
  let open!: () => void
  const opened = new Promise<void>((resolve) => (open = resolve))
  return { opened, open }
}

/** A store with some of its methods replaced; the rest is the store's own. */
export function changed(store: Store, changes: Partial<Store>): Store {
  return { ...store, ...changes }
}
