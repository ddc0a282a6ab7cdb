/** What an effect is given, what its provider knows it by, and which errors say for certain that nothing has happened. */
import { createHash } from 'node:crypto'
import { classify } from '../classify/index.js'
import { flatten, unwrap } from '../classify/unwrap.js'
import type { Classification } from '../errors.js'
import { canonicalJson, readJson, type JsonValue } from '../json.js'
import { BY_PERSON, type StepRow } from './record.js'

export interface EffectCall {
  /**
   * For the provider's idempotency key, or to look the effect up by: the same in every attempt, as long as the effect may have happened.
   * After a refusal for good, or a person's word that it was not done, the next call has another one.
   */
  key: string
  signal: AbortSignal
}

/** What is found out about an effect that was begun. */
export type Reconciled<Value> = { done: Value } | 'not_done' | 'unknown'

interface AnyEffect<Body, Value> {
  /**
   * What is to be sent, as JSON: frozen before the first call, and the same in every later one. A function is called once; a value is compared
   * with the frozen one in each attempt, and another one is refused as `steps_changed`.
   */
  request: Body | (() => Body | Promise<Body>)
  /** Calls the provider. An error that says for certain that nothing happened lets it begin anew; after any other it may have happened. */
  run(body: Body, call: EffectCall): Value | Promise<Value>
}

/**
 * What to do about an effect that was begun, and of which nobody knows whether it happened:
 * - `same_key`: call again with the same key and request; for providers that know a request again by its key
 * - `reconcile`: ask the provider by `reconcile` first, and call again only if it was not done; what stays unknown is held
 * - `hold`: the job fails with the code `effect_unknown`, until a person says what happened
 */
export type EffectOptions<Body, Value> =
  | (AnyEffect<Body, Value> & { onUnknown: 'same_key' | 'hold'; reconcile?: never })
  | (AnyEffect<Body, Value> & {
      onUnknown: 'reconcile'
      reconcile(body: Body, call: EffectCall): Reconciled<Value> | Promise<Reconciled<Value>>
    })

interface Keyed {
  id: string
  type: string
  idempotencyKey: string | null
}

/** Of the first call: by type, business key and name; never by the attempt. */
export function providerKey(job: Keyed, name: string): string {
  const business = job.idempotencyKey === null ? ['id', job.id] : ['key', job.idempotencyKey]
  const digest = createHash('sha256').update(JSON.stringify([job.type, ...business, name]))
  return `jobtable-${digest.digest('hex').slice(0, 40)}`
}

/**
 * A provider may answer a key that it has refused with that very refusal, whatever was repaired since. Only what is known not to have
 * happened may have another key, for else it might happen under both.
 */
export function nextKey(key: string): string {
  const [, first, count] = /^(.*?)(?:-([2-9]|[1-9]\d{1,8}))?$/s.exec(key)!
  return `${first}-${Number(count ?? 1) + 1}`
}

/** Of an effect that begins, or that was `refused` and begins anew: one key never has two requests. */
export function keyToBegin(job: Keyed, name: string, refused: StepRow | undefined, request: string): string {
  const key = refused?.key ?? providerKey(job, name)
  if (refused === undefined) return key
  return refused.attempt === BY_PERSON || !sameRequest(refused.request, request) ? nextKey(key) : key
}

/** Permanent, but no word of the provider's, or none that settles it: the call may have been made before. */
const DOUBTFUL: ReadonlySet<string> = new Set([
  'aborted',
  'canceled',
  'conflict',
  'database_rejected',
  'disk_full',
  'effect_unknown',
  'file_missing',
  'idempotency_conflict',
  'lease_lost',
  'local_resources',
  'misconfigured',
  'payload_invalid',
  'provider_error',
  'response_invalid',
  'result_invalid',
  'step_repeated',
  'steps_changed',
  'superseded',
  'transaction_over',
  'transaction_uncommitted',
  'unknown',
  'validation_failed',
])
/** Worth another attempt, and surely not sent. */
const UNSENT: ReadonlySet<string> = new Set(['connection_refused', 'dns_failed'])

/**
 * What an error says for certain: the provider has refused for good, or for now, as whoever has too much to do or was never reached.
 * Undefined where the call may have happened.
 */
export function refusalOf(error: unknown, said: Classification): Refusal | undefined {
  const refusal = refusalBy(said)
  return refusal === 'for_good' && mayHaveHappened(error) ? 'for_now' : refusal
}

export type Refusal = 'for_good' | 'for_now'

function refusalBy({ kind, code }: Classification): Refusal | undefined {
  if (kind === 'permanent') return DOUBTFUL.has(code) ? undefined : 'for_good'
  if (kind === 'rate_limited') return code === 'provider_unavailable' ? undefined : 'for_now'
  return UNSENT.has(code) ? 'for_now' : undefined
}

/**
 * What a handler or its type calls permanent may have come from a timeout all the same. It is taken at its word, but keeps its key: a provider that
 * knows its keys then still guards against the word's being wrong.
 */
function mayHaveHappened(error: unknown): boolean {
  return flatten(unwrap(error)).some((part) => {
    const { kind, code } = classify(part)
    return kind === 'unknown_outcome' || (kind === 'transient' && !UNSENT.has(code) && code !== 'unknown')
  })
}

export function bodyOf<Body>(request: Body | (() => Body | Promise<Body>)): Body | Promise<Body> {
  return typeof request === 'function' ? (request as () => Body | Promise<Body>)() : request
}

/** Whatever the order of their members. */
export function sameRequest(one: string | null, other: string): boolean {
  if (one === other) return true
  const value = readJson(one)
  return value !== undefined && canonicalJson(value as JsonValue) === canonicalJson(JSON.parse(other) as JsonValue)
}
