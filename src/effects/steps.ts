/**
 * `job.step` and `job.effect`, where the handler runs. What is recorded is read once, when a handler first asks for it: only the
 * holder of the claim writes it.
 *
 *   step(name, fn):    recorded? ──yes──> its value
 *                          └──no──> fn ──returned──> recorded done ──> the value as it will be read
 *
 *   effect(name, ...): done? ──yes──> its value
 *                      started? ──onUnknown──┬─ same_key ──────────────> run
 *                          │                 ├─ reconcile ── not_done ─> run
 *                          │                 │      ├────── done ─────> recorded done
 *                          │                 │      └────── unknown ──> held
 *                          │                 └─ hold ─────────────────> held: effect_unknown
 *                          └──no──> request frozen, recorded started ──> run
 *
 *   run: recorded started (again), which is the last look at the claim ──> the call ──returned──> recorded done
 *                       ├──threw, and certainly nothing happened──> recorded refused, may begin anew; with the next key if it was for good
 *                       └──threw otherwise──> stays started; with hold: held
 *
 * A refusal of a call that is made again says nothing of the one before it, so that the effect stays started, and keeps its key.
 *
 * A deploy may change a handler between two attempts. Noticed, as `steps_changed`, is: a name of another kind; a request given as a value that
 * differs from the frozen one; an effect with the very request of one that is recorded and was not asked for, which was renamed; and
 * an effect of unknown outcome that an attempt ends without having asked for.
 */
import { JobtableError, type Classification } from '../errors.js'
import { encodeJson } from '../json.js'
import { checkOptionNames } from '../options.js'
import type { JobContext } from '../worker/context.js'
import { bodyOf, keyToBegin, nextKey, providerKey, refusalOf, sameRequest, type EffectOptions } from './effect.js'
import { InFlight } from './in-flight.js'
import type { StepLog } from './log.js'
import type { NewStep, StepKind, StepRow } from './record.js'

export interface StepsEnv {
  job: Pick<JobContext<unknown>, 'id' | 'type' | 'attempt' | 'idempotencyKey' | 'signal'>
  log: StepLog
  /** What an error says by itself, whatever the signal of the job. */
  classify(error: unknown): Classification
  warn(message: string): void
}

const LONGEST_NAME = 200

export class Steps {
  readonly inFlight: InFlight
  readonly #env: StepsEnv
  /** What earlier attempts have left. */
  #found: Promise<ReadonlyMap<string, StepRow>> | undefined
  #loaded: ReadonlyMap<string, StepRow> = new Map()
  readonly #asked = new Set<string>()
  /** Of which the handler knows that they are done. */
  readonly #seen = new Set<string>()

  constructor(env: StepsEnv) {
    this.#env = env
    this.inFlight = new InFlight(env.warn)
  }

  step<Value>(name: string, fn: () => Value | Promise<Value>): Promise<Value> {
    return this.inFlight.follow(`step ${name}`, () => this.#step(name, fn))
  }

  effect<Body, Value>(name: string, options: EffectOptions<Body, Value>): Promise<Value> {
    return this.inFlight.follow(`effect ${name}`, () => this.#effect(name, options))
  }

  async #step<Value>(name: string, fn: () => Value | Promise<Value>): Promise<Value> {
    checkFunction(fn, `job.step(${JSON.stringify(name)}, fn)`)
    const before = await this.begin(name, 'step')
    if (before) return decode(before.value) as Value
    const value = encodeValue(await fn(), `the value of the step ${name}`)
    await this.#record({ name, kind: 'step', state: 'done', value })
    return decode(value) as Value
  }

  async #effect<Body, Value>(name: string, options: EffectOptions<Body, Value>): Promise<Value> {
    checkOptions(name, options)
    const before = await this.begin(name, 'effect')
    const given = typeof options.request === 'function' ? undefined : encodeRequest(name, options.request)
    if (before && before.state !== 'refused') checkRequest(before, given)
    if (before?.state === 'done') return decode(before.value) as Value
    if (before?.state === 'started') return this.#goOn(before, options)
    const request = given ?? encodeRequest(name, await bodyOf(options.request))
    this.#checkRenamed(name, request)
    return this.#run({ name, request, key: keyToBegin(this.#env.job, name, before, request) }, options)
  }

