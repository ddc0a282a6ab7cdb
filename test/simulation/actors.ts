/**
 * Who acts in a run: worker processes and a sweeper under a supervisor that starts them again, producers that enqueue and try again, a
 * person who cancels and repairs, another program that inserts rows by hand, and fate.
 */
import type { EffectCall } from '../../src/effects/effect.js'
import { JobtableError } from '../../src/errors.js'
import type { FileStore } from '../../src/files.js'
import type { Job } from '../../src/job.js'
import type { Logger } from '../../src/logger.js'
import { Queue } from '../../src/queue.js'
import { isFinal, type Status } from '../../src/transition.js'
import type { Worker } from '../../src/worker/worker.js'
import { WriteRefused, type Database } from './database.js'
import { defineTypes, payloadOf, TYPES } from './handlers.js'
import { Host } from './virtual-time.js'
import { describe, type World } from './world.js'

interface Process {
  host: Host
  queue: Queue
  worker: Worker | undefined
  closed: boolean
}

const noFiles: FileStore = {
  write: () => Promise.reject(new Error('no handler stores a file here')),
  read: () => Promise.reject(new Error('no handler stores a file here')),
  exists: () => Promise.resolve(false),
  delete: () => Promise.resolve(),
}

/** Beyond its own `stopTimeout`: the grace, the last writes, the sign-off, the last enqueues, and what the way there and back takes. */
const STOP_ENDS_WITHIN_MS = 300 + 5_000 + 500 + 2_000 + 1_000

export class Actors {
  readonly #world: World
  readonly #database: Database
  readonly #slots: (Process | undefined)[] = []
  readonly #others: Process[] = []
  #generation = 0
  #ending = false
  /** Enqueues that a producer has not given up and that have not been answered. */
  #enqueuing = 0
  /** Those who wait for a result. */
  #waiting = 0
  /** What people do that is not over. */
  #intervening = 0

  constructor(world: World, database: Database) {
    this.#world = world
    this.#database = database
    database.kill = (host) => this.#crash(host)
    database.stop = (host) => {
      const slot = this.#slots.findIndex((process) => process?.host === host)
      if (slot !== -1) this.#stopAndStart(slot)
    }
  }

