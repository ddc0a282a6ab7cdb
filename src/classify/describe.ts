import { maskSecrets } from '../mask.js'
import { className, isInstance, isObject, read, readString } from './read.js'
import { flatten, unwrap } from './unwrap.js'

/** The longest message that is stored, in UTF-8 bytes: 8 KiB. */
export const MAX_MESSAGE_BYTES = 8_192
/** The longest stack that is stored, in UTF-8 bytes: 8 KiB. */
export const MAX_STACK_BYTES = 8_192

const MAX_NAME_BYTES = 200
const MAX_HEADER_BYTES = 512
const MAX_CAUSES = 5
const CUT = ' … [cut]'

/** An error in words: bounded, well-formed and without secrets, so that it can be stored and shown. */
export interface ErrorDescription {
  name: string
  message: string
  stack?: string
}

/** Describes whatever was thrown. The value itself is never serialised, and this never throws. */
export function describeError(error: unknown): ErrorDescription {
  try {
    return describe(error)
  } catch {
    return { name: 'Error', message: 'an error that cannot be read' }
  }
}

function describe(error: unknown): ErrorDescription {
  const name = clean(nameOf(error), MAX_NAME_BYTES)
  const own = messageOf(error)
  const message = clean(withCauses(own, error), MAX_MESSAGE_BYTES)
  const frames = framesOf(error, own.length)
  if (frames === undefined) return { name, message }
  // The message may be longer than all else, so the stack repeats only the beginning of it.
  const header = clean(`${name}: ${own.slice(0, MAX_HEADER_BYTES * 2)}`, MAX_HEADER_BYTES)
  return { name, message, stack: cut(`${header}\n${clean(frames, MAX_STACK_BYTES)}`, MAX_STACK_BYTES) }
}

function nameOf(error: unknown): string {
  if (!isObject(error)) return 'NonError'
  return readString(error, 'name') ?? (className(error) || 'Error')
}

function messageOf(error: unknown): string {
  if (typeof error === 'string') return error === '' ? 'an empty text was thrown' : error
  if (!isObject(error)) return `${String(error)} was thrown`
  const message = readString(error, 'message')
  if (message !== undefined) return message
  const status = read(error, 'status')
  if (typeof status === 'number') return `HTTP ${status} ${readString(error, 'statusText') ?? ''}`.trimEnd()
  const code = read(error, 'code')
  if (typeof code === 'string' || typeof code === 'number') return String(code)
  return isInstance(error, Error) ? 'no message' : `an object was thrown${keysOf(error)}`
}

function keysOf(value: object): string {
  try {
    const keys = Object.keys(value)
      .slice(0, 10)
      .map((key) => key.slice(0, 50))
    return keys.length > 0 ? ` with the fields ${keys.join(', ')}` : ''
  } catch {
    return ''
  }
}

function withCauses(own: string, error: unknown): string {
  const causes = flatten(unwrap(error))
    .slice(1, MAX_CAUSES + 1)
    .map((cause) => messageOf(cause).slice(0, MAX_MESSAGE_BYTES))
  // Libraries like to repeat the message of the cause in their own.
  const news = [...new Set(causes)].filter((cause) => !own.slice(0, MAX_MESSAGE_BYTES).includes(cause))
  if (news.length === 0) return own
  // Room is kept for the causes, since the last of them is most often the reason.
  const share = Math.floor(MAX_MESSAGE_BYTES / 8)
  const summary = news.map((cause) => clean(cause, share)).join('; ')
  return `${clean(own, MAX_MESSAGE_BYTES - share * (news.length + 1))} (caused by: ${summary})`
}

/** The lines of the stack below the message, which are found from where the message must end. */
function framesOf(error: unknown, messageLength: number): string | undefined {
  const stack = readString(error, 'stack')
  if (stack === undefined) return undefined
  const start = stack.indexOf('\n    at ', Math.min(messageLength, stack.length))
  const from = start === -1 ? stack.indexOf('\n    at ') : start
  return from === -1 ? undefined : stack.slice(from + 1, from + 1 + MAX_STACK_BYTES * 2)
}

/** Masked, well-formed and at most `maxBytes` long. Masking comes first, so that a cut cannot hide half of a secret. */
function clean(text: string, maxBytes: number): string {
  const head = text.slice(0, maxBytes * 2)
  const masked = maskSecrets(wellFormed(text.length > head.length ? withoutHalf(head) : head))
  return cut(masked, maxBytes, text.length > head.length)
}

/** PostgreSQL stores no U+0000, and neither database stores half of a surrogate pair. */
function wellFormed(text: string): string {
  return text.replaceAll('\0', '').replace(/\p{Surrogate}/gu, '\ufffd')
}

function withoutHalf(text: string): string {
  const last = text.charCodeAt(text.length - 1)
  return last >= 0xd800 && last <= 0xdbff ? text.slice(0, -1) : text
}

function cut(text: string, maxBytes: number, isPart = false): string {
  const encoder = new TextEncoder()
  if (!isPart && encoder.encodeInto(text, new Uint8Array(maxBytes)).read === text.length) return text
  // encodeInto stops before a code point that does not fit.
  const room = maxBytes - encoder.encode(CUT).length
  return text.slice(0, encoder.encodeInto(text, new Uint8Array(room)).read) + CUT
}