  /** What the job has done under this name, whatever its kind. Looked up each time: this very attempt may have written it. */
  async recorded(name: string): Promise<{ value: unknown } | undefined> {
    checkName(name)
    const row = (await this.#env.log.load()).find((step) => step.name === name)
    if (row?.state !== 'done') return undefined
    this.#seen.add(name)
    return { value: decode(row.value) }
  }

  /** What an earlier attempt has recorded under this name. The name counts as asked for from now on, and twice is an error. */
  async begin(name: string, kind: StepKind): Promise<StepRow | undefined> {
    checkName(name)
    if (this.#asked.has(name)) throw repeated(name)
    this.#asked.add(name)
    this.#found ??= this.#load()
    const row = (await this.#found).get(name)
    if (row) checkKind(row, kind)
    return row
  }

  /** When the handler has returned: waits for what is in flight, and throws for what the handler has left behind. */
  async handlerReturned(): Promise<void> {
    await this.inFlight.handlerReturned()
    this.checkNothingLeft()
  }

  /** Throws where an effect of an earlier attempt is in doubt and was not asked for by this one. */
  checkNothingLeft(): void {
    for (const { name, kind, state } of this.#loaded.values()) {
      if (kind !== 'effect' || state !== 'started' || this.#asked.has(name)) continue
      throw changed(
        name,
        `the outcome of the effect ${name} is unknown, and the handler did not ask for it any more: look at its provider, then say so with queue.resolve or \`jobtable resolve\``,
      )
    }
  }

  async #load(): Promise<ReadonlyMap<string, StepRow>> {
    const rows = await this.#env.log.load()
    return (this.#loaded = new Map(rows.map((row) => [row.name, row])))
  }

  async #goOn<Body, Value>(before: StepRow, options: EffectOptions<Body, Value>): Promise<Value> {
    const { name } = before
    const started = { name, request: before.request ?? 'null', key: before.key ?? providerKey(this.#env.job, name) }
    if (options.onUnknown === 'hold') throw held(name)
    if (options.onUnknown === 'same_key') return this.#run(started, options, { doubt: true })
    const { signal } = this.#env.job
    signal.throwIfAborted()
    const answer = await options.reconcile!(JSON.parse(started.request) as Body, { key: started.key, signal })
    if (answer === 'not_done') return this.#run(started, options)
    if (answer === 'unknown') throw held(name)
    if (typeof answer === 'object' && answer !== null && 'done' in answer) return this.#done(started, answer.done)
    throw new JobtableError(
      'config_invalid',
      `the effect ${name}: reconcile must answer with { done: value }, 'not_done' or 'unknown'`,
    )
  }

  /** With `doubt`, an earlier call may have happened, and a refusal of this one says nothing of it. */
  async #run<Body, Value>(started: Started, options: EffectOptions<Body, Value>, { doubt = false } = {}): Promise<Value> {
    const { signal } = this.#env.job
    signal.throwIfAborted()
    // The last look at the claim before the call: nobody else has taken the job over.
    await this.#record({ ...started, kind: 'effect', state: 'started' })
    // Nothing was sent this time: nobody need be asked about it.
    if (signal.aborted && !doubt) await this.#record({ ...started, kind: 'effect', state: 'refused' })
    signal.throwIfAborted()
    let value: Value
    try {
      value = await options.run(JSON.parse(started.request) as Body, { key: started.key, signal })
    } catch (error) {
      const refusal = doubt ? undefined : refusalOf(error, this.#env.classify(error))
      if (refusal !== undefined) {
        const key = refusal === 'for_good' ? nextKey(started.key) : started.key
        await this.#record({ ...started, key, kind: 'effect', state: 'refused' })
        throw error
      }
      throw options.onUnknown === 'hold' ? held(started.name, error) : error
    }
    return this.#done(started, value)
  }

  async #done<Value>(started: Started, given: Value): Promise<Value> {
    const value = encodeValue(given, `the value of the effect ${started.name}`)
    await this.#record({ ...started, kind: 'effect', state: 'done', value })
    return decode(value) as Value
  }

  #record(step: Pick<NewStep, 'name' | 'kind' | 'state'> & Partial<NewStep>): Promise<void> {
    return this.#env.log.record({ request: null, key: null, value: null, attempt: this.#env.job.attempt, ...step })
  }

  #checkRenamed(name: string, request: string): void {
    for (const found of this.#loaded.values()) {
      if (found.kind !== 'effect' || found.state === 'refused') continue
      if (this.#asked.has(found.name) || this.#seen.has(found.name)) continue
      if (!sameRequest(found.request, request)) continue
      throw changed(
        name,
        `the effect ${name} has the very request of ${found.name}, which an earlier attempt began and this one has not asked for: if it was renamed, give it its old name; if both are meant, ask for ${found.name} first`,
      )
    }
  }
}

interface Started {
  name: string
  request: string
  key: string
}

/** JSON text; null for nothing. */
export function encodeValue(value: unknown, what: string): string | null {
  return value === undefined ? null : encodeJson(value, what, 'result_invalid')
}

export function decode(text: string | null): unknown {
  return text === null ? undefined : (JSON.parse(text) as unknown)
}

function encodeRequest(name: string, body: unknown): string {
  return encodeJson(body, `the request of the effect ${name}`, 'payload_invalid')
}

export function checkName(name: unknown): void {
  if (typeof name === 'string' && name !== '' && name.length <= LONGEST_NAME && name.isWellFormed() && !name.includes('\0'))
    return
  throw new JobtableError(
    'config_invalid',
    `${JSON.stringify(name)} is no name of a step, effect or checkpoint: use 1 to ${LONGEST_NAME} characters`,
  )
}

/** What TypeScript refuses and JavaScript does not. */
export function checkFunction(fn: unknown, call: string): void {
  if (typeof fn !== 'function')
    throw new JobtableError('config_invalid', `${call} needs a function, and was given ${described(fn)}`)
}

function described(value: unknown): string {
  return value === undefined ? 'none' : value === null ? 'null' : typeof value === 'object' ? 'an object' : `a ${typeof value}`
}

function checkOptions(name: string, options: { request?: unknown; onUnknown: string; run: unknown; reconcile?: unknown }): void {
  const problem = !['same_key', 'reconcile', 'hold'].includes(options?.onUnknown)
    ? `pass { request, run, onUnknown }, with onUnknown: 'same_key', 'reconcile' or 'hold'`
    : !('request' in options)
      ? 'request must be what is to be sent, as JSON, be it null, or a function that makes it'
      : typeof options.run !== 'function'
        ? 'run must be a function'
        : options.onUnknown === 'reconcile' && typeof options.reconcile !== 'function'
          ? "onUnknown: 'reconcile' needs a reconcile function"
          : undefined
  if (problem !== undefined) throw new JobtableError('config_invalid', `the effect ${name}: ${problem}`)
  checkOptionNames(`the effect ${name}`, options, { request: true, run: true, onUnknown: true, reconcile: true })
}

function checkKind({ name, kind }: StepRow, wanted: StepKind): void {
  if (kind === wanted) return
  throw changed(
    name,
    `${name} was recorded as ${kind} by an earlier attempt, and is asked for as ${wanted}: give what has changed a name of its own, or put the old handler back`,
  )
}

function checkRequest(before: StepRow, request: string | undefined): void {
  if (request === undefined || sameRequest(before.request, request)) return
  throw changed(
    before.name,
    `the request of the effect ${before.name} is not the one that an earlier attempt, or an earlier job of the same key, began it with: if it is another effect now, give it another name; if it may differ between attempts, such as by a time, pass request as a function, which is called once`,
  )
}

function changed(name: string, message: string): JobtableError {
  return new JobtableError('steps_changed', message, { data: { name } })
}

function repeated(name: string): JobtableError {
  return new JobtableError(
    'step_repeated',
    `${name} was asked for twice in one attempt: each step, effect and transaction of a job needs a name of its own, such as ${name}:1 in a loop; to try again, do so within its function`,
    { data: { name } },
  )
}

function held(name: string, cause?: unknown): JobtableError {
  return new JobtableError(
    'effect_unknown',
    `the outcome of the effect ${name} is unknown, and the job is held: look at its provider, then say what you found with queue.resolve or \`jobtable resolve\``,
    { data: { effect: name }, ...(cause !== undefined && { cause }) },
  )
}
