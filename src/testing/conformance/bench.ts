/** What the conformance tests work with: a fresh store, its clock, and short ways to say what most tests do first. */
import assert from 'node:assert/strict'
import { canonicalJson, type JsonValue } from '../../json.js'
import type {
  ClaimRequest,
  ClaimResult,
  Fence,
  FencedSettlement,
  JobRow,
  NewJob,
  SettleOutcome,
  Store,
  WorkerInfo,
} from '../../store.js'
import type { HistoryEntry, Settlement } from '../../transition.js'
import type { RawColumns } from '../model-rules.js'
import { newJob } from '../new-job.js'
import { startChild, type Child } from './process.js'
import type { OpenedStore, StoreHarness, TestClock } from './suite.js'

export const LEASE_MS = 30_000

export class Bench {
  readonly store: Store
  readonly clock: TestClock
  readonly harness: StoreHarness
  readonly #opened: OpenedStore
  readonly #handles: Store[]
  readonly #children: Child[] = []
  readonly #known = new Set<string>()
  #count = 0

  constructor(opened: OpenedStore, harness: StoreHarness) {
    this.store = opened.store
    this.clock = opened.clock
    this.harness = harness
    this.#opened = opened
    this.#handles = [opened.store]
  }

  async close(): Promise<void> {
    await Promise.all(this.#children.map((child) => child.kill()))
    await Promise.all(this.#handles.map((store) => store.close()))
    await this.#opened.close()
  }

  /** Starts a process that opens the same database and waits for orders. */
  async process(): Promise<Child> {
    if (this.#opened.processes === undefined) throw missing('processes', 'open() gives no `processes`')
    const child = await startChild(this.#opened.processes)
    this.#children.push(child)
    return child
  }

  /** Another handle, not migrated. */
  async anotherRaw(): Promise<Store> {
    if (this.#opened.another === undefined) throw missing('another', 'open() gives no `another`')
    const store = await this.#opened.another()
    this.#handles.push(store)
    return store
  }

  async another(): Promise<Store> {
    const store = await this.anotherRaw()
    await store.migrate()
    return store
  }

  async rawInsert(columns: Partial<RawColumns> = {}): Promise<JobRow> {
    if (this.#opened.rawInsert === undefined) throw missing('rawInsert', 'open() gives no `rawInsert`')
    const id = columns.id ?? this.id()
    await this.#opened.rawInsert({ type: 'mail', payload: '{"to":"ann"}', status: 'pending', ...columns, id })
    return this.row(id)
  }

  /** Ids that sort in the order in which they were made, as jobtable's own do. */
  id(): string {
    return `job-${String(++this.#count).padStart(6, '0')}`
  }

  token(): string {
    return `token-${++this.#count}`
  }

  job(columns: Partial<NewJob> = {}): NewJob {
    return newJob({ id: this.id(), ...columns })
  }

  /** Inserts jobs that nothing stands against. */
  async insert(...jobs: Partial<NewJob>[]): Promise<JobRow[]> {
    const outcomes = await this.store.insert((jobs.length === 0 ? [{}] : jobs).map((columns) => this.job(columns)))
    return outcomes.map((outcome) => {
      assert.equal(outcome.type, 'inserted')
      return outcome.type === 'inserted' ? outcome.row : assert.fail()
    })
  }

  async insertOne(columns: Partial<NewJob> = {}): Promise<JobRow> {
    return (await this.insert(columns))[0]!
  }

  async row(id: string): Promise<JobRow> {
    const [row] = await this.store.get([id])
    return row ?? assert.fail(`there is no job ${id}`)
  }

  worker(id = 'worker-1'): WorkerInfo {
    return { id, host: 'host', pid: 4711, process: null, queues: ['default'], types: ['mail'], concurrency: 10 }
  }

  /** Registers the worker, or extends the lease that it has. */
  async register(id = 'worker-1', leaseMs = LEASE_MS): Promise<void> {
    this.#known.add(id)
    const { alive } = await this.store.heartbeat(id, leaseMs)
    if (!alive) await this.store.register(this.worker(id), leaseMs)
  }

  /** Claims, for a worker that registers first where the test has not said so. */
  async claim(
    request: Partial<ClaimRequest> = {},
    settlements?: readonly FencedSettlement[],
  ): Promise<ClaimResult & { settled: SettleOutcome[] }> {
    const { workerId = 'worker-1' } = request
    if (!this.#known.has(workerId)) await this.register(workerId)
    const all: ClaimRequest = {
      workerId,
      token: this.token(),
      queues: ['default'],
      types: ['mail'],
      limit: 100,
      ...request,
    }
    return this.store.claim(all, settlements)
  }

  async claimIds(request: Partial<ClaimRequest> = {}): Promise<string[]> {
    return idsOf((await this.claim(request)).jobs)
  }

  /** A job that runs, held by a registered worker. */
  async running(columns: Partial<NewJob> = {}, workerId = 'worker-1'): Promise<JobRow> {
    const { id, type, queue } = await this.insertOne(columns)
    await this.register(workerId)
    const { jobs } = await this.claim({ workerId, types: [type], queues: [queue] })
    return jobs.find((job) => job.id === id) ?? assert.fail('the job was not claimed')
  }

  async settle(row: JobRow, settlement: Settlement, write: Partial<FencedSettlement> = {}): Promise<SettleOutcome> {
    const [outcome] = await this.store.settle([settling(row, settlement, write)])
    return outcome ?? assert.fail('settle gave no answer')
  }

  /** A job that ran once and ended so. */
  async finished(status: 'succeeded' | 'failed' | 'canceled', columns: Partial<NewJob> = {}): Promise<JobRow> {
    const row = await this.running(columns)
    assert.equal(await this.settle(row, { succeeded, failed: failed(), canceled: canceled() }[status]), 'settled')
    return this.row(row.id)
  }
}

function missing(need: string, what: string): Error {
  return new Error(`${what}: add it to the harness, or say in \`without.${need}\` why this database has none`)
}

export function idsOf(rows: readonly { id: string }[]): string[] {
  return rows.map((row) => row.id)
}

export function fence({ id, claimToken }: JobRow): Fence {
  return { id, token: claimToken }
}

export function settling(row: JobRow, settlement: Settlement, write: Partial<FencedSettlement> = {}): FencedSettlement {
  return { ...fence(row), settlement, maxAttempts: 5, keepForMs: null, ...write }
}

export function entry(parts: Partial<HistoryEntry> = {}): HistoryEntry {
  return { attempt: 1, kind: 'transient', code: 'timeout', message: 'the connection timed out', ...parts }
}

export const succeeded: Settlement = { status: 'succeeded', result: '{"ok":true}' }

export function failed(parts: Partial<HistoryEntry> = {}): Settlement & { status: 'failed' } {
  return {
    status: 'failed',
    entry: entry({ kind: 'permanent', code: 'bad_input', ...parts }),
    userMessage: 'Please check the address.',
  }
}

export function canceled(noted: HistoryEntry | null = null): Settlement & { status: 'canceled' } {
  return { status: 'canceled', entry: noted }
}

export function retrying(parts: Partial<Settlement & { status: 'retrying' }> = {}): Settlement & { status: 'retrying' } {
  return { status: 'retrying', delayMs: 0, attempts: 1, waits: 0, entry: entry(), ...parts }
}

/** The same JSON value; a database may keep it as another text. */
export function sameJson(actual: string | null, expected: string): void {
  assert.ok(actual !== null, 'there is no JSON text')
  assert.equal(canonicalJson(JSON.parse(actual) as JsonValue), canonicalJson(JSON.parse(expected) as JsonValue))
}

/** The claim is over and leaves nothing behind that looks like an owner. */
export function assertReleased(row: JobRow): void {
  const { lockedAt, lockedBy, claimToken } = row
  assert.deepEqual({ lockedAt, lockedBy, claimToken }, { lockedAt: null, lockedBy: null, claimToken: null })
}
