/**
 * The job types of the simulation. A job's payload says what its handler does at each attempt; the last act is repeated. No handler asks
 * anything of the database but through its job.
 */
import type { StandardSchemaV1 } from '@standard-schema/spec'
import { PermanentError, RetryAfter, TransientError } from '../../src/handler-errors.js'
import type { Queue } from '../../src/queue.js'
import type { Attempt } from '../../src/worker/attempt.js'
import type { JobContext } from '../../src/worker/context.js'
import { UNWRITABLE } from './database.js'
import { effectPlanOf, endOfEffect, performEffect, type EffectPlan } from './effect-act.js'
import type { EffectRules } from './effect-rules.js'
import type { End, Run } from './ledger.js'
import { SLOW_TYPE } from './plan.js'
import type { Host } from './virtual-time.js'
import { describe, type World } from './world.js'

/**
 * quick returns at once · steps reports stages and progress, and writes a stream · long outlasts its lease, and stops when it is told · deaf outlasts it and does
 * not · overrun goes on beyond its timeout · kill takes its process down · unwritable returns what cannot be stored
 */
const ACTS = [
  'quick',
  'steps',
  'long',
  'deaf',
  'overrun',
  'kill',
  'unwritable',
  'transient',
  'unknown',
  'permanent',
  'snooze',
  'rate_limited',
] as const
type Act = (typeof ACTS)[number]

/** With these a job comes to its end, if only because its attempts do. */
const LAST_ACTS: readonly Act[] = [
  'quick',
  'quick',
  'steps',
  'steps',
  'long',
  'deaf',
  'overrun',
  'kill',
  'unwritable',
  'transient',
  'unknown',
  'permanent',
]

export const TYPES = ['work', SLOW_TYPE, 'notify'] as const
export interface Payload {
  acts: Act[]
  key: string
  /** Each attempt takes the same step and has the same effect. */
  effect?: EffectPlan
}

export function payloadOf({ random, plan }: World, key: string): Payload {
  if (plan.brisk && random.chance(0.7)) return { acts: ['quick'], key }
  const acts: Act[] = []
  while (random.chance(0.4) && acts.length < 3) acts.push(random.pick(ACTS))
  const effect = random.chance(plan.effects) ? effectPlanOf(random) : undefined
  return { acts: [...acts, random.pick(LAST_ACTS)], key, ...(effect && { effect }) }
}

const payload: StandardSchemaV1<Payload, Payload> = {
  '~standard': { version: 1, vendor: 'simulation', validate: (value) => ({ value: value as Payload }) },
}

/** Asks elsewhere whether the payload is right. */
function slowPayload({ time, random }: World): StandardSchemaV1<Payload, Payload> {
  const validate = (value: unknown): Promise<StandardSchemaV1.Result<Payload>> =>
    new Promise((resolve) => time.after(random.between(0, 300), time.host, () => resolve({ value: value as Payload })))
  return { '~standard': { version: 1, vendor: 'simulation', validate } }
}

/** What becomes known of the handlers. */
export interface Observers {
  started(run: Run): void
  effects: EffectRules
}

/** Defines the types on a queue of this host. `kill` takes the host's process away. */
export function defineTypes(queue: Queue, host: Host, world: World, observers: Observers, kill: () => void): void {
  const { plan } = world
  const common = {
    payload,
    timeout: `${plan.timeoutMs}ms`,
    retry: { maxAttempts: plan.maxAttempts, backoff: { base: '300ms' }, maxDelay: '2s' },
    run: (job: JobContext<Payload>) => new Handling(job, host, world, observers, kill).run(),
  } as const
  queue.define('work', { ...common, idempotency: { none: 'each is meant' } })
  queue.define(SLOW_TYPE, {
    ...common,
    payload: slowPayload(world),
    idempotency: { key: ['key'], onDuplicate: 'return_previous_result', compare: 'key' },
  })
  queue.define('notify', {
    ...common,
    idempotency: { key: ['key'], onDuplicate: 'ignore_duplicate', compare: 'key' },
    queue: 'slow',
  })
}

class Handling {
  readonly #job: JobContext<Payload>
  readonly #host: Host
  readonly #world: World
  readonly #observers: Observers
  readonly #kill: () => void
  /** How its effect has ended it. */
  #effectEnd: End | undefined

  constructor(job: JobContext<Payload>, host: Host, world: World, observers: Observers, kill: () => void) {
    this.#job = job
    this.#host = host
    this.#world = world
    this.#observers = observers
    this.#kill = kill
  }

