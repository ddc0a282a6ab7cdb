/**
 * A job type: the contract between those who enqueue it and the handler that runs it. The contract needs no handler, so
 * that a web bundle can hold the one without the other.
 */
import type { StandardSchemaV1 } from '@standard-schema/spec'
import { DEFAULT_MAX_DELAY_MS, exponential, nextRunAfter, type Backoff } from './backoff.js'
import { parseDuration, type Duration } from './duration.js'
import { JobtableError, type Classification, type ErrorCode } from './errors.js'
import type { JobFile } from './files.js'
import { prepareIsolation, type IsolateOptions } from './isolate/index.js'
import type { Isolation } from './isolate/host.js'
import { prepareRule, type IdempotencyRule, type NoIdempotency, type Rule } from './idempotency.js'
import type { JsonCheck } from './json.js'
import type { LocalText, Messages } from './messages.js'
import { checkOptionNames, type OptionNames } from './options.js'
import { DEFAULT_MAX_ATTEMPTS, type RetryPolicy } from './transition.js'
import { checkStream } from './streams/stream.js'
import type { JobContext } from './worker/context.js'

/** What a handler may return: JSON, a file made with `job.file(...)`, or nothing. */
export type Handler<Payload, Result, Stage extends string = string> = (
  job: JobContext<Payload, Stage>,
) => Promise<Result> | Result

export interface RetryOptions {
  /** How often the job may run in all, the first time included. Default 5; 1 means exactly one run. */
  maxAttempts?: number
  /**
   * The wait after a failed attempt: a curve, or a function from the number of the attempt that failed (from 1) to
   * milliseconds. Default: `nextRunAfter`.
   */
  backoff?: Backoff | { base: Duration; factor?: number }
  /** No wait is longer, jitter included. Default `10m`. */
  maxDelay?: Duration
  /** Lengthens waits by up to a tenth at random, so that jobs that failed together do not all come back together. Default true. */
  jitter?: boolean
  /** The longest wait that another system's "retry after" may impose. Default `1h`. */
  maxRetryAfter?: Duration
}

export interface JobTypeOptions<Schema extends StandardSchemaV1, Idempotency, Result, Stage extends string> {
  /** Any Standard Schema (zod, valibot, arktype, ...). What is stored is its input; the handler gets its output. */
  payload: Schema
  /** When two jobs are the same one, and what the second enqueue gets; or `{ none: reason }`. */
  idempotency: Idempotency
  retry?: RetryOptions
  /**
   * How long an attempt may take. Then its signal is aborted with the reason `timeout`, and a handler that ignores that is cut off.
   * Default `15m`; `'none'` for no limit.
   */
  timeout?: Duration | 'none'
  /** Lower runs first, from -100 to 100. Default 0. */
  priority?: number
  /** Default `default`. */
  queue?: string
  /** The stages in their order, for `job.stage(...)` and for whoever shows them. */
  stages?: readonly Stage[]
  /** What the end user reads for a stage, as `jobtable/http` gives it: one text, or one for each language. Without it, the stage's name. */
  stageLabels?: Readonly<Partial<Record<NoInfer<Stage>, LocalText>>>
  /**
   * The streams that the job's end user may read through `jobtable/http`, by the names that the handler gives to `job.stream`. Default:
   * none, for what a handler writes may be meant for developers.
   */
  publicStreams?: readonly string[]
  /** A say before the built-in classifier: what this error means, or undefined to leave it to that. */
  classify?: (error: unknown) => Classification | undefined
  /** What the end user reads for an error code, in place of the built-in words. */
  messages?: Messages
  /**
   * What the handler returns, as a schema: it types `job.result()` where the contract lives apart from its handler, and a
   * result that does not fit fails the job. Without it the type comes from `run`.
   */
  result?: StandardSchemaV1<Result, Result>
  /**
   * Runs the handler in a thread or process of its own, which is killed when the handler does not stop at its timeout, at a
   * cancellation or at a shutdown, and whose crash or shortage of memory costs this job only. `run` is then the URL of a module.
   */
  isolate?: Isolation | IsolateOptions
  /**
   * The handler; with `isolate` the URL of a module whose default export it is, such as `new URL('./render.js', import.meta.url)`. It
   * can be given later, elsewhere, with `type.handle(...)`.
   */
  run?: Handler<StandardSchemaV1.InferOutput<Schema>, Result, Stage> | URL
}

