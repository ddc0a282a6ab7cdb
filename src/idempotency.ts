/**
 * Idempotency: what a second enqueue of the same thing gets. Pure; the queue and the store do what is decided here.
 *
 * Every type states its rule, or says why it has none. A key belongs to one type. It is a list of parts, stored as the JSON
 * text of the list, so that no two lists share a text and a person can read it. At most one row per type and key is the
 * holder; a finished holder may be superseded, which leaves its row as it is and points it to its successor.
 */
import { createHash } from 'node:crypto'
import { parseDuration, type Duration } from './duration.js'
import { JobtableError } from './errors.js'
import { canonicalJson, encodeJson, readJson, type JsonValue } from './json.js'
import { checkOptionNames, type OptionNames } from './options.js'
import type { JobRow } from './store.js'
import { isFinal, type FinalStatus } from './transition.js'

/**
 * What an enqueue gets whose key is held by a job that has succeeded:
 * - `return_existing_file`: that job, once its file has been checked to exist; a vanished file starts a new job
 * - `return_previous_result`: that job, with its result
 * - `ignore_duplicate`: that job's id, and `duplicate: true`; a failed job holds its key too
 */
export type OnDuplicate = 'return_existing_file' | 'return_previous_result' | 'ignore_duplicate'

export type KeyPart = string | number | boolean

/** The fields that a key can be made of: those that hold a text, a number or a boolean, or nothing. */
type KeyField<Payload> = unknown extends Payload
  ? string
  : {
      [K in keyof Payload & string]-?: unknown extends Payload[K] ? K : Exclude<Payload[K], undefined> extends KeyPart ? K : never
    }[keyof Payload & string]

/** The fields of a payload; any where its type does not tell. */
type FieldOf<Payload> = unknown extends Payload ? string : keyof Payload & string

export interface IdempotencyRule<Output, Mode extends OnDuplicate = OnDuplicate, Input = Output> {
  /** The fields that make the key, or a function that returns its parts. Both see the payload as the schema's output. */
  key: readonly KeyField<Output>[] | ((payload: Output) => readonly KeyPart[])
  onDuplicate: Mode
  /** How long a finished job holds its key. Default: as long as its row exists. */
  keepFor?: Duration
  /**
   * What must be equal when the key is: the whole `payload` (the default), these fields of it, or nothing but the `key`.
   * A difference is refused with `idempotency_conflict`. What is compared is what is stored: the payload as the schema's input.
   */
  compare?: 'payload' | 'key' | readonly FieldOf<Input>[]
}

/** No idempotency, and the reason for it: `{ none: 'every click is meant' }`. */
export interface NoIdempotency {
  none: string
}

/** A rule made ready: the same shape for every type. */
export interface Rule {
  onDuplicate: OnDuplicate
  keepForMs: number | null
  keyOf(payload: unknown): string
  /** The fields that are compared: null for all, none for the key alone. */
  compared: readonly string[] | null
}

const RULE: OptionNames<Required<IdempotencyRule<never>>> = { key: true, onDuplicate: true, keepFor: true, compare: true }

/** Longer keys are stored as their SHA-256, so that the index stays small. In characters. */
const LONGEST_KEY = 512

export function prepareRule(type: string, option: IdempotencyRule<never> | NoIdempotency): Rule | null {
  const where = `${type}: idempotency`
  if ('none' in option) {
    checkOptionNames(where, option, { none: true })
    if (typeof option.none === 'string' && option.none.trim() !== '') return null
    throw new JobtableError(
      'config_invalid',
      `${type}: idempotency.none needs a reason, such as { none: 'every click is meant' }`,
    )
  }
  checkOptionNames(where, option, RULE)
  const { key, onDuplicate, keepFor, compare = 'payload' } = option as unknown as IdempotencyRule<Record<string, unknown>>
  if (!['return_existing_file', 'return_previous_result', 'ignore_duplicate'].includes(onDuplicate)) {
    throw new JobtableError(
      'config_invalid',
      `${type}: idempotency.onDuplicate must be return_existing_file, return_previous_result or ignore_duplicate, not ${JSON.stringify(onDuplicate)}`,
    )
  }
  if (typeof key !== 'function' && !(Array.isArray(key) && key.length > 0)) {
    throw new JobtableError(
      'config_invalid',
      `${type}: idempotency.key must be a list of payload fields or a function that returns parts`,
    )
  }
  return {
    onDuplicate,
    keepForMs: keepFor === undefined ? null : parseDuration(keepFor),
    keyOf: (payload) => encodeKey(type, typeof key === 'function' ? callKey(type, key, payload) : fields(payload, key)),
    compared: compare === 'payload' ? null : compare === 'key' ? [] : compare,
  }
}

