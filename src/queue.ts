/**
 * The queue: what a product holds in its hand. Opens the store on first use, defines types, enqueues, looks, repairs, works.
 */
import type { StandardSchemaV1 } from '@standard-schema/spec'
import { InsertBatcher } from './batcher.js'
import { addType, type DefaultResult, type EnqueueResult, type JobType } from './define.js'
import type { StepRow } from './effects/record.js'
import { resolveEffect, type Resolution } from './effects/resolve.js'
import { JobtableError } from './errors.js'
import { localFiles, type FileStore } from './files.js'
import { Job, type JobActions } from './job.js'
import { statusFinal, superseded } from './job-errors.js'
import type { AnyTypeOptions, Checked, IdempotencyOption, JobTypeOptions, PreparedType } from './job-type.js'
import { consoleLogger, guarded, type Logger } from './logger.js'
import { filesBeside, openStore } from './open-store.js'
import { Producer, type Enqueued, type NamedEnqueueOptions } from './producer.js'
import type { CountRow, Finding, JobEvent, JobFilter, JobRow, Retention, Store, WorkerRow } from './store.js'
import type { StreamInfo, StreamPlace, StreamText } from './streams/record.js'
import { checkPlace } from './streams/stream.js'
import { adapt, type ProductTransaction } from './transactions/index.js'
import type { PgPool } from './stores/postgres/index.js'
import { checkFilter, checkQueueOptions, type QueueOptions } from './queue-options.js'
import { runWithin, type RunOnceOptions, type RunOnceResult, type RunTotals } from './run-once.js'
import { prepareRetention } from './retention.js'
import { isFinal } from './transition.js'
import { jobNotFound, Waiters, type Follower } from './waiters.js'
import { explain } from './why.js'
import { prune } from './worker/maintenance.js'
import type { WorkerOptions } from './worker/options.js'
import { within } from './timers.js'
import { Worker } from './worker/worker.js'

/** How long a closing queue waits for the enqueues in flight. Milliseconds. */
const LAST_ENQUEUES_MS = 2_000

export interface QueueStats {
  counts: CountRow[]
  workers: WorkerRow[]
}

/**
 * A queue in the database that the URL names: `sqlite:app.db`, `sqlite::memory:` or `postgres://user@host/database`; or that a pool
 * of the package `pg` leads to, which stays yours to close. Default: the environment variable `JOBTABLE_URL`, else
 * `sqlite:jobtable.db`. Nothing is opened before the first use.
 */
export function jobtable(database?: string | PgPool, options: QueueOptions = {}): Queue {
  return new Queue(database ?? process.env['JOBTABLE_URL'] ?? 'sqlite:jobtable.db', options)
}

export class Queue {
  /** The database, without secrets. */
  readonly name: string
  readonly logger: Logger
  readonly locale: 'en' | 'zh'
  readonly files: FileStore
  /** How long finished jobs are kept, in milliseconds. */
  readonly retention: Readonly<Retention>
  readonly #store: Store
  readonly #discardFiles: () => Promise<void>
  readonly #types = new Map<string, PreparedType>()
  readonly #workers = new Set<Worker>()
  readonly #warnedOf = new Set<string>()
  readonly #batcher: InsertBatcher
  readonly #producer: Producer
  readonly #waiters: Waiters
  readonly #actions: JobActions
  #opening: Promise<Store> | undefined
  #closing: Promise<void> | undefined
  #closed = false

  /** @internal Use `jobtable(...)`. */
  constructor(database: string | PgPool, options: QueueOptions) {
    checkQueueOptions(database, options)
    this.#store = options.store ?? openStore(database, options)
    this.name = this.#store.name
    this.logger = guarded(options.logger ?? consoleLogger)
    this.locale = options.locale ?? 'en'
    const beside = filesBeside(this.#store)
    this.files = typeof options.files === 'string' ? localFiles(options.files) : (options.files ?? beside.files)
    this.#discardFiles = beside.discard
    this.retention = prepareRetention(options.retention)
    this.#batcher = new InsertBatcher(async (jobs) => (await this.#opened()).insert(jobs), this.#store.parallel)
    this.#producer = new Producer(this.#batcher, (transaction, jobs) => this.#store.insertIn(transaction, jobs), this.files)
    this.#waiters = new Waiters(this.#store)
    this.#actions = this.#createActions()
  }

  /** Defines a job type. Its name may be defined once per queue. */
  define<
    Schema extends StandardSchemaV1,
    const Idempotency extends IdempotencyOption<StandardSchemaV1.InferOutput<Schema>, StandardSchemaV1.InferInput<Schema>>,
    Result = DefaultResult<Idempotency>,
    const Stage extends string = string,
  >(
    name: string,
    options: JobTypeOptions<Schema, Idempotency, Result, Stage> & Checked<Schema, NoInfer<Idempotency>, Result>,
  ): JobType<StandardSchemaV1.InferInput<Schema>, StandardSchemaV1.InferOutput<Schema>, Result, Stage> {
    return addType(this.#types, name, options as unknown as AnyTypeOptions, {
      one: (payload, enqueueOptions) => this.#enqueueOne(name, payload, enqueueOptions),
      many: (payloads, optionsOf) => this.#enqueueMany(name, payloads, optionsOf),
    }) as unknown as JobType<StandardSchemaV1.InferInput<Schema>, StandardSchemaV1.InferOutput<Schema>, Result, Stage>
  }