  /** Sets up everybody, and everything that will happen to them. */
  begin(): void {
    const { plan } = this.#world
    for (let slot = 0; slot <= plan.workers; slot++) this.#start(slot)
    for (let i = 0; i < 2; i++) this.#produce(this.#open(`producer${i + 1}`, false), Math.ceil(plan.jobs / 2))
    const person = this.#open('person', false)
    for (let i = 0; i < plan.interventions; i++) this.#sometime(() => this.#intervene(person))
    for (let i = 0; i < plan.looks; i++) this.#sometime(() => this.#lookAfterHeld(person))
    if (this.#world.random.chance(0.3)) this.#sometime(() => this.#insertByHand())
    this.#planFaults()
  }

  /** No more faults: who is frozen goes on, who is gone comes back. */
  heal(): void {
    for (const process of [...this.#slots, ...this.#others]) {
      if (process?.host.frozen) this.#resume(process.host)
    }
  }

  /** Everybody closes, as processes do that are told to end. */
  end(): void {
    this.#ending = true
    for (const process of [...this.#slots, ...this.#others]) {
      if (process?.host.alive && !process.closed) this.#close(process)
    }
  }

  get allAnswered(): boolean {
    return this.#enqueuing === 0 && this.#waiting === 0 && this.#intervening === 0
  }

  get allClosed(): boolean {
    return [...this.#slots, ...this.#others].every((process) => !process?.host.alive || process.closed)
  }

  /** Names those that have left a timer behind. */
  get leavingTimers(): string[] {
    const closed = [...this.#slots, ...this.#others].filter((process) => process?.host.alive && process.host.timers > 0)
    return closed.map((process) => process!.host.name)
  }

  #open(name: string, works: boolean): Process {
    const { world } = { world: this.#world }
    const { time, random, plan } = world
    const { invariants } = this.#database
    const host = new Host(name, random.whole(1, plan.machines), time.now)
    if (plan.clocks) host.rate = random.between(0.9, 1.1)
    const day = 86_400_000
    const retention = works ? (`${plan.retentionMs}ms` as const) : (`${day}ms` as const)
    const queue = new Queue('simulation', {
      store: this.#database.connect(host),
      files: noFiles,
      logger: this.#logger(host),
      retention: { succeeded: retention, failed: '1d', canceled: '1d' },
    })
    defineTypes(queue, host, world, { started: (run) => invariants.started(run), effects: invariants.effects }, () =>
      this.#crash(host),
    )
    const process: Process = { host, queue, worker: undefined, closed: false }
    if (!works) this.#others.push(process)
    return process
  }

  /** The last slot is the sweeper: a worker of a queue that is always empty, which looks after what others leave behind. */
  #start(slot: number): void {
    const { plan, time } = this.#world
    const sweeper = slot === plan.workers
    const process = this.#open(`${sweeper ? 'sweeper' : `worker${slot + 1}`}.${++this.#generation}`, true)
    this.#slots[slot] = process
    time.after(0, process.host, () => {
      if (process.host.stopping) return
      process.worker = process.queue.work({
        concurrency: plan.concurrency,
        prefetch: plan.prefetch,
        lease: `${plan.leaseMs}ms`,
        pollInterval: `${plan.pollMs}ms`,
        stopTimeout: `${plan.stopTimeoutMs}ms`,
        queues: sweeper ? ['nothing'] : ['default', 'slow'],
      })
      // One that could not start for good says so to the logger, which is listened to.
      void process.worker.ready().then(
        () => (process.host.upSince = time.now),
        () => {},
      )
    })
  }

  #crash(host: Host): void {
    const slot = this.#slots.findIndex((process) => process?.host === host)
    if (!host.alive || slot === -1) return
    const { time, random, coverage, healthy } = this.#world
    host.alive = false
    coverage.count('fault: crash')
    this.#database.invariants.gone(host)
    this.#world.note(host, () => 'is gone')
    time.after(healthy ? 50 : random.between(10, 3_000), null, () => this.#startAgain(slot))
  }

  #startAgain(slot: number): void {
    if (this.#ending) return
    this.#start(slot)
    const { healthy, random, time } = this.#world
    // A stop may come at any moment, one at which the process has not come up yet included.
    if (!healthy && random.chance(0.15)) time.after(random.between(0, 1_000), null, () => this.#stopAndStart(slot))
  }

  #resume(host: Host): void {
    if (!host.alive || !host.frozen) return
    host.resumedAt = this.#world.time.now
    host.trouble(host.resumedAt)
    this.#world.note(host, () => 'goes on')
    this.#world.time.resume(host)
  }

  #close(process: Process, stop: { timeout?: `${number}ms`; abandon?: boolean } = {}): void {
    const { host, queue } = process
    const { time, plan } = this.#world
    host.stopping = true
    this.#world.note(host, () => 'is told to stop')
    const toldAt = time.now
    time.after(0, host, () => {
      const stopped = process.worker?.stop(stop)
      host.toldToStop = true
      void Promise.resolve(stopped)
        .then(() => queue.close())
        .then(() => {
          process.closed = true
          if (stop.abandon !== true && !plan.clocks) this.#database.invariants.stopped(host, toldAt)
          this.#world.note(host, () => 'has stopped')
        })
    })
    this.#mustStop(process, time.now, plan.stopTimeoutMs + STOP_ENDS_WITHIN_MS)
  }

  #mustStop(process: Process, since: number, withinMs: number): void {
    const { time, plan } = this.#world
    const { host } = process
    time.after(since + withinMs - time.now, null, () => {
      if (!host.alive || process.closed || plan.clocks) return
      const movingSince = host.frozen ? time.now : Math.max(since, host.resumedAt)
      if (movingSince > since) this.#mustStop(process, movingSince, withinMs)
      else this.#world.fail('a stop ends', `${host.name} has not stopped`)
    })
  }

  #produce(producer: Process, jobs: number): void {
    const { random, plan } = this.#world
    for (let i = 0; i < jobs; i++) {
      const type = random.pick(TYPES)
      const payload = payloadOf(this.#world, `k${random.whole(1, 3)}`)
      // A producer that names its jobs can ask again without a key.
      const named = type === 'work' && random.chance(0.5)
      const id = named ? `${producer.host.name}-${i}` : undefined
      const options = {
        ...(id !== undefined && { id }),
        ...(random.chance(0.2) && { delay: `${random.whole(1, 3_000)}ms` as const }),
        ...(random.chance(0.2) && { priority: random.whole(-1, 1) }),
        ...(random.chance(0.2) && { maxAttempts: 1 }),
      }
      this.#enqueuing++
      const enqueue = (tries: number): void => {
        producer.queue.enqueue(type, payload, options).then(
          ({ job, duplicate }) => {
            this.#enqueued(job.id, duplicate)
            if (random.chance(0.3)) this.#await(job)
          },
          (error: unknown) => {
            if (id !== undefined && error instanceof JobtableError && error.code === 'duplicate_id')
              return this.#enqueued(id, true)
            this.#world.coverage.count('enqueue: no answer')
            const again = tries > 0 && (type !== 'work' || named)
            if (!again) this.#enqueuing--
            else this.#world.time.after(300, producer.host, () => enqueue(tries - 1))
          },
        )
      }
      this.#world.time.after(random.between(0, 0.8 * plan.faultMs), producer.host, () => enqueue(10))
    }
  }

  #enqueued(id: string, duplicate: boolean): void {
    this.#enqueuing--
    if (duplicate) this.#world.coverage.count('enqueue: duplicate')
    this.#database.invariants.acknowledged(id)
  }

  /** Somebody waits for the result, and is told what became of the job. */
  #await(job: Job): void {
    const { invariants } = this.#database
    const told = (...expected: (Status | undefined)[]): void => {
      this.#waiting--
      const status = invariants.row(job.id)?.status
      // It may have been repaired, and have run again, or been deleted, since it was looked at.
      const stale = status === undefined || !isFinal(status) || invariants.endedAs(job.id, expected[0])
      this.#world.coverage.count(`result: ${expected[0] ?? 'deleted'}`)
      if (!expected.includes(status) && !stale)
        this.#world.fail('whoever waits is told the truth', `${job.id} is ${status}, and not ${expected[0]}`)
    }
    this.#waiting++
    job.result().then(
      () => told('succeeded'),
      (error: unknown) => {
        const code = error instanceof JobtableError ? error.code : undefined
        if (code === 'job_failed') told('failed')
        else if (code === 'job_canceled') told('canceled')
        else if (code === 'job_not_found') told(undefined)
        else {
          told()
          this.#checkExpected(error)
        }
      },
    )
  }

