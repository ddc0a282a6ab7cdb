/**
 * The simulated database and the network in front of it. Each host has a connection, which is a `Store`: a call travels to the model
 * store, takes effect there at one moment, and its answer travels back. The invariants are checked at each such moment.
 *
 * What a call may meet:
 *   refused     the database does not serve (an outage, a lock, a full disk); nothing happened, and the caller hears so
 *   unsent      the request is lost; the caller hears of it at its deadline
 *   unanswered  it took effect, the answer is lost; the caller hears at its deadline that something is wrong
 *   late        the caller has given up at its deadline; then it takes effect
 *   slow        it takes most of its deadline, and succeeds
 *   death       the caller is gone before it arrives, or after it took effect
 */
import { JobtableError, type ErrorCode } from '../../src/errors.js'
import type { Change, Fence, FencedSettlement, JobRow, Store, WorkerRow } from '../../src/store.js'
import { RULES } from '../../src/testing/model-rules.js'
import { modelStore, type ModelStore } from '../../src/testing/model-store.js'
import { Connection, settlementsOf, type Answer, type Arguments, type Method } from './connection.js'
import { Invariants } from './invariants.js'
import { Locks } from './locks.js'
import type { Variant } from './variants.js'
import { grid, type Host } from './virtual-time.js'
import type { World } from './world.js'

const BEGAN_AT = 1_700_000_000_000
/** A settlement that was held up is tried again after a second, and takes its time. */
const LOCKED_PAUSE_MS = 1_500
const REFUSALS: readonly ErrorCode[] = ['store_busy', 'store_full', 'store_unavailable']

type Fate = 'served' | 'refused' | 'unsent' | 'unanswered' | 'late' | 'slow' | 'dead_before' | 'dead_after'

/** A result that no column can hold: the whole call that carries it is refused. */
export const UNWRITABLE = 'unwritable'

export class WriteRefused extends Error {
  override readonly name = 'WriteRefused'
}

interface Watcher {
  host: Host
  listener(change: Change): void
}

export class Database {
  readonly invariants: Invariants
  readonly locks: Locks
  /** Takes the process away at once. */
  kill: (host: Host) => void = () => {}
  /** Tells the process to stop. */
  stop: (host: Host) => void = () => {}
  readonly #world: World
  readonly #model: ModelStore
  /** The model, or the variant of it that is to be found out. */
  readonly #store: Store
  readonly #watchers = new Set<Watcher>()
  #outageUntil = 0
  /** Calls on their way that may make work. */
  #bringingWork = 0
  #clockMs = 0
  /** Which process has registered which worker. */
  readonly hosts = new Map<string, Host>()