function callKey(
  type: string,
  key: (payload: Record<string, unknown>) => readonly KeyPart[],
  payload: unknown,
): [string, unknown][] {
  const parts: unknown = key(payload as Record<string, unknown>)
  if (!Array.isArray(parts)) {
    throw new JobtableError(
      'key_missing',
      `${type}: the function idempotency.key must return a list of parts, such as [payload.userId]`,
    )
  }
  return parts.map((part, i) => [`part ${i + 1}`, part])
}

function fields(payload: unknown, names: readonly string[]): [string, unknown][] {
  const object = typeof payload === 'object' && payload !== null ? (payload as Record<string, unknown>) : {}
  return names.map((name) => [name, object[name]])
}

/** The stored text of a key. `['a:b', 'c']` and `['a', 'b:c']` differ, and so do `1` and `'1'`. */
export function encodeKey(type: string, parts: readonly (readonly [name: string, part: unknown])[]): string {
  if (parts.length === 0) throw new JobtableError('key_missing', `${type}: the idempotency key has no parts`)
  for (const [name, part] of parts) {
    const usable =
      (typeof part === 'string' && part !== '') ||
      typeof part === 'boolean' ||
      (typeof part === 'number' && Number.isFinite(part))
    if (usable) continue
    throw new JobtableError(
      'key_missing',
      `${type}: ${name} of the idempotency key is ${part === '' ? 'empty' : describe(part)}: a key needs a text, a number or a boolean there, or two different jobs would be taken for one`,
      { data: { part: name } },
    )
  }
  const text = encodeJson(
    parts.map(([, part]) => part),
    `the idempotency key of ${type}`,
    'payload_invalid',
  )
  return text.length > LONGEST_KEY ? `sha256:${createHash('sha256').update(text).digest('hex')}` : text
}

function describe(value: unknown): string {
  if (value === undefined || value === null) return 'missing'
  return typeof value === 'number' ? String(value) : Array.isArray(value) ? 'an array' : `a ${typeof value}`
}

/** Tells payloads of one key apart without comparing them member by member. */
export function fingerprint(rule: Rule, payload: JsonValue): string {
  return createHash('sha256')
    .update(canonicalJson(compared(rule, payload)))
    .digest('base64url')
    .slice(0, 22)
}

function compared(rule: Rule, payload: JsonValue): JsonValue {
  if (rule.compared === null) return payload
  return Object.fromEntries(fields(payload, rule.compared).filter(([, value]) => value !== undefined)) as JsonValue
}

export type Verdict =
  /** The holder answers for this enqueue. */
  | { type: 'duplicate' }
  /** As `duplicate`, if the file of the holder's result still exists; else as `replace`. */
  | { type: 'check_file' }
  /** A new job takes the key over. */
  | { type: 'replace'; status: FinalStatus }
  /** Another payload under the same key; these fields differ. */
  | { type: 'conflict'; fields: string[] }

/** What an enqueue gets whose key is held. `now` is the database's time. */
export function judge(rule: Rule, holder: JobRow, incoming: { fingerprint: string; payload: JsonValue }, now: number): Verdict {
  if (isFinal(holder.status)) {
    const expired = rule.keepForMs !== null && holder.finishedAt !== null && now - holder.finishedAt >= rule.keepForMs
    const released = holder.status === 'canceled' || (holder.status === 'failed' && rule.onDuplicate !== 'ignore_duplicate')
    if (expired || released) return { type: 'replace', status: holder.status }
  }
  if (holder.fingerprint !== incoming.fingerprint) {
    const differing = differences(compared(rule, parse(holder.payload)), compared(rule, incoming.payload))
    if (differing.length > 0) return { type: 'conflict', fields: differing }
  }
  return holder.status === 'succeeded' && rule.onDuplicate === 'return_existing_file'
    ? { type: 'check_file' }
    : { type: 'duplicate' }
}

function parse(payload: string): JsonValue {
  return (readJson(payload) ?? null) as JsonValue
}

/** The members in which two payloads differ, as paths; `$` where they are of different kinds altogether. */
function differences(a: JsonValue, b: JsonValue, path = '$'): string[] {
  if (canonicalJson(a) === canonicalJson(b)) return []
  if (!isObject(a) || !isObject(b)) return [path]
  const names = new Set([...Object.keys(a), ...Object.keys(b)])
  return [...names].flatMap((name) => {
    const memberPath = path === '$' ? name : `${path}.${name}`
    const [left, right] = [a[name], b[name]]
    return left === undefined || right === undefined ? [memberPath] : differences(left, right, memberPath)
  })
}

function isObject(value: JsonValue): value is { readonly [key: string]: JsonValue } {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
