import { headerReader, type HeaderReader } from './headers.js'
import { className, isInstance, isObject, read, readList, readNumber, readPath, readString } from './read.js'

/** What can be read off one error, whatever library made it. */
export interface Facts {
  error: unknown
  name: string
  className: string
  /** The first part of the message; a message may be megabytes long. */
  message: string
  /** `code` where it is a word; `''` otherwise. */
  code: string
  /** `code` where it is a number, as in DOMException, gRPC and Google's errors. */
  numericCode: number | undefined
  /** The HTTP status, if the error carries one. */
  status: number | undefined
  header: HeaderReader
  /** The bodies of the response, parsed, most specific first. */
  bodies: readonly unknown[]
  /** The provider's own words for the error, such as `insufficient_quota`, most specific first. */
  words: readonly string[]
  syscall: string | undefined
}

const MESSAGE_LIMIT = 4_096
const BODY_LIMIT = 65_536

export function factsOf(error: unknown): Facts {
  const code = read(error, 'code')
  const bodies = bodiesOf(error)
  return {
    error,
    name: readString(error, 'name') ?? '',
    className: className(error),
    message: (typeof error === 'string' ? error : (readString(error, 'message') ?? '')).slice(0, MESSAGE_LIMIT),
    code: typeof code === 'string' ? code.slice(0, 200) : '',
    numericCode: typeof code === 'number' ? code : undefined,
    status: statusOf(error),
    header: headerReader(error),
    bodies,
    words: wordsOf(error, bodies),
    syscall: readString(error, 'syscall'),
  }
}

const STATUS_PATHS = [
  ['status'],
  ['statusCode'],
  ['response', 'status'],
  ['response', 'statusCode'],
  ['$metadata', 'httpStatusCode'],
  ['raw', 'statusCode'],
] as const

function statusOf(error: unknown): number | undefined {
  for (const path of STATUS_PATHS) {
    const status = readNumber(error, ...path)
    if (status !== undefined && Number.isInteger(status) && status >= 100 && status < 600) return status
  }
  return undefined
}

const BODY_PATHS = [
  ['error'],
  ['data'],
  ['response', 'data'],
  ['responseBody'],
  ['body'],
  ['response', 'body'],
  ['raw'],
  ['cause'],
]

function bodiesOf(error: unknown): unknown[] {
  // A wrapped error is no body: it is looked at by itself.
  return BODY_PATHS.map((path) => parse(readPath(error, ...path))).filter((body) => isObject(body) && !isInstance(body, Error))
}

function parse(body: unknown): unknown {
  if (typeof body !== 'string' || body.length > BODY_LIMIT || !/^\s*[{[]/.test(body)) return body
  try {
    return JSON.parse(body) as unknown
  } catch {
    return undefined
  }
}

// `errors[0].reason` is Google's; `error` as a plain word is OAuth's.
const WORD_PATHS = [
  ['error', 'code'],
  ['code'],
  ['error', 'error', 'type'],
  ['error', 'type'],
  ['type'],
  ['error', 'errors', 0, 'reason'],
  ['errors', 0, 'reason'],
  ['error', 'status'],
  ['status'],
  ['error'],
] as const

function wordsOf(error: unknown, bodies: readonly unknown[]): string[] {
  const words = new Set<string>()
  const add = (word: unknown): void => {
    if (typeof word === 'string' && word !== '' && word.length <= 100) words.add(word)
  }
  add(read(error, 'code'))
  for (const body of bodies) {
    for (const path of WORD_PATHS) add(readPath(body, ...path))
    for (const detail of readList(readPath(body, 'error', 'details') ?? read(body, 'details'), 10)) add(read(detail, 'reason'))
  }
  add(read(error, 'type'))
  add(read(error, 'rawType'))
  add(read(error, 'error_code'))
  return [...words]
}

const METHOD_PATHS = [
  ['config', 'method'],
  ['request', 'method'],
  ['options', 'method'],
  ['method'],
  ['response', 'request', 'method'],
]

/** The HTTP method of the request that failed, in capitals, where the error tells it. */
export function methodOf(error: unknown): string | undefined {
  for (const path of METHOD_PATHS) {
    const method = readString(error, ...path)
    if (method && /^[a-z]{3,10}$/i.test(method)) return method.toUpperCase()
  }
  // gaxios leaves out the method that it takes by default.
  if (isObject(read(error, 'config')) && readPath(error, 'config', 'url') !== undefined) return 'GET'
  // The AI SDK keeps the body of its request, and only POST has one there.
  return isObject(read(error, 'requestBodyValues')) ? 'POST' : undefined
}