  constructor(world: World, variant?: Variant) {
    this.#world = world
    this.#model = modelStore({ clock: { now: () => this.now }, rules: { ...RULES, ...variant?.rules } })
    // It has been set up before: rows may come from clients that could not do so.
    void this.#model.migrate()
    this.invariants = new Invariants(world, this.hosts, () => this.now)
    this.locks = new Locks(world, (id) => this.invariants.row(id))
    const real = altered(this.#model, this.locks.around(this.#model))
    this.#store = variant?.alter ? altered(real, variant.alter(real, world)) : real
    this.invariants.promptness.lockedUntil = (id) => this.locks.until(id)
  }

  /** The database's own time. */
  get now(): number {
    return grid(BEGAN_AT + this.#world.time.now + this.#clockMs)
  }

  setClock(byMs: number): void {
    this.#clockMs += byMs
  }

  outage(ms: number): void {
    this.#outageUntil = Math.max(this.#outageUntil, this.#world.time.now + ms)
  }

  get quiet(): boolean {
    return this.#bringingWork === 0
  }

  connect(host: Host): Store {
    const wire = {
      call: <M extends Method>(method: M, args: Arguments<M>) => {
        this.#noteApart(host, method)
        return this.#call(host, method, args)
      },
      watch: (listener: (change: Change) => void) => this.#watch(host, listener),
    }
    return new Connection(wire, this.#world.plan.parallel)
  }

  /** A plain INSERT by another program. */
  rawInsert(id: string, type: string, payload: string): void {
    this.#model.rawInsert({ id, type, payload, status: 'pending' })
    this.invariants.expect(id)
    this.invariants.acknowledged(id)
    void this.#observe(null, 'insert', [[]], undefined)
  }

  #watch(host: Host, listener: (change: Change) => void): () => void {
    const watcher = { host, listener }
    this.#watchers.add(watcher)
    return () => void this.#watchers.delete(watcher)
  }

  /** Whether settlements are on their way beside a claim; where rows are locked, they may be those that were set aside. */
  #noteApart(host: Host, method: Method): void {
    const { coverage, plan, time } = this.#world
    if (method === 'settle') host.settledAt = time.now
    if (method === 'claim' && host.settledAt === time.now && plan.locks === 0) coverage.count('call: settlements beside a claim')
  }

  #call<M extends Method>(host: Host, method: M, args: Arguments<M>): Promise<Answer<M>> {
    return new Promise((resolve, reject) => {
      const { random, time, coverage, plan } = this.#world
      const fate = this.#fate()
      const deadlineMs = random.between(0.2, 0.8) * plan.leaseMs
      // The way back takes its own time, and may be the slow one.
      const slowBack = fate === 'slow' && random.chance(0.5)
      const answerMs = slowBack ? deadlineMs : random.between(0.1, 4)
      const giveUp = (): void => reject(new JobtableError('store_unavailable', 'the database did not answer in time'))
      if (fate !== 'served') {
        coverage.count(`call: ${fate}`)
        host.trouble(time.now + deadlineMs)
        this.#world.note(host, () => `${method} will be ${fate}`)
      }
      if (fate === 'unsent') return void time.after(deadlineMs, host, giveUp)
      if (fate === 'late' || fate === 'unanswered') time.after(deadlineMs, host, giveUp)
      if (fate === 'dead_before') time.after(random.between(0, 2), null, () => this.kill(host))
      const travelMs =
        fate === 'late'
          ? deadlineMs + random.between(0, plan.leaseMs)
          : fate === 'slow' && !slowBack
            ? deadlineMs
            : random.between(0.1, 4)
      if (fate === 'late') host.lateUntil = Math.max(host.lateUntil, time.now + travelMs)
      const bringsWork = method === 'insert' || method === 'repair' ? 1 : 0
      this.#bringingWork += bringsWork
      time.after(travelMs, null, () => {
        this.#bringingWork -= bringsWork
        // A request of a process that died meanwhile may have been on its way, or not.
        if (!host.alive && random.chance(0.5)) return
        const refused = fate === 'refused' || (time.now < this.#outageUntil && fate !== 'late')
        if (refused) {
          host.trouble(time.now + answerMs)
          coverage.count('call: refused by the database')
          const code = random.pick(REFUSALS)
          return void time.after(answerMs, host, () => reject(new JobtableError(code, 'the database does not serve')))
        }
        this.#execute(host, method, args).then(
          (answer) => {
            if (fate === 'dead_after') this.kill(host)
            // Troubles come together: a claim that nobody here knows of, and a stop before the next heartbeat.
            const unknown = fate === 'unanswered' && method === 'claim' && (answer as Answer<'claim'>).jobs.length > 0
            if (unknown && random.chance(0.6)) time.after(deadlineMs + random.between(0, 300), null, () => this.stop(host))
            if (fate !== 'late' && fate !== 'unanswered') time.after(answerMs, host, () => resolve(answer))
          },
          (error: unknown) => {
            const reason = error instanceof Error ? error : new Error(String(error))
            time.after(answerMs, host, () => reject(reason))
          },
        )
      })
    })
  }