  #insertByHand(): void {
    this.#database.rawInsert('by-hand', 'work', JSON.stringify(payloadOf(this.#world, 'k0')))
  }

  #intervene(person: Process): void {
    const { random, time } = this.#world
    const ids = this.#database.invariants.ids
    if (ids.length === 0) return
    const id = random.pick(ids)
    const repairs = random.chance(0.5)
    time.after(0, person.host, () => {
      const done = repairs ? person.queue.retry(id, { by: 'ann' }) : person.queue.cancel(id, { by: 'ann' })
      this.#untilOver(done)
      done.then(
        () => this.#world.note(person.host, () => `${repairs ? 'repairs' : 'cancels'} ${id}`),
        (error: unknown) => this.#checkExpected(error),
      )
    })
  }

  /** Two may look after the same job at the same time. */
  #lookAfterHeld(person: Process): void {
    const { random } = this.#world
    const { held } = this.#database.invariants
    if (held.length === 0) return
    const id = random.pick(held)
    for (let people = random.whole(1, 2); people > 0; people--) this.#resolve(person, id)
  }

  /** Looks at the provider, and says what is to be seen there. What resolves the last doubt repairs the job too. */
  #resolve(person: Process, id: string): void {
    const { random, time, provider } = this.#world
    const by = 'ann'
    time.after(0, person.host, () => {
      const done = person.queue.steps(id).then((steps) => {
        const step = steps.find(({ kind, state }) => kind === 'effect' && state === 'started')
        if (!step) return
        const { name: effect, key } = step
        if (random.chance(0.5)) {
          const reconcile = (_: unknown, call: EffectCall) => provider.findFor(person.host, call.key)
          return person.queue.resolve(id, { effect, by, reconcile })
        }
        const found = provider.look(key!)
        this.#world.note(person.host, () => `finds the effect of ${id} ${typeof found === 'object' ? 'done' : found}`)
        if (found === 'unknown') return
        return person.queue.resolve(
          id,
          found === 'not_done' ? { effect, by, as: found } : { effect, by, as: 'done', result: found.done },
        )
      })
      this.#untilOver(done)
      done.then(
        () => {},
        (error: unknown) => this.#checkExpected(error),
      )
    })
  }

  /** A repair that is still on its way makes work: the run goes on. */
  #untilOver(done: Promise<unknown>): void {
    this.#intervening++
    const over = (): void => void this.#intervening--
    done.then(over, over)
  }

  #planFaults(): void {
    const { plan, random } = this.#world
    const { leaseMs } = plan
    for (let i = 0; i < plan.crashes; i++) this.#sometime(() => this.#crash(this.#anyWorker().host))
    for (let i = 0; i < plan.pauses; i++)
      this.#sometime(() => this.#pause(this.#anyWorker().host, random.between(0.1, 3) * leaseMs))
    for (let i = 0; i < plan.stops; i++) this.#sometime(() => this.#stopAndStart(random.whole(0, plan.workers)))
    for (let i = 0; i < plan.outages; i++)
      this.#sometime(() => {
        this.#world.coverage.count('fault: outage')
        this.#world.note(null, () => 'an outage of the database begins')
        this.#database.outage(random.chance(0.2) ? 15_000 : random.between(100, 2 * leaseMs))
      })
    for (let i = 0; i < plan.locks; i++) this.#sometime(() => this.#lock())
    if (!plan.clocks) return
    for (let i = 0; i < 3; i++)
      this.#sometime(() => {
        const byMs = random.between(-2, 2) * leaseMs
        this.#world.coverage.count(`fault: database clock ${byMs > 0 ? 'forward' : 'back'}`)
        this.#world.note(null, () => `the clock of the database is set by ${byMs.toFixed(0)} ms`)
        this.#database.setClock(byMs)
      })
    for (let i = 0; i < 2; i++)
      this.#sometime(() => {
        this.#world.coverage.count('fault: clock leap')
        this.#anyWorker().host.leap(random.between(0, 2) * leaseMs)
      })
  }

  #lock(): void {
    const { random, plan, coverage } = this.#world
    const running = [...this.#database.invariants.rows].filter(({ status }) => status === 'running')
    if (running.length === 0) return
    coverage.count('fault: lock')
    this.#database.locks.lock(random.pick(running).id, random.between(10, 2 * plan.leaseMs))
  }

  #sometime(act: () => void): void {
    const { time, random, plan } = this.#world
    time.after(random.between(50, plan.faultMs), null, () => {
      if (!this.#world.healthy) act()
    })
  }

  #anyWorker(): Process {
    return this.#world.random.pick(this.#slots)!
  }

  #pause(host: Host, ms: number): void {
    if (!host.alive || host.frozen) return
    const { time, plan, random, coverage } = this.#world
    const suspended = plan.clocks && random.chance(0.5)
    coverage.count(suspended ? 'fault: suspension' : 'fault: freeze')
    this.#world.note(host, () => `is ${suspended ? 'suspended' : 'frozen'} for ${ms.toFixed(0)} ms`)
    host.frozen = true
    const since = time.now
    time.after(ms, null, () => {
      if (suspended) host.suspendedMs += time.now - since
      this.#resume(host)
    })
  }

  #stopAndStart(slot: number): void {
    const process = this.#slots[slot]!
    const { host } = process
    if (!host.alive || host.stopping || this.#world.healthy) return
    const { random, coverage, time } = this.#world
    const abandon = random.chance(0.2)
    coverage.count(abandon ? 'fault: abandoning stop' : 'fault: stop')
    this.#close(process, { ...(random.chance(0.5) && { timeout: `${random.whole(0, 1_000)}ms` }), abandon })
    this.#others.push(process)
    time.after(random.between(0, 3_000), null, () => {
      // The old process may still be at it, as in a rolling deploy.
      if (this.#slots[slot] === process) this.#startAgain(slot)
    })
  }

  #logger(host: Host): Logger {
    const nothing = (): void => {}
    return {
      debug: nothing,
      info: nothing,
      warn: (_, message) => this.#world.note(host, () => `warns: ${message}`),
      error: (facts, message) => {
        this.#world.note(host, () => `error: ${message}`)
        if ('err' in facts) this.#checkExpected(facts.err)
      },
    }
  }

  /** What fails must fail by a fault of the simulation, not by one of the code. */
  #checkExpected(error: unknown): void {
    const expected =
      error instanceof JobtableError ||
      error instanceof WriteRefused ||
      (error instanceof Error && error.message.startsWith('not done within'))
    if (!expected) this.#world.fail('nothing fails unexpectedly', describe(error))
  }
}
