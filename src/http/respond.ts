/**
 * The responses, and what all of them carry: nothing is stored by a cache in between, nothing is guessed to be HTML, no address with a
 * token in it is passed on as a referrer.
 */
export const COMMON_HEADERS: Readonly<Record<string, string>> = {
  'cache-control': 'private, no-cache, no-transform',
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  vary: 'Accept-Language, Authorization, Cookie',
}

/** A request that is answered with an error; thrown where it is found, made a response where requests come in. */
export class Refusal extends Error {
  override readonly name = 'Refusal'
  readonly status: number
  /** A stable word that programs can compare. */
  readonly code: string
  readonly headers: Readonly<Record<string, string>>
  /** What else a program may want to know. */
  readonly data: Readonly<Record<string, unknown>>

  constructor(
    status: number,
    code: string,
    message: string,
    headers: Readonly<Record<string, string>> = {},
    data: Readonly<Record<string, unknown>> = {},
  ) {
    super(message)
    this.status = status
    this.code = code
    this.headers = headers
    this.data = data
  }
}

export const refusals = {
  tokenMissing: () =>
    new Refusal(401, 'unauthorized', 'this needs a token, as Authorization: Bearer or as ?token=', {
      'www-authenticate': 'Bearer',
    }),
  tokenInvalid: () =>
    new Refusal(401, 'unauthorized', 'this token is not valid', { 'www-authenticate': 'Bearer error="invalid_token"' }),
  tokenExpired: () =>
    new Refusal(401, 'token_expired', 'this token has expired: ask for a new one', {
      'www-authenticate': 'Bearer error="invalid_token"',
    }),
  forbidden: () => new Refusal(403, 'forbidden', 'this is not permitted'),
  /** Of a request about many jobs: the ids that it named itself. */
  forbiddenOf: (jobs: readonly string[]) => new Refusal(403, 'forbidden', 'these jobs are not permitted', {}, { jobs }),
  noRoute: () => new Refusal(404, 'not_found', 'there is nothing here'),
  noJob: () => new Refusal(404, 'job_not_found', 'there is no such job, or not any more'),
  noStream: () => new Refusal(404, 'no_stream', 'this job has no such stream, or none that its type calls public'),
  noFile: () => new Refusal(404, 'no_file', 'this job has no file, or not yet'),
  fileGone: () => new Refusal(410, 'file_missing', 'the file of this job is not kept any more'),
  method: (allowed: string) => new Refusal(405, 'method_not_allowed', `this takes ${allowed}`, { allow: allowed }),
  invalid: (message: string) => new Refusal(400, 'invalid_request', message),
  unavailable: () => new Refusal(503, 'unavailable', 'try again in a moment', { 'retry-after': '2' }),
  internal: () => new Refusal(500, 'internal', 'something went wrong on the server'),
} as const

export function refused({ status, code, message, headers, data }: Refusal): Response {
  return json(status, jsonText({ error: code, message, ...data }), headers)
}

export function json(status: number, body: string, headers: Readonly<Record<string, string>> = {}): Response {
  return new Response(body, {
    status,
    headers: { ...COMMON_HEADERS, 'content-type': 'application/json; charset=utf-8', ...headers },
  })
}

export function empty(status: 204 | 304, headers: Readonly<Record<string, string>> = {}): Response {
  return new Response(null, { status, headers: { ...COMMON_HEADERS, ...headers } })
}

/** JSON that stays data wherever it is pasted, in a page's script too. */
export function jsonText(value: unknown): string {
  return JSON.stringify(value).replaceAll('<', String.raw`\u003c`)
}

/** Whether a list of tags such as that of `If-None-Match` holds this one. */
export function hasTag(header: string | null, etag: string): boolean {
  if (header === null) return false
  const plain = (tag: string): string => tag.trim().replace(/^W\//, '')
  return header.trim() === '*' || header.split(',').some((tag) => plain(tag) === plain(etag))
}