  /** The types defined so far, by name. */
  get types(): ReadonlyMap<string, Readonly<PreparedType>> {
    return this.#types
  }

  /**
   * Enqueues by name. A type defined on this queue is checked by its contract; any other is stored as it is, for a worker that
   * knows it.
   */
  enqueue(name: string, payload: unknown, options?: NamedEnqueueOptions): Promise<EnqueueResult<unknown>> {
    return this.#enqueueOne(name, payload, options)
  }

  /** Enqueues many of one type by name, in one commit. */
  enqueueMany(name: string, payloads: readonly unknown[], options?: NamedEnqueueOptions): Promise<EnqueueResult<unknown>[]> {
    return this.#enqueueMany(name, payloads, () => options)
  }

  /** The job with this id, or undefined. */
  async get(id: string): Promise<Job | undefined> {
    const [row] = await (await this.open()).get([id])
    return row && this.#job(row)
  }

  /** @internal What live pages stand on: all who follow share one watch and its reads. */
  async follow(id: string, follower: Follower): Promise<() => void> {
    await this.open()
    return this.#waiters.follow(id, follower)
  }

  /** Newest first. `before` is the id of the last job of the page before. Default limit 50. */
  async list(filter: JobFilter = {}, page: { limit?: number; before?: string } = {}): Promise<Job[]> {
    checkFilter(filter, page)
    const { limit = 50, ...rest } = page
    const rows = await (await this.open()).list(filter, { limit, ...rest })
    return rows.map((row) => this.#job(row))
  }

  async count(filter: JobFilter = {}): Promise<number> {
    checkFilter(filter)
    return (await this.open()).count(filter)
  }

  /** Cancels a job; see `Job.cancel`. */
  async cancel(id: string, options: { by?: string } = {}): Promise<Job> {
    return this.#job(await this.#actions.cancelRow(id, options.by))
  }

  /** Repairs a job; see `Job.retry`. */
  async retry(id: string, options: { by?: string } = {}): Promise<Job> {
    return this.#job(await this.#actions.retryRow(id, options.by))
  }

  /** What is recorded of a job's steps, effects and checkpoints, in the order in which they began. */
  async steps(id: string): Promise<StepRow[]> {
    return (await this.open()).steps(id)
  }

  /** The streams of a job, in the order of their names: texts that its handler writes with `job.stream`. */
  async streamsOf(id: string): Promise<StreamInfo[]> {
    return (await this.open()).streams(id)
  }

  /**
   * The text of a stream from a place on: where the last answer ended, if that attempt's text is still the stream's, else from 0 of what
   * has replaced it. Undefined where there is no such stream (yet). Without a limit, which counts UTF-16 code units, all of it.
   */
  async readStream(id: string, name: string, after?: StreamPlace, limit?: number): Promise<StreamText | undefined> {
    checkPlace(after, limit)
    return (await this.open()).readStream(id, name, after ?? null, limit ?? null)
  }

  /**
   * Says what became of an effect whose job is held because nobody knew: that it was done, with its value, that it was not, or how to
   * find out. Once no effect of the job is in doubt, it is pending again, and its handler goes on with what was found. A canceled job
   * stays canceled until it is retried.
   */
  async resolve(id: string, resolution: Resolution): Promise<Job> {
    const store = await this.open()
    const inDoubt = await resolveEffect(store, id, resolution)
    const [row] = await store.get([id])
    return inDoubt.length > 0 || row?.status === 'canceled' ? this.#job(row!) : this.retry(id, resolution)
  }

  /** Why this job does not run at this moment, in one sentence. */
  async why(id: string): Promise<string> {
    const store = await this.open()
    const [[row], workers] = await Promise.all([store.get([id]), store.workers()])
    if (!row) throw jobNotFound(id)
    return explain(row, workers)
  }

  /** Row counts by type, queue and status, and the workers. */
  async stats(): Promise<QueueStats> {
    const { counts, workers } = await (await this.open()).overview()
    return { counts, workers }
  }

  /** Deletes finished jobs that are past their retention, with their files. Workers do this by themselves. */
  async prune(): Promise<number> {
    return prune(await this.open(), this.files, this.retention)
  }

  /** Examines the database as it is, and says what is wrong with it and what to do. */
  inspect(): Promise<Finding[]> {
    // Opening would mend what is to be found.
    return this.#store.inspect()
  }

  /** The workers started here that have not stopped. */
  get workers(): readonly Worker[] {
    return [...this.#workers]
  }

  /** Starts a worker for every type that has a handler. */
  work(options: WorkerOptions = {}): Worker {
    if (this.#closing) throw new JobtableError('queue_closed', 'the queue is closed: a worker needs a new one')
    const worker = new Worker(
      {
        types: this.#types,
        open: () => this.open(),
        files: this.files,
        logger: this.logger,
        locale: this.locale,
        retention: this.retention,
        warnedOf: this.#warnedOf,
      },
      options,
    )
    this.#workers.add(worker)
    const forget = (): void => void this.#workers.delete(worker)
    void worker.stopped.then(forget, forget) // `stopped` itself tells why it could not start.
    return worker
  }

  /** Runs everything that is due, and what that makes due, in this process; resolves when nothing is left. */
  async drain(options: Omit<WorkerOptions, 'pollInterval'> = {}): Promise<RunTotals> {
    const worker = this.work(options)
    await worker.idle()
    await worker.stop()
    return worker.totals
  }

  /**
   * Runs what is due, for at most `budget`, and hands back what did not end in time, which spends no attempt: for serverless functions,
   * called again by a timer. Rejects when the worker could not start for good.
   */
  runOnce({ budget, ...options }: RunOnceOptions): Promise<RunOnceResult> {
    return runWithin(() => this.work(options), budget)
  }

  /** Opens the database, and brings its tables up to this version, if that has not been done. Other methods call it. */
  open(): Promise<Store> {
    if (this.#closed) return Promise.reject(new JobtableError('queue_closed', 'the queue is closed'))
    return this.#opened()
  }

  /** As `open`, for what was asked for before the queue was closed. */
  #opened(): Promise<Store> {
    this.#opening ??= this.#store.migrate().then(
      () => this.#store,
      (error: unknown) => {
        this.#opening = undefined // The next call tries again: the database may be back.
        throw error
      },
    )
    return this.#opening
  }

  /** Stops its workers, answers what is in flight, and frees everything. Always resolves, and may be called twice. */
  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    await Promise.all([...this.#workers].map((worker) => worker.stop()))
    this.#closed = true // Not before: the handlers that still run may need the queue.
    // Enqueues in flight are answered, unless the database is away: then the store refuses them as it closes.
    await within(LAST_ENQUEUES_MS, this.#batcher.close()).catch(() => {})
    this.#waiters.close()
    await this.#store.close()
    await this.#discardFiles()
  }

  #enqueueOne(name: string, payload: unknown, options: NamedEnqueueOptions = {}): Promise<EnqueueResult<unknown>> {
    return this.#enqueue(options.tx, name, [payload], () => options).then(([answer]) => answer!)
  }

  #enqueueMany(
    name: string,
    payloads: readonly unknown[],
    optionsOf: (index: number) => NamedEnqueueOptions | undefined,
  ): Promise<EnqueueResult<unknown>[]> {
    const options = payloads.map((_, i) => optionsOf(i) ?? {})
    const tx = options[0]?.tx
    if (options.some((each) => each.tx !== tx))
      throw new JobtableError('config_invalid', 'tx must be the same for all jobs of one enqueueMany: one call is one commit')
    return this.#enqueue(tx, name, payloads, (i) => options[i]!)
  }

  /** Where there is a transaction it may throw, and so end the function of the transaction; see `EnqueueOptions.tx`. */
  #enqueue(
    tx: ProductTransaction | undefined,
    name: string,
    payloads: readonly unknown[],
    optionsOf: (index: number) => NamedEnqueueOptions,
  ): Promise<EnqueueResult<unknown>[]> {
    const type = this.#types.get(name)
    if (tx === undefined) return this.#answers(this.#producer.enqueue(name, type, payloads, optionsOf))
    if (this.#closed) throw new JobtableError('queue_closed', 'the queue is closed: nothing was enqueued')
    // Not opened before: that may make tables, and wait for the very transaction.
    return this.#answers(this.#producer.enqueueIn(adapt(tx), name, type, payloads, optionsOf))
  }

  async #answers(enqueued: Enqueued[] | Promise<Enqueued[]>): Promise<EnqueueResult<unknown>[]> {
    return (await enqueued).map(({ row, duplicate }) => ({ job: this.#job(row), duplicate }))
  }

  #job(row: JobRow): Job {
    return new Job(row, this.#actions)
  }

  #createActions(): JobActions {
    const only = async (id: string): Promise<JobRow> => {
      const [row] = await (await this.open()).get([id])
      if (!row) throw jobNotFound(id)
      return row
    }
    return {
      files: this.files,
      fetch: only,
      wait: async (id, until, timeout) => {
        await this.open()
        return this.#waiters.wait(id, until, timeout)
      },
      cancelRow: async (id, by) => {
        const before = await only(id)
        if (isFinal(before.status) && before.status !== 'canceled') throw statusFinal(before, 'canceled')
        const [row] = await (await this.open()).cancel([id], by ?? null)
        if (!row) throw jobNotFound(id)
        if (isFinal(row.status) && row.status !== 'canceled') throw statusFinal(row, 'canceled')
        return row
      },
      retryRow: async (id, by) => {
        const [answer] = await (await this.open()).repair([id], by ?? null)
        if (!answer) throw jobNotFound(id)
        if (answer.changed) return answer.row
        if (answer.row.supersededBy !== null) throw superseded(answer.row, 'cannot be retried')
        throw statusFinal(answer.row, 'retried')
      },
      events: async (id): Promise<JobEvent[]> => (await this.open()).events(id),
    }
  }
}