  #fate(): Fate {
    const { random, plan, healthy } = this.#world
    const drawn = random.next()
    if (healthy || drawn >= plan.callFaults + plan.deaths) return 'served'
    if (drawn < plan.deaths) return random.pick(['dead_before', 'dead_after'])
    return random.pick(['refused', 'unsent', 'unanswered', 'late', 'slow'])
  }

  async #execute<M extends Method>(host: Host, method: M, args: Arguments<M>): Promise<Answer<M>> {
    const settlements = settlementsOf(method, args)
    if (settlements.some(isUnwritable)) throw new WriteRefused('a value of this call cannot be stored')
    if (method === 'insert') for (const job of args[0] as Arguments<'insert'>[0]) this.invariants.expect(job.id)
    if (method === 'register') {
      host.workerId = (args[0] as Arguments<'register'>[0]).id
      this.hosts.set(host.workerId, host)
    }
    // The arguments are those of this very method, which TypeScript cannot follow.
    const execute = this.#store[method] as unknown as (...args: readonly unknown[]) => Promise<Answer<M>>
    const answer = await execute.apply(this.#store, args)
    if (method === 'heartbeat' && (answer as Answer<'heartbeat'>).alive) host.beatAt = this.#world.time.now
    for (const id of lockedOf(method, args, answer)) host.trouble(this.locks.until(id) + LOCKED_PAUSE_MS)
    await this.#observe(host, method, args, answer)
    return method === 'workers' ? (this.#seenFrom(host, answer as Answer<'workers'>) as Answer<M>) : answer
  }

  async #observe(host: Host | null, method: Method, args: readonly unknown[], answer: unknown): Promise<void> {
    const rows = await this.#model.get(this.invariants.ids)
    const { workers } = await this.#model.workers()
    const changed = this.invariants.observe({ host, method, args, answer, rows, workers })
    await this.invariants.effects.observe(method, args, answer, (id) => this.#model.steps(id))
    if (changed.length > 0) this.#notify(changed)
  }

  /** A process that is gone can be told to be from its machine, and from there only. */
  #seenFrom(host: Host, { now, workers }: Answer<'workers'>): Answer<'workers'> {
    const isGone = ({ id }: WorkerRow): boolean => {
      const its = this.hosts.get(id)
      return its !== undefined && !its.alive && its.machine === host.machine
    }
    return {
      now,
      workers: workers.map((worker) => ({ ...worker, process: isGone(worker) ? goneIdentity(worker.process) : null })),
    }
  }

  #notify(changed: readonly JobRow[]): void {
    const { random, time, plan, healthy, coverage } = this.#world
    const exactly: Change = changed.some((row) => row.status === 'pending' || row.status === 'retrying')
      ? 'due'
      : changed.some((row) => row.status === 'running' && row.cancelRequestedAt !== null)
        ? 'cancel'
        : 'state'
    for (const watcher of this.#watchers) {
      if (!healthy && random.chance(plan.notificationLoss)) {
        coverage.count('notification: lost')
        continue
      }
      time.after(random.between(0.1, 10), watcher.host, () => {
        if (this.#watchers.has(watcher)) watcher.listener(plan.exactNotifications ? exactly : 'any')
      })
    }
  }
}

/** As `process-identity.ts` writes it, of a process id that no process has. */
function goneIdentity(identity: string | null): string | null {
  return identity === null ? null : `${identity.split('/', 1)[0]}/999999999/1`
}

/** The rows whose writes were held up. */
function lockedOf(method: Method, args: readonly unknown[], answer: unknown): string[] {
  const writes = method === 'report' ? (args[0] as readonly Fence[]) : settlementsOf(method, args)
  const outcomes = method === 'claim' ? (answer as Answer<'claim'>).settled : (answer as readonly unknown[])
  return writes.filter((_, i) => outcomes[i] === 'locked').map(({ id }) => id)
}

function isUnwritable({ settlement }: FencedSettlement): boolean {
  return settlement.status === 'succeeded' && settlement.result?.includes(UNWRITABLE) === true
}

function altered(store: Store, replaced: Partial<Store>): Store {
  return new Proxy(store, {
    get(target, name: keyof Store) {
      const value = replaced[name] ?? target[name]
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}
