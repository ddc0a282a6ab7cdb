/**
 * The producer's side: from a payload to a row, and what happens when the row's key is taken.
 */
import { uuidv7 } from 'uuidv7'
import { atOnce, wait, type Waiting } from './at-once.js'
import type { InsertBatcher } from './batcher.js'
import { parseDuration, type Duration } from './duration.js'
import { JobtableError } from './errors.js'
import { fileOf, type FileStore } from './files.js'
import {
  fingerprint,
  judge,
  prepareRule,
  type IdempotencyRule,
  type KeyPart,
  type OnDuplicate,
  type Rule,
} from './idempotency.js'
import { encodeJson, readJson, type JsonValue } from './json.js'
import { checkMaxAttempts, checkPriority, checkQueue, checkTypeName, DEFAULT_QUEUE, type PreparedType } from './job-type.js'
import { checkOptionNames, type OptionNames } from './options.js'
import type { InsertOutcome, JobRow, NewJob } from './store.js'
import type { ProductTransaction } from './transactions/index.js'
import type { Transaction } from './transactions/transaction.js'

export interface EnqueueOptions {
  /** A handle of your own choice, 1 to 200 characters of letters, digits and `_ . : -`. Not a dedup key: an id that exists is refused. */
  id?: string
  /** Not before this long from now. */
  delay?: Duration
  /** Not before this moment; one in the past means now. */
  runAfter?: Date
  /** Lower runs first, from -100 to 100. Default: the type's. */
  priority?: number
  /** Default: the type's. */
  queue?: string
  /** Default: the type's. */
  maxAttempts?: number
  /** A W3C `traceparent`, for the handler to go on with. */
  traceContext?: string
  /**
   * The product's own open transaction, in this queue's database: the job is there exactly when that commits. `pg`: the client;
   * `postgres`, Drizzle, Kysely, Prisma, Knex, TypeORM: what the transaction's function is given; better-sqlite3, `node:sqlite`: the
   * connection. What can be told to be wrong before anything waits is thrown at once, in place of a promise that rejects, so that the
   * transaction's function ends with it. Does not make the tables: call `queue.open()` when the product starts.
   */
  tx?: ProductTransaction
}

export interface NamedEnqueueOptions extends EnqueueOptions {
  /** Only for a type that this process has not defined: what its contract says elsewhere. */
  idempotency?: { key: readonly KeyPart[]; onDuplicate: OnDuplicate; keepFor?: Duration; compare?: 'payload' | 'key' }
}

const NAMES: OptionNames<Required<NamedEnqueueOptions>> = {
  id: true,
  delay: true,
  runAfter: true,
  priority: true,
  queue: true,
  maxAttempts: true,
  traceContext: true,
  tx: true,
  idempotency: true,
}

/** What became of an enqueue: the new row, or the one that answers for it. */
export interface Enqueued {
  row: JobRow
  duplicate: boolean
}

interface Request {
  job: NewJob
  rule: Rule | null
  payload: JsonValue
}

type OptionsOf = (index: number) => NamedEnqueueOptions
type Insert = (jobs: readonly NewJob[]) => InsertOutcome[] | Promise<InsertOutcome[]>

/** How often an enqueue looks again because somebody else changed the holder of its key in the meantime. */
const MOST_ROUNDS = 50

export class Producer {
  readonly #batcher: InsertBatcher
  readonly #insertIn: (transaction: Transaction, jobs: readonly NewJob[]) => InsertOutcome[] | Promise<InsertOutcome[]>
  readonly #files: FileStore

  constructor(
    batcher: InsertBatcher,
    insertIn: (transaction: Transaction, jobs: readonly NewJob[]) => InsertOutcome[] | Promise<InsertOutcome[]>,
    files: FileStore,
  ) {
    this.#batcher = batcher
    this.#insertIn = insertIn
    this.#files = files
  }