/** The idempotency options for a payload, as its schema's output and input. */
export type IdempotencyOption<Output, Input = Output> =
  | NoIdempotency
  | IdempotencyRule<Output, 'return_existing_file', Input>
  | IdempotencyRule<Output, 'return_previous_result', Input>
  | IdempotencyRule<Output, 'ignore_duplicate', Input>

/** As `JsonCheck`, of what a handler returns: it may be a file too. */
export type ResultCheck<Result> = JsonCheck<Exclude<Result, JobFile>>

/** Turns what the compiler can tell to be wrong into a type error that says what it is. */
export type Checked<Schema extends StandardSchemaV1, Idempotency, Result> = (JsonCheck<
  StandardSchemaV1.InferInput<Schema>
> extends true
  ? unknown
  : { payload: JsonCheck<StandardSchemaV1.InferInput<Schema>> }) &
  (Idempotency extends { onDuplicate: 'return_existing_file' }
    ? [Result] extends [JobFile]
      ? unknown
      : { run?: 'return_existing_file needs a handler that returns job.file(...)' }
    : ResultCheck<Result> extends true
      ? unknown
      : { run?: ResultCheck<Result>; result?: ResultCheck<Result> })

/** The options of whatever type. */
export type AnyTypeOptions = JobTypeOptions<StandardSchemaV1, IdempotencyRule<never> | NoIdempotency, unknown, string>

/** A type's options made ready for use: every default filled in, every duration in milliseconds. */
export interface PreparedType {
  name: string
  queue: string
  priority: number
  policy: RetryPolicy
  timeoutMs: number | null
  rule: Rule | null
  stages: readonly string[]
  stageLabels: Readonly<Partial<Record<string, LocalText>>>
  publicStreams: readonly string[]
  classify: ((error: unknown) => Classification | undefined) | undefined
  messages: Messages | undefined
  /**
   * Check a payload that has been through JSON, and a handler's result; throw `payload_invalid` and `result_invalid`. A promise
   * only where the schema is asynchronous.
   */
  validate(payload: unknown): unknown
  validateResult(result: unknown): unknown
  handler: Handler<unknown, unknown> | undefined
  /** What is given as a handler, made ready. */
  toHandler(run: Handler<unknown, unknown> | URL): Handler<unknown, unknown>
}

const NAMES: OptionNames<Required<AnyTypeOptions>> = {
  payload: true,
  idempotency: true,
  retry: true,
  timeout: true,
  priority: true,
  queue: true,
  stages: true,
  stageLabels: true,
  publicStreams: true,
  classify: true,
  messages: true,
  result: true,
  isolate: true,
  run: true,
}
const RETRY: OptionNames<Required<RetryOptions>> = {
  maxAttempts: true,
  backoff: true,
  maxDelay: true,
  jitter: true,
  maxRetryAfter: true,
}

export const DEFAULT_QUEUE = 'default'
const DEFAULT_TIMEOUT: Duration = '15m'

/** What rules a job whose type this process does not know. */
export const DEFAULT_POLICY: RetryPolicy = preparePolicy('default', {})

export function prepareType(name: string, options: AnyTypeOptions): PreparedType {
  checkTypeName(name)
  if (!options?.payload?.['~standard']) {
    throw new JobtableError('config_invalid', `${name}: payload must be a Standard Schema, such as z.object({ ... }) of zod`)
  }
  if (!options.idempotency) {
    throw new JobtableError('config_invalid', `${name}: say idempotency: { key, onDuplicate }, or { none: 'the reason' }`)
  }
  checkOptionNames(`the type ${name}`, options, NAMES)
  const { timeout = DEFAULT_TIMEOUT, stages = [], stageLabels = {}, publicStreams = [], result, isolate, run } = options
  const toHandler = (given: Handler<unknown, unknown> | URL): Handler<unknown, unknown> => {
    if (isolate !== undefined) return prepareIsolation(name, isolate, given)
    if (typeof given === 'function') return given
    throw new JobtableError(
      'config_invalid',
      `${name}: the handler must be a function; a module needs isolate: 'thread' or 'process'`,
    )
  }
  for (const stream of publicStreams) checkStream(stream)
  return {
    name,
    queue: checkQueue(options.queue ?? DEFAULT_QUEUE),
    priority: checkPriority(options.priority ?? 0),
    policy: preparePolicy(name, options.retry ?? {}),
    timeoutMs: timeout === 'none' ? null : checkTimeout(name, timeout),
    rule: prepareRule(name, options.idempotency),
    stages,
    stageLabels,
    publicStreams,
    classify: options.classify,
    messages: options.messages,
    validate: (payload) => validate(options.payload, payload, `the payload of ${name}`, 'payload_invalid'),
    validateResult: (value) => (result ? validate(result, value, `the result of ${name}`, 'result_invalid') : value),
    handler: run && toHandler(run),
    toHandler,
  }
}

