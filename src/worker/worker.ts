/**
 * A worker: claims jobs of the types that have a handler, runs them, and settles what became of them.
 *
 *   starting ──registered──> working ──stop()──> draining ──all ended or handed back──> stopped
 *
 * While it works it keeps its lease by heartbeats, learns of cancellations, enforces timeouts, and does its share of the
 * maintenance. Heartbeats go on until the last job has ended. Its parts: `ClaimLoop` claims and settles, `Attempt` runs a
 * handler, `Reports` writes what handlers report, `Lease` and `Heart` keep the claims, `upkeep.ts` cleans up after others.
 */
import { parseDuration, type Duration } from '../duration.js'
import { JobtableError } from '../errors.js'
import type { FileStore } from '../files.js'
import type { PreparedType } from '../job-type.js'
import type { Logger } from '../logger.js'
import type { Change, JobRow, Retention, SettleOutcome, Store, WorkerInfo } from '../store.js'
import { afterCancelRequest, type Outcome } from '../transition.js'
import { Attempt, CUT_OFF_GRACE_MS, type AttemptEnv } from './attempt.js'
import { Heart } from './heart.js'
import { Lease } from './lease.js'
import { Listeners } from './listeners.js'
import { ClaimLoop } from './loop.js'
import { handBackUnanswered, settlementOf, unwritable, type ClaimSettlement } from './maintenance.js'
import { factsOf, prepareOptions } from './options.js'
import type { AttemptFacts, PreparedOptions, WorkerEvents, WorkerOptions } from './options.js'
import { thisProcess } from './process-identity.js'
import { Reports } from './reports.js'
import { Stalls } from './stalls.js'
import { signal, Timers } from '../timers.js'
import { startUpkeep } from './upkeep.js'
import { notSettled } from './words.js'

export interface WorkerEnv {
  types: ReadonlyMap<string, PreparedType>
  open(): Promise<Store>
  files: FileStore
  logger: Logger
  locale: 'en' | 'zh'
  retention: Retention
  /** Types whose owner has been warned about them. */
  warnedOf: Set<string>
}

/** How long handlers get between the abort for shutdown and being cut off. Milliseconds. */
const SHUTDOWN_GRACE_MS = 300
/** How long a stopping worker tries to write its last settlements, and how long of that beyond its `timeout`. Milliseconds. */
const LAST_WRITES_MS = 5_000
const OVERTIME_MS = 1_000
/** A wrong set-up stays wrong; a database that is away may come back. */
const RECOVERABLE: ReadonlySet<string> = new Set(['store_busy', 'store_full', 'store_unavailable'])
const nothing = (): undefined => undefined
/** Cancellations are looked for at most this often. Milliseconds. */
const CANCEL_CHECK_MS = 500
/** A timeout is noticed at most this late. Milliseconds. */
const TIMEOUT_CHECK_MS = 250

/** The parts of a worker that has reached its database. */
interface Parts {
  lease: Lease
  heart: Heart
  loop: ClaimLoop
  reports: Reports
  attemptEnv: AttemptEnv
  unwatch(): void
}

export class Worker {
  /** Resolves when the worker has stopped. Rejects with the reason when it could not start for good. */
  readonly stopped: Promise<void>
  readonly #env: WorkerEnv
  readonly #listeners: Listeners
  readonly #options: PreparedOptions
  /** Two attempts at one job may be here together for a moment: one whose lease was lost, and its successor. */
  readonly #attempts = new Set<Attempt>()
  readonly #timers = new Timers()
  readonly #stalls: Stalls
  readonly #stopAsked = signal()
  readonly #outOfPatience = signal()
  readonly #stopEnded = signal()
  readonly #starting: Promise<Parts | undefined>
  readonly #unextended = (error: unknown): void => this.#failed(error, 'the lease could not be extended')
  #parts: Parts | undefined
  #stopping: Promise<void> | undefined
  #turn = 0
  #abandon = false
  #whenEmpty: (() => void) | undefined
  #cancelCheck: Promise<void> | undefined
  #timeoutCheck: Promise<void> | undefined

