/** Where a test happens: a folder with a database file, queues on it, and a connection of the test's own to look into it. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
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

export class Place {
  readonly folder = mkdtempSync(join(tmpdir(), 'jobtable-faults-'))
  readonly file = join(this.folder, 'app.db')
  readonly url = `sqlite:${this.file}`

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
      if (!/\b(insert|update|delete)\b/i.test(statement)) return prepared.all(...params)
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

  /** Every run of a handler in the processes of this place, in no order. */
  ledger(): LedgerLine[] {
    const files = readdirSync(this.folder).filter((name) => name.startsWith('ledger-'))
    const lines = files.flatMap((name) => readFileSync(join(this.folder, name), 'utf8').split('\n'))
    return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as LedgerLine)
  }

  /** The runs of one job, in order. */
  runsOf(id: string): LedgerLine[] {
    return this.ledger()
      .filter((line) => line.id === id)
      .sort((a, b) => a.at - b.at)
  }

  #open({ around, ...options }: PlaceOptions, clock: FakeClock | undefined): Queue {
    const store = sqliteStore({ path: this.file, synchronous: 'normal', ...(clock && { clock }) })
    const queue = jobtable(this.url, { logger: recordingLog(), ...options, store: around ? around(store) : store })
    onTestFinished(() => queue.close())
    return queue
  }
}

/** A folder that is removed with the test. */
export function place(): Place {
  const made = new Place()
  onTestFinished(() => rmSync(made.folder, { recursive: true, force: true, maxRetries: 5 }))
  return made
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