function checkTimeout(name: string, timeout: Duration): number {
  const ms = parseDuration(timeout)
  if (ms > 0) return ms
  throw new JobtableError('config_invalid', `${name}: timeout must be longer than 0; write 'none' for no limit`)
}

function preparePolicy(name: string, retry: RetryOptions): RetryPolicy {
  checkOptionNames(`${name}: retry`, retry, RETRY)
  const { maxAttempts = DEFAULT_MAX_ATTEMPTS, backoff = nextRunAfter, maxDelay, jitter = true, maxRetryAfter = '1h' } = retry
  return {
    maxAttempts: checkMaxAttempts(maxAttempts, name),
    backoff: typeof backoff === 'function' ? backoff : exponential(...checkCurve(name, backoff)),
    maxDelayMs: maxDelay === undefined ? DEFAULT_MAX_DELAY_MS : parseDuration(maxDelay),
    jitter,
    maxRetryAfterMs: parseDuration(maxRetryAfter),
  }
}

function checkCurve(name: string, curve: { base: Duration; factor?: number }): [baseMs: number, factor: number] {
  checkOptionNames(`${name}: retry.backoff`, curve, { base: true, factor: true })
  const { base, factor = 2 } = curve
  const baseMs = parseDuration(base)
  const invalid = !isPositive(baseMs)
    ? `base must be a length of time above 0, not ${base}`
    : !isPositive(factor)
      ? `factor must be a number above 0, not ${String(factor)}`
      : null
  if (invalid !== null) throw new JobtableError('config_invalid', `${name}: backoff.${invalid}`)
  return [baseMs, factor]
}

function isPositive(value: unknown): boolean {
  return typeof value === 'number' && Number.isFinite(value) && value > 0
}

export function checkMaxAttempts(maxAttempts: number, what: string): number {
  if (Number.isInteger(maxAttempts) && maxAttempts >= 1 && maxAttempts <= 1_000_000) return maxAttempts
  throw new JobtableError(
    'config_invalid',
    `${what}: maxAttempts must be a whole number from 1 to 1000000, not ${String(maxAttempts)}`,
  )
}

export function checkPriority(priority: number): number {
  if (Number.isInteger(priority) && priority >= -100 && priority <= 100) return priority
  throw new JobtableError(
    'config_invalid',
    `priority must be a whole number from -100 (first) to 100 (last), not ${String(priority)}`,
  )
}

export function checkTypeName(name: string): string {
  if (typeof name === 'string' && /^[\w.:/-]{1,100}$/.test(name)) return name
  throw new JobtableError('config_invalid', `${JSON.stringify(name)} is no type name: use 1 to 100 letters, digits and _ . : / -`)
}

export function checkQueue(queue: string): string {
  if (typeof queue === 'string' && /^[\w.:/-]{1,100}$/.test(queue)) return queue
  throw new JobtableError(
    'config_invalid',
    `${JSON.stringify(queue)} is no queue name: use 1 to 100 letters, digits and _ . : / -`,
  )
}

type InvalidCode = ErrorCode & ('payload_invalid' | 'result_invalid')

function validate(schema: StandardSchemaV1, value: unknown, what: string, code: InvalidCode): unknown {
  const checked = schema['~standard'].validate(value)
  return checked instanceof Promise ? checked.then((result) => output(result, what, code)) : output(checked, what, code)
}

function output(result: StandardSchemaV1.Result<unknown>, what: string, code: InvalidCode): unknown {
  if (!result.issues) return result.value
  const problems = result.issues.slice(0, 5).map((issue) => `${pathOf(issue)}: ${issue.message}`)
  throw new JobtableError(code, `${what} is invalid: ${problems.join('; ')}`, {
    data: { paths: result.issues.map(pathOf), issues: result.issues },
  })
}

function pathOf(issue: StandardSchemaV1.Issue): string {
  const keys = (issue.path ?? []).map((segment) => (typeof segment === 'object' ? segment.key : segment))
  return `$${keys.map((key) => (typeof key === 'number' ? `[${key}]` : `.${String(key)}`)).join('')}`
}
