/** What a handler with an effect does: a step that draws a number, and then a call to the provider with it. */
import type { EffectCall, EffectOptions } from '../../src/effects/effect.js'
import { JobtableError, type ErrorCode } from '../../src/errors.js'
import { PermanentError, RetryAfter } from '../../src/handler-errors.js'
import type { Attempt } from '../../src/worker/attempt.js'
import type { JobContext } from '../../src/worker/context.js'
import type { EffectRules } from './effect-rules.js'
import type { End } from './ledger.js'
import type { Caller } from './provider.js'
import type { Random } from './random.js'
import type { World } from './world.js'

const ON_UNKNOWN = ['same_key', 'reconcile', 'hold'] as const
export type OnUnknown = (typeof ON_UNKNOWN)[number]

export interface EffectPlan {
  onUnknown: OnUnknown
  /** Before whatever else the attempt does, or after it. */
  first: boolean
  /** The request is a function, which may be called once. */
  drawn: boolean
}

export function effectPlanOf(random: Random): EffectPlan {
  return { onUnknown: random.pick(ON_UNKNOWN), first: random.chance(0.5), drawn: random.chance(0.5) }
}

interface Body {
  number: number
  drawn?: number
}

const STEP = 'draw'
const EFFECT = 'call'
const MOST = 1_000_000_000

export async function performEffect(
  job: JobContext<unknown>,
  plan: EffectPlan,
  caller: Caller,
  world: World,
  rules: EffectRules,
): Promise<void> {
  const { random, time, provider } = world
  const attempt = job as unknown as Attempt
  const number = await job.step(STEP, () => {
    rules.stepRuns(attempt, STEP)
    const drawn = random.whole(1, MOST)
    return new Promise<number>((resolve) => time.after(random.between(0, 100), caller.host, () => resolve(drawn)))
  })
  rules.stepGave(attempt, STEP, number)
  const { onUnknown } = plan
  const common = {
    request: plan.drawn ? () => ({ number, drawn: random.whole(1, MOST) }) : { number },
    run: (body: Body, { key }: EffectCall) => {
      rules.called(attempt, { key, body }, EFFECT)
      const answer = provider.call(caller, { jobId: job.id, key, knowsKeys: onUnknown === 'same_key' })
      answer.catch((error: unknown) => rules.refused(attempt, error))
      return answer
    },
  }
  const reconcile = async (_: Body, { key }: EffectCall) => {
    const answer = await provider.ask(caller, key)
    rules.told(attempt, answer)
    return answer
  }
  const options: EffectOptions<Body, number> =
    onUnknown === 'reconcile' ? { ...common, onUnknown, reconcile } : { ...common, onUnknown }
  rules.stepGave(attempt, EFFECT, await job.effect<Body, number>(EFFECT, options))
}

/** Errors of the verbs and of the store that faults of the simulation explain. */
const EXPECTED: Partial<Record<ErrorCode, End>> = {
  effect_unknown: 'held',
  lease_lost: 'aborted',
  store_busy: 'transient',
  store_full: 'transient',
  store_unavailable: 'transient',
}

/**
 * How a handler ended whose step or effect threw this; undefined where no fault explains it. An heir may ask for something else than the job
 * whose effect it goes on with.
 */
export function endOfEffect(error: unknown, signal: AbortSignal, isHeir: boolean): End | undefined {
  if (signal.aborted && error === signal.reason) return 'aborted'
  if (error instanceof JobtableError && error.code === 'steps_changed' && isHeir) return 'permanent'
  if (error instanceof JobtableError) return EXPECTED[error.code]
  if (error instanceof RetryAfter) return 'snoozed'
  if (error instanceof PermanentError) return 'permanent'
  return (error as { status?: number }).status === 429 ? 'rate_limited' : 'unknown'
}