  /** Enqueues in one commit, apart from jobs that take a key over from a finished one. */
  async enqueue(
    name: string,
    type: PreparedType | undefined,
    payloads: readonly unknown[],
    optionsOf: OptionsOf,
  ): Promise<Enqueued[]> {
    return atOnce(this.#enqueue(name, type, payloads, optionsOf, (jobs) => this.#batcher.insert(jobs)))
  }

  /** Enqueues in the product's transaction, without a promise where neither that nor anything else needs one. */
  enqueueIn(
    transaction: Transaction,
    name: string,
    type: PreparedType | undefined,
    payloads: readonly unknown[],
    optionsOf: OptionsOf,
  ): Enqueued[] | Promise<Enqueued[]> {
    let asked = false
    let waited = false
    const insert: Insert = (jobs) => {
      if (!transaction.isOpen() || (waited && transaction.endsWithTurn)) throw transactionOver(name, transaction)
      asked = true
      return this.#insertIn(transaction, jobs)
    }
    return atOnce(this.#enqueue(name, type, payloads, optionsOf, insert), () => {
      waited = true
      // Nothing can be inserted any more. Whoever has asked already may still find an answer that needs no second insert.
      if (transaction.endsWithTurn && !asked) throw transactionOver(name, transaction)
    })
  }

  *#enqueue(
    name: string,
    type: PreparedType | undefined,
    payloads: readonly unknown[],
    optionsOf: OptionsOf,
    insert: Insert,
  ): Waiting<Enqueued[]> {
    const requests: Request[] = []
    for (let i = 0; i < payloads.length; i++) {
      const request = prepare(name, type, payloads[i], optionsOf(i))
      requests.push(request instanceof Promise ? yield* wait(request) : request)
    }
    const outcomes = yield* wait(insert(requests.map(({ job }) => job)))
    const answers: Enqueued[] = []
    // In order, so that of two jobs with one key the first takes it over and the second is its duplicate.
    for (const [i, outcome] of outcomes.entries()) {
      answers.push(
        outcome.type === 'inserted'
          ? { row: outcome.row, duplicate: false }
          : yield* this.#resolve(requests[i]!, outcome, insert),
      )
    }
    return answers
  }

  *#resolve(request: Request, outcome: InsertOutcome, insert: Insert): Waiting<Enqueued> {
    for (let round = 0; round < MOST_ROUNDS; round++) {
      if (outcome.type === 'inserted') return { row: outcome.row, duplicate: false }
      if (outcome.type === 'id_taken') throw idTaken(request.job)
      const { holder, now } = outcome
      const { rule } = request
      if (!rule) throw new Error(`job ${request.job.id} has no key, yet ${holder.id} holds it`)
      const verdict = judge(rule, holder, { fingerprint: request.job.fingerprint!, payload: request.payload }, now)
      if (verdict.type === 'conflict') throw conflict(request.job, holder, verdict.fields)
      if (verdict.type === 'duplicate') return { row: holder, duplicate: true }
      if (verdict.type === 'check_file' && (yield* wait(this.#fileExists(holder)))) return { row: holder, duplicate: true }
      const status = verdict.type === 'replace' ? verdict.status : 'succeeded'
      outcome = (yield* wait(insert([{ ...request.job, supersedes: { id: holder.id, status } }])))[0]!
    }
    throw new JobtableError('store_busy', `the holder of the key ${request.job.idempotencyKey} kept changing: enqueue again`)
  }

  #fileExists(holder: JobRow): boolean | Promise<boolean> {
    const file = fileOf(readJson(holder.result))
    return file !== null && this.#files.exists(file.key)
  }
}

function prepare(
  name: string,
  type: PreparedType | undefined,
  payload: unknown,
  options: NamedEnqueueOptions,
): Request | Promise<Request> {
  checkOptionNames('enqueue', options, NAMES)
  const text = encodeJson(payload, `the payload of ${name}`, 'payload_invalid')
  const stored = JSON.parse(text) as JsonValue
  if (!type) return request(name, undefined, undefinedRule(name, options), text, stored, stored, options)
  if (options.idempotency) {
    throw new JobtableError(
      'config_invalid',
      `${name} is defined here with a rule of its own: leave out the idempotency option of this enqueue`,
    )
  }
  // What is checked has been through JSON, as the handler will see it.
  const checked = type.validate(stored)
  return checked instanceof Promise
    ? checked.then((output) => request(name, type, type.rule, text, stored, output, options))
    : request(name, type, type.rule, text, stored, checked, options)
}

