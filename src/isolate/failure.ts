/** Errors across the border between a worker and an isolated handler. */
import { classify, describeError } from '../classify/index.js'
import { knownVerdicts } from '../classify/own.js'
import { isInstance, isObject, read, readNumber, readString } from '../classify/read.js'
import { RetryAfter } from '../handler-errors.js'
import type { RemoteFailure } from './protocol.js'

/** The longest text that goes along as a field. */
const LONGEST_FIELD = 1_000
const NOT_FIELDS: ReadonlySet<string> = new Set(['name', 'message', 'stack', 'cause', '__proto__'])

export function packFailure(error: unknown, signal?: AbortSignal): RemoteFailure {
  const { name, message, stack } = describeError(error)
  return {
    name,
    message,
    stack,
    classification: classify(error, signal ? { signal } : {}),
    userMessage: isInstance(error, Error) ? readString(error, 'userMessage') : undefined,
    delayMs: isInstance(error, RetryAfter) ? readNumber(error, 'delayMs') : undefined,
    fields: fieldsOf(error),
  }
}

function fieldsOf(error: unknown): RemoteFailure['fields'] {
  const fields: Record<string, string | number | boolean | null> = {}
  if (!isObject(error)) return fields
  for (const key of Object.keys(error).slice(0, 50)) {
    const value = read(error, key)
    if (NOT_FIELDS.has(key) || (typeof value === 'string' && value.length > LONGEST_FIELD)) continue
    if (value === null || ['string', 'number', 'boolean'].includes(typeof value)) fields[key] = value as string
  }
  return fields
}

/** An error that reads, and is classified, as the one that was thrown on the other side. */
export function unpackFailure({ name, message, stack, classification, userMessage, delayMs, fields }: RemoteFailure): Error {
  if (delayMs !== undefined) return new RetryAfter(delayMs, message)
  const error = Object.assign(new Error(message), fields)
  knownVerdicts.set(error, classification)
  Object.defineProperty(error, 'name', { value: name, configurable: true })
  if (stack !== undefined) error.stack = stack
  return userMessage === undefined ? error : Object.assign(error, { userMessage })
}
