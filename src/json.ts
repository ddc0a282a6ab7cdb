/**
 * What may be stored: JSON, checked before it is written, with the path of the value that is not. What JSON cannot
 * carry is refused rather than changed, with two exceptions: a Date becomes its ISO text, and an object member that is
 * undefined is left out.
 */
import { JobtableError, type ErrorCode } from './errors.js'

export type JsonPrimitive = string | number | boolean | null
export type JsonValue = JsonPrimitive | readonly JsonValue[] | { readonly [key: string]: JsonValue }

/** The deepest nesting that is stored. Both databases and every JSON parser can read it. */
export const MAX_DEPTH = 200

/** The longest JSON text stored for a payload or a result, in bytes of UTF-8: 1 MiB. Bigger things are files. */
const MAX_JSON_BYTES = 1_048_576

/** `true` where every value of type T survives JSON as it is; otherwise a sentence that says why not. */
export type JsonCheck<T, Seen = never> = 0 extends 1 & T
  ? true
  : unknown extends T
    ? true
    : [T] extends [JsonValue]
      ? true
      : [Exactly<T>] extends [Seen] // A type that holds itself is looked at once.
        ? true
        : JsonWalk<T, Seen | Exactly<T>>

/** Assignable to that of the same type only, neither of a wider nor of a narrower one. */
type Exactly<T> = (value: T) => T

type JsonWalk<T, Seen> = T extends JsonPrimitive | undefined | void
  ? true
  : T extends Date
    ? 'a Date is no JSON: pass its ISO text'
    : T extends bigint | symbol | ((...args: never[]) => unknown)
      ? 'a bigint, symbol or function is no JSON'
      : T extends Map<unknown, unknown> | Set<unknown> | RegExp | Error | ArrayBuffer | ArrayBufferView | Promise<unknown>
        ? 'a class instance is no JSON: pass plain data'
        : T extends readonly (infer Item)[]
          ? JsonCheck<Item, Seen>
          : T extends object
            ? { [K in keyof T]-?: JsonCheck<T[K], Seen> }[keyof T] extends infer Checks
              ? [Exclude<Checks, true>] extends [never]
                ? true
                : Exclude<Checks, true>
              : never
            : 'this type is no JSON'

interface Refusal {
  path: string
  problem: string
}

/** The JSON text of a value. `what` names it in the error: "the payload of send_mail". */
export function encodeJson(value: unknown, what: string, code: ErrorCode & ('payload_invalid' | 'result_invalid')): string {
  const refuse = ({ path, problem }: Refusal): never => {
    throw new JobtableError(code, `${what} cannot be stored as JSON: ${path} ${problem}`, { data: { path } })
  }
  let text: string
  try {
    text = write(value, '$', 0, new Set(), refuse)
  } catch (error) {
    if (error instanceof JobtableError) throw error
    throw new JobtableError(code, `${what} cannot be stored as JSON: a getter or proxy in it threw`, { cause: error })
  }
  const bytes = text.length > MAX_JSON_BYTES ? text.length : text.length * 3 > MAX_JSON_BYTES ? Buffer.byteLength(text) : 0
  if (bytes > MAX_JSON_BYTES) {
    throw new JobtableError(
      code === 'payload_invalid' ? 'payload_too_large' : code,
      `${what} is ${bytes} bytes of JSON, more than the ${MAX_JSON_BYTES} that are stored: keep the data in a file or table of your own and pass its id`,
      { data: { bytes, limit: MAX_JSON_BYTES } },
    )
  }
  return text
}

type Refuse = (refusal: Refusal) => never

function write(value: unknown, path: string, depth: number, seen: Set<object>, refuse: Refuse): string {
  switch (typeof value) {
    case 'string':
      return writeString(value, path, refuse)
    case 'number':
      return Number.isFinite(value) ? JSON.stringify(value) : refuse({ path, problem: `is ${value}, which JSON cannot carry` })
    case 'boolean':
      return value ? 'true' : 'false'
    case 'object':
      return value === null ? 'null' : writeObject(value, path, depth, seen, refuse)
    default:
      return refuse({ path, problem: value === undefined ? 'is undefined: leave it out or use null' : `is a ${typeof value}` })
  }
}

function writeString(value: string, path: string, refuse: Refuse): string {
  if (!value.isWellFormed()) refuse({ path, problem: 'holds half of a surrogate pair, probably an emoji that was cut' })
  if (value.includes('\0')) refuse({ path, problem: 'holds the character U+0000, which databases do not store in JSON' })
  return JSON.stringify(value)
}

function writeObject(value: object, path: string, depth: number, seen: Set<object>, refuse: Refuse): string {
  if (depth >= MAX_DEPTH) refuse({ path, problem: `is nested more than ${MAX_DEPTH} levels deep` })
  if (seen.has(value)) refuse({ path, problem: 'refers back to an object that contains it' })
  if (value instanceof Date) {
    return Number.isNaN(value.getTime()) ? refuse({ path, problem: 'is an invalid Date' }) : JSON.stringify(value.toISOString())
  }
  seen.add(value)
  const text = Array.isArray(value)
    ? writeArray(value, path, depth, seen, refuse)
    : isPlain(value)
      ? writeMembers(value, path, depth, seen, refuse)
      : refuse({ path, problem: `is a ${value.constructor?.name ?? 'special object'}: convert it to plain data first` })
  seen.delete(value)
  return text
}

function writeArray(items: readonly unknown[], path: string, depth: number, seen: Set<object>, refuse: Refuse): string {
  const parts: string[] = []
  for (let i = 0; i < items.length; i++) parts.push(write(items[i], `${path}[${i}]`, depth + 1, seen, refuse))
  return `[${parts.join(',')}]`
}

function writeMembers(value: object, path: string, depth: number, seen: Set<object>, refuse: Refuse): string {
  const parts: string[] = []
  for (const [key, member] of Object.entries(value)) {
    if (member === undefined) continue
    const memberPath = /^[A-Za-z_$][\w$]*$/.test(key) ? `${path}.${key}` : `${path}[${JSON.stringify(key)}]`
    parts.push(`${writeString(key, memberPath, refuse)}:${write(member, memberPath, depth + 1, seen, refuse)}`)
  }
  return `{${parts.join(',')}}`
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null || Object.getPrototypeOf(prototype) === null
}

/** What a column holds; undefined for null, and where somebody wrote by hand what is no JSON. */
export function readJson(text: string | null): unknown {
  if (text === null) return undefined
  try {
    return JSON.parse(text) as unknown
  } catch {
    return undefined
  }
}

/** The same text for the same value, whatever the order of its members. */
export function canonicalJson(value: JsonValue): string {
  if (value === null || typeof value !== 'object') return JSON.stringify(value)
  if (isArray(value)) return `[${value.map(canonicalJson).join(',')}]`
  const members = Object.keys(value)
    .toSorted()
    .map((key) => `${JSON.stringify(key)}:${canonicalJson(value[key]!)}`)
  return `{${members.join(',')}}`
}

function isArray(value: JsonValue): value is readonly JsonValue[] {
  return Array.isArray(value)
}