  async run(): Promise<unknown> {
    const { time, ledger, coverage, random } = this.#world
    const job = this.#job
    const run = ledger.begin(job as unknown as Attempt, this.#host, time.now)
    this.#observers.started(run)
    const { acts, effect } = job.payload
    const act = acts[Math.min(ledger.startsOf(job.id), acts.length) - 1]!
    this.#world.note(this.#host, () => `${job.id} starts attempt ${job.attempt}: ${effectText(effect, act)}`)
    const ended = (end: End): void => {
      run.end = end
      run.endedAt = time.now
      coverage.count(`handler: ${end}`)
      const { abortedFor } = run.attempt
      if (abortedFor !== undefined) coverage.count(`abort: ${abortedFor}`)
      this.#world.note(
        this.#host,
        () => `${job.id} attempt ${job.attempt}: its handler ${end}${abortedFor ? ` after ${abortedFor}` : ''}`,
      )
    }
    // Most handlers never look at their signal, and a worker must do without.
    const signal = random.chance(0.5) ? job.signal : undefined
    try {
      if (effect?.first) await this.#effect(effect, signal)
      const result = await this.#perform(act, signal, run)
      if (effect?.first === false) await this.#effect(effect, signal)
      ended(act === 'unwritable' ? 'refused' : 'returned')
      return result
    } catch (error) {
      ended(this.#effectEnd ?? (signal?.aborted && error === signal.reason ? 'aborted' : END_OF[act]))
      throw error
    }
  }

  async #effect(plan: EffectPlan, signal: AbortSignal | undefined): Promise<void> {
    const caller = { host: this.#host, signal, kill: this.#kill }
    try {
      await performEffect(this.#job, plan, caller, this.#world, this.#observers.effects)
    } catch (error) {
      this.#effectEnd = endOfEffect(error, this.#job.signal, this.#observers.effects.isHeir(this.#job.id))
      if (this.#effectEnd === undefined) this.#world.fail('nothing fails unexpectedly', describe(error))
      throw error
    }
  }

  async #perform(act: Act, signal: AbortSignal | undefined, run: Run): Promise<unknown> {
    const { random, plan } = this.#world
    const job = this.#job
    switch (act) {
      case 'quick':
        return { done: job.attempt }
      case 'steps':
        for (let step = 1; step <= 8; step++) {
          if (step % 3 === 1) await job.stage(`stage ${step}`)
          await this.#sleep(random.between(5, 300), signal)
          job.progress(step / 8)
          job.log.info('a step is done', { step })
          const text = `step ${step} of attempt ${job.attempt}; `
          await job.stream('text').write(text)
          run.written += text
        }
        await job.stream('text').end()
        return undefined
      case 'long':
        return this.#sleep(random.between(0.5, 1.2) * plan.leaseMs, signal ?? job.signal)
      case 'deaf':
        return this.#sleep(random.between(0.5, 2.5) * plan.leaseMs, undefined)
      case 'overrun':
        return this.#sleep(plan.timeoutMs + random.between(500, 4_000), signal)
      case 'kill':
        await this.#sleep(random.between(0, 200), signal)
        this.#kill()
        return this.#sleep(1, undefined)
      case 'unwritable':
        await this.#sleep(random.between(0, 100), signal)
        return { result: UNWRITABLE }
      default:
        await this.#sleep(random.between(0, 400), signal)
        throw errorOf(act)
    }
  }

  /** On no timer of the host's own, so that what the worker leaves behind can be told from it. */
  #sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const stop = (): void => reject(signal!.reason as Error)
      if (signal?.aborted) return stop()
      signal?.addEventListener('abort', stop, { once: true })
      this.#world.time.after(ms, this.#host, resolve)
    })
  }
}

function effectText(effect: EffectPlan | undefined, act: Act): string {
  if (!effect) return act
  const text = `an effect, ${effect.onUnknown}`
  return effect.first ? `${text}, then ${act}` : `${act}, then ${text}`
}

const END_OF: Record<Act, End> = {
  quick: 'returned',
  steps: 'transient',
  long: 'aborted',
  deaf: 'returned',
  overrun: 'aborted',
  kill: 'aborted',
  unwritable: 'refused',
  transient: 'transient',
  unknown: 'unknown',
  permanent: 'permanent',
  snooze: 'snoozed',
  rate_limited: 'rate_limited',
}

function errorOf(act: 'transient' | 'unknown' | 'permanent' | 'snooze' | 'rate_limited'): Error {
  switch (act) {
    case 'transient':
      return new TransientError('try again')
    case 'unknown':
      return new Error('what is this?')
    case 'permanent':
      return new PermanentError('never again')
    case 'snooze':
      return new RetryAfter(1_200)
    case 'rate_limited':
      return Object.assign(new Error('too many requests'), { status: 429 })
  }
}