  /** @internal Use `queue.work(...)`. */
  constructor(env: WorkerEnv, options: WorkerOptions) {
    this.#env = env
    this.#listeners = new Listeners(env.logger, env.warnedOf)
    this.#stalls = new Stalls(env.logger)
    this.#options = prepareOptions(options)
    if (this.#handledTypes().length === 0) {
      throw new JobtableError(
        'config_invalid',
        'no job type has a handler here, so this worker would do nothing: give define(...) a run function, or import the module that calls handle(...)',
      )
    }
    this.#starting = this.#start()
    const ended = this.#stopEnded.promise
    this.stopped = Promise.race([ended, this.#starting.then(() => ended)])
    this.stopped.catch((error: unknown) => this.#failed(error, 'the worker could not start'))
  }

  /** Names this worker in `locked_by`; undefined until it has registered. Changes when its lease was lost. */
  get id(): string | undefined {
    return this.#parts?.lease.workerId
  }

  /** What has become of the attempts so far. */
  get totals(): Readonly<Listeners['totals']> {
    return this.#listeners.totals
  }

  /** The jobs that are running here now. */
  get running(): readonly AttemptFacts[] {
    return [...this.#attempts].map(factsOf)
  }

  /** Adds a listener. One that throws is logged, and changes nothing. */
  on<Name extends keyof WorkerEvents>(name: Name, listener: (event: WorkerEvents[Name]) => void): this {
    this.#listeners.add(name, listener)
    return this
  }

  /** Resolves once the worker has registered and claims jobs. */
  async ready(): Promise<void> {
    await this.#starting
  }

  /** Resolves when nothing is due, running or unsettled. */
  async idle(): Promise<void> {
    await (await this.#starting)?.loop.idle()
  }

  /**
   * Claims nothing more, hands back what has not started, lets running jobs end for `timeout` (default: the worker's
   * `stopTimeout`), then aborts them with the reason `shutdown` and hands them back, which spends no attempt. Always resolves.
   * A second call with a shorter timeout hurries the first.
   *
   * With `abandon`, what still runs then is not handed back but left to be found lost, which spends its attempt: for a stop after
   * something went wrong that one of the jobs may have caused, so that it does not come back for ever.
   */
  stop(options: { timeout?: Duration; abandon?: boolean } = {}): Promise<void> {
    this.#abandon ||= options.abandon === true
    const timeoutMs = options.timeout === undefined ? this.#options.stopTimeoutMs : parseDuration(options.timeout)
    void this.#timers.sleep(timeoutMs).then(() => this.#outOfPatience.resolve())
    this.#stopping ??= this.#stop()
    this.#stopAsked.resolve()
    return this.#stopping
  }

  async #start(): Promise<Parts | undefined> {
    for (let pauseMs = 100; !this.#stopping; pauseMs = Math.min(5_000, pauseMs * 2)) {
      try {
        return await this.#begin(await this.#env.open())
      } catch (error) {
        if (!(error instanceof JobtableError && RECOVERABLE.has(error.code))) throw error
        this.#failed(error, `the worker could not start, and tries again in ${pauseMs} ms`)
        await Promise.race([this.#timers.sleep(pauseMs), this.#stopAsked.promise])
      }
    }
    return undefined
  }

  async #begin(store: Store): Promise<Parts | undefined> {
    const { files, logger, locale } = this.#env
    const reports = new Reports(store, (error) => this.#failed(error, 'reports of handlers could not be stored'))
    const heart = new Heart({
      address: store.address,
      leaseMs: this.#options.leaseMs,
      failed: (error) => this.#failed(error, 'the event loop is blocked, and the thread beside it could not extend the lease'),
      died: (error) =>
        this.#failed(error, 'the thread that guards the lease against a blocked event loop died; another will follow'),
    })
    const lease = new Lease({
      store,
      heart,
      leaseMs: this.#options.leaseMs,
      attempts: this.#attempts,
      info: (id) => this.#info(id),
      lost: (formerId) => {
        logger.warn(
          { workerId: formerId },
          'the lease ran out before it could be extended: this worker was stalled; its jobs may run elsewhere',
        )
        loop.dropWaiting()
      },
      held: (claims) => handBackUnanswered(store, loop, claims),
    })
    const loop: ClaimLoop = new ClaimLoop({
      store,
      concurrency: this.#options.concurrency,
      prefetch: this.#options.prefetch,
      pollIntervalMs: this.#options.pollIntervalMs,
      workerId: () => lease.workerId,
      queues: () => this.#queuesToClaim(),
      types: () => this.#handledTypes().map(({ name }) => name),
      maxAttempts: () => new Map(this.#handledTypes().map(({ name, policy }) => [name, policy.maxAttempts])),
      start: (row) => this.#run(row),
      handBack: (row) => this.#settlement(row, { type: 'handed_back' }),
      settled: (settlement, outcome) => this.#settled(settlement, outcome),
      unwritable: (claim, error) => unwritable(claim, error, this.#env),
      leaseLost: () =>
        void lease.beat().then(
          () => loop.wake(),
          (error: unknown) => this.#failed(error, 'the lease could not be taken anew'),
        ),
      failed: (error, pauseMs) => this.#failed(error, `the database failed, and is tried again in ${pauseMs} ms`),
      recovered: () => logger.info({ workerId: lease.workerId }, 'the database answers again'),
    })
    await lease.register()
    // It answered after `stop` had given up on it.
    if (this.#timers.closed) return Promise.all([lease.signOff(), heart.close()]).then(nothing, nothing)
    const attemptEnv: AttemptEnv = {
      ...{ store, files, logger, locale, reports, lease },
      ended: (attempt, outcome) => this.#ended(attempt, outcome),
      completed: (attempt, claim) => this.#completed(attempt, claim),
    }
    const unwatch = store.watch((change) => this.#changed(change))
    this.#parts = { lease, heart, loop, reports, unwatch, attemptEnv }
    // A beat that failed is made again soon: the next one in turn may come too late.
    const { leaseMs } = this.#options
    this.#timers.every(leaseMs / 3, () => lease.beat(), this.#unextended, leaseMs / 15)
    startUpkeep({
      ...this.#env,
      store,
      leaseMs,
      timers: this.#timers,
      stopping: () => this.#stopping !== undefined,
      settled: (claim) => this.#listeners.settled(claim),
      failed: (error, problem) => this.#failed(error, problem),
    })
    loop.wake()
    return this.#parts
  }

  #run(row: JobRow): void {
    const { loop, lease, heart, attemptEnv } = this.#parts!
    const type = this.#env.types.get(row.type)
    if (!type || !lease.holds(row)) return loop.slotFreed(this.#settlement(row, { type: 'handed_back' }))
    const attempt = new Attempt(row, type, attemptEnv)
    this.#attempts.add(attempt)
    heart.started(type.timeoutMs ?? Infinity)
    this.#watchTimeouts()
    void attempt.run()
  }

  #ended(attempt: Attempt, outcome: Outcome | null): void {
    const { reports } = this.#parts!
    this.#stalls.ended(() => factsOf(attempt))
    if (outcome === null) {
      reports.drop(attempt)
      this.#listeners.emit('lease_lost', factsOf(attempt))
      this.#free(attempt, outcome)
    } else if (reports.has(attempt)) {
      // The last stage and progress must be there before the end is.
      void reports.flush(attempt).then(() => {
        reports.drop(attempt)
        this.#free(attempt, outcome)
      })
    } else {
      this.#free(attempt, outcome)
    }
  }

  #completed(attempt: Attempt, claim: ClaimSettlement): void {
    this.#stalls.ended(() => factsOf(attempt))
    this.#parts!.reports.drop(attempt)
    this.#listeners.settled(claim)
    this.#free(attempt, null)
  }

  #free(attempt: Attempt, outcome: Outcome | null): void {
    this.#attempts.delete(attempt)
    this.#parts!.loop.slotFreed(outcome && this.#settlement(attempt.row, outcome, attempt.abortedFor === 'canceled'))
    if (this.#attempts.size === 0) this.#whenEmpty?.()
  }

  #settlement(row: JobRow, outcome: Outcome, cancelRequested = false): ClaimSettlement {
    return settlementOf(row, outcome, this.#env.types.get(row.type), cancelRequested || row.cancelRequestedAt !== null)
  }

  #settled(claim: ClaimSettlement, outcome: SettleOutcome): void {
    const { row, settlement } = claim
    if (outcome === 'settled') return this.#listeners.settled(claim)
    if (outcome === 'cancel_requested') return this.#parts!.loop.settle({ ...claim, settlement: afterCancelRequest(settlement) })
    this.#env.logger.warn({ ...factsOf(row), jobId: row.id }, notSettled(settlement, outcome))
    if (outcome === 'lost') this.#listeners.emit('lease_lost', factsOf(row))
  }

  #changed(change: Change): void {
    const { loop, lease } = this.#parts!
    if (change === 'due' || change === 'any') loop.wake()
    if (change === 'due' || change === 'state') return
    if (this.#attempts.size === 0 || this.#cancelCheck) return
    this.#cancelCheck = this.#timers.sleep(CANCEL_CHECK_MS).then(async () => {
      this.#cancelCheck = undefined
      await lease.checkCanceled().catch((error: unknown) => this.#failed(error, 'cancellations could not be looked for'))
    })
  }

  /** Looks at the clock while something runs: a worker without a job has nothing to wake up for. */
  #watchTimeouts(): void {
    if (this.#timeoutCheck) return
    this.#stalls.begin()
    this.#timeoutCheck = this.#timers.sleep(TIMEOUT_CHECK_MS).then(() => {
      this.#timeoutCheck = undefined
      this.#stalls.look(TIMEOUT_CHECK_MS, () => this.running)
      this.#enforceTimeouts()
      if (this.#attempts.size > 0 && !this.#timers.closed) this.#watchTimeouts()
    })
  }

  #enforceTimeouts(): void {
    const now = performance.now()
    let latest = now
    for (const attempt of this.#attempts) {
      if (now >= attempt.deadline) attempt.abort('timeout')
      if (attempt.abortedAt !== undefined && now >= attempt.abortedAt + CUT_OFF_GRACE_MS) attempt.cutOff()
      latest = Math.max(latest, attempt.deadline)
    }
    this.#parts!.heart.seen(latest - now)
  }

  async #stop(): Promise<void> {
    try {
      const parts = await Promise.race([this.#starting.catch(nothing), this.#tooLong().then(nothing)]) // `stopped` tells of a failure.
      if (parts) await this.#drain(parts)
    } finally {
      this.#timers.close()
      this.#stopEnded.resolve()
    }
  }

  async #drain({ loop, reports, lease, heart, unwatch }: Parts): Promise<void> {
    loop.stopClaiming()
    await Promise.race([this.#emptied(), this.#outOfPatience.promise])
    if (this.#abandon) for (const attempt of [...this.#attempts]) attempt.abandon()
    for (const attempt of this.#attempts) attempt.abort('shutdown')
    await Promise.race([this.#emptied(), this.#timers.sleep(SHUTDOWN_GRACE_MS)])
    for (const attempt of [...this.#attempts.values()]) attempt.cutOff()
    // What is held without this worker's knowing of it comes to light with a heartbeat.
    const known = reports.flush().then(() => (loop.doubts ? lease.beat().catch(this.#unextended) : undefined))
    await Promise.race([known.then(() => loop.idle()), this.#tooLong()])
    if (loop.unsettled > 0) {
      this.#env.logger.error(
        { jobs: loop.unsettled },
        'the worker stopped before the database took its last settlements: these jobs will run again',
      )
    }
    loop.close()
    unwatch()
    await lease
      .signOff()
      .catch((error: unknown) => this.#failed(error, 'the worker could not be signed off; its lease will run out'))
    await heart.close()
  }

  /** Resolves when a stopping worker has waited long enough for its database. */
  #tooLong(): Promise<void> {
    const overtime = this.#outOfPatience.promise.then(() => this.#timers.sleep(OVERTIME_MS))
    return Promise.race([this.#timers.sleep(LAST_WRITES_MS), overtime])
  }

  /** Resolves when nothing runs any more. */
  #emptied(): Promise<void> {
    return this.#attempts.size === 0 ? Promise.resolve() : new Promise((resolve) => (this.#whenEmpty = resolve))
  }

  #failed(error: unknown, problem: string): void {
    this.#env.logger.error({ err: error, workerId: this.id }, problem)
    this.#listeners.emit('error', error)
  }

  #handledTypes(): PreparedType[] {
    return [...this.#env.types.values()].filter(({ handler }) => handler !== undefined)
  }

  #servedQueues(): readonly string[] {
    return this.#options.queues ?? [...new Set(this.#handledTypes().map(({ queue }) => queue))]
  }

  /** In the order given; where none was, each claim starts with the next one, so that no queue starves another. */
  #queuesToClaim(): readonly string[] {
    const queues = this.#servedQueues()
    if (this.#options.queues || queues.length < 2) return queues
    const first = this.#turn++ % queues.length
    return [...queues.slice(first), ...queues.slice(0, first)]
  }

  #info(id: string): WorkerInfo {
    const types = this.#handledTypes().map(({ name }) => name)
    return { id, ...thisProcess(), queues: this.#servedQueues(), types, concurrency: this.#options.concurrency }
  }
}