function undefinedRule(name: string, { idempotency }: NamedEnqueueOptions): Rule | null {
  if (!idempotency) return null
  const { key, ...rest } = idempotency
  return prepareRule(name, { ...rest, key: () => key } satisfies IdempotencyRule<never>)
}

function request(
  name: string,
  type: PreparedType | undefined,
  rule: Rule | null,
  text: string,
  stored: JsonValue,
  output: unknown,
  options: NamedEnqueueOptions,
): Request {
  const job: NewJob = {
    id: options.id === undefined ? uuidv7() : checkId(options.id),
    type: type?.name ?? checkTypeName(name),
    queue: options.queue === undefined ? (type?.queue ?? DEFAULT_QUEUE) : checkQueue(options.queue),
    payload: text,
    priority: options.priority === undefined ? (type?.priority ?? 0) : checkPriority(options.priority),
    maxAttempts:
      options.maxAttempts === undefined ? (type?.policy.maxAttempts ?? null) : checkMaxAttempts(options.maxAttempts, name),
    runAfter: runAfter(options),
    idempotencyKey: rule ? rule.keyOf(output) : null,
    fingerprint: rule ? fingerprint(rule, stored) : null,
    traceContext: options.traceContext === undefined ? null : checkTraceContext(options.traceContext),
    supersedes: null,
  }
  return { job, rule, payload: stored }
}

function runAfter({ delay, runAfter }: EnqueueOptions): NewJob['runAfter'] {
  if (delay !== undefined && runAfter !== undefined) {
    throw new JobtableError('config_invalid', 'give either delay or runAfter, not both')
  }
  if (runAfter === undefined) return { delayMs: delay === undefined ? 0 : parseDuration(delay) }
  const at = runAfter instanceof Date ? runAfter.getTime() : Number.NaN
  if (Number.isNaN(at)) throw new JobtableError('config_invalid', `runAfter must be a valid Date, not ${String(runAfter)}`)
  return { at }
}

function checkId(id: string): string {
  if (typeof id === 'string' && /^\w[\w.:-]{0,199}$/.test(id)) return id
  throw new JobtableError(
    'config_invalid',
    `${JSON.stringify(id)} is no job id: use 1 to 200 letters, digits and _ . : -, the first a letter, digit or _`,
  )
}

function checkTraceContext(traceContext: string): string {
  if (typeof traceContext === 'string' && /^[\x20-\x7e]{1,512}$/.test(traceContext)) return traceContext
  throw new JobtableError('config_invalid', 'traceContext must be a W3C traceparent: 1 to 512 printable ASCII characters')
}

function transactionOver(name: string, { library }: Transaction): JobtableError {
  return new JobtableError(
    'transaction_over',
    `${name} was not enqueued: something had to be waited for, such as an asynchronous payload schema or the check whether a file exists, and the transaction of ${library} does not last as long; await the enqueue within the transaction, or enqueue before or after it`,
  )
}

function idTaken(job: NewJob): JobtableError {
  return new JobtableError(
    'duplicate_id',
    `there is a job with the id ${job.id} already, and nothing was enqueued: leave out id, or use idempotency to find the job that is there`,
    { data: { id: job.id } },
  )
}

function conflict(job: NewJob, holder: JobRow, fields: string[]): JobtableError {
  return new JobtableError(
    'idempotency_conflict',
    `job ${holder.id} holds the key ${job.idempotencyKey} of ${job.type} with another payload (${fields.slice(0, 5).join(', ')} ${
      fields.length > 1 ? 'differ' : 'differs'
    }): put these fields into idempotency.key, or relax idempotency.compare to 'key' or to the fields that matter`,
    { data: { id: holder.id, key: job.idempotencyKey, fields } },
  )
}
