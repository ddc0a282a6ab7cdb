import { Agent as HttpsAgent } from 'node:https'
import { get } from 'node:http'
import axios, { type AxiosRequestConfig } from 'axios'
import { describe, expect, onTestFinished, test } from 'vitest'
import {
  Agent,
  errors,
  fetch as undiciFetch,
  interceptors,
  request,
  type Dispatcher,
  type RequestInit as UndiciInit,
} from 'undici'
import { classify } from '../../src/classify/index.js'
import {
  answering,
  breakingOff,
  caught,
  certificate,
  hangingUp,
  http,
  https,
  limited,
  NO_SUCH_HOST,
  permanent,
  refusing,
  rows,
  silent,
  tcp,
  transient,
  unknown,
  unknownOutcome,
  type Row,
} from './support.js'

/** Both addresses of a host refuse, which Node tells by an error of errors. */
async function refusedAtBoth(): Promise<unknown> {
  const { port } = await refusing()
  const both = ['127.0.0.1', '127.0.0.2'].map((address) => ({ address, family: 4 as const }))
  try {
    return await axios.get(`http://both.test:${port}`, { lookup: (_host, _options, done) => done(null, both) })
  } catch (error) {
    expect((error as Error).name).toBe('AggregateError')
    throw error
  }
}

/** A client that throws for a status that is an error, as undici's own interceptor does. */
function throwingAgent(): Dispatcher {
  const agent = new Agent()
  onTestFinished(() => agent.close())
  return agent.compose(interceptors.responseError())
}

const refused = transient('connection_refused', 'provider')
const noSuchHost = transient('dns_failed', 'operator', { maxRetries: 3 })
const lost = unknownOutcome('connection_lost', 'provider')
const slow = unknownOutcome('timeout', 'provider')
const wrongCall = permanent('invalid_request', 'developer')

describe('fetch', () => {
  rows([
    ['a refused connection is transient, since nothing was sent', async () => fetch((await refusing()).url), refused],
    ['a host that is not found is retried at most 3 times', () => fetch(`http://${NO_SUCH_HOST}`), noSuchHost],
    [
      'a POST whose connection closes may have taken effect',
      async () => fetch((await hangingUp()).url, { method: 'POST', body: 'x' }),
      lost,
    ],
    ['a connection that is reset leaves the outcome unknown', async () => fetch((await hangingUp('reset')).url), lost],
    [
      'an answer cut off in the middle is transient',
      async () => (await fetch((await breakingOff()).url)).text(),
      transient('connection_lost', 'provider'),
    ],
    ['an address that is no URL is permanent', () => fetch('nonsense'), wrongCall],
    ['a scheme that fetch does not know is permanent', () => fetch('gopher://127.0.0.1'), wrongCall],
    [
      'an HTML page in place of JSON is retried at most twice',
      async () => (await fetch((await answering(200, '<html>')).url)).json(),
      badAnswer(),
    ],
    ['half a JSON document is retried at most twice', () => JSON.parse('{"a":') as unknown, badAnswer()],
    [
      'an answer that is no HTTP leaves the outcome unknown',
      async () => fetch((await tcp((socket) => socket.end('nonsense\r\n\r\n'))).url),
      unknownOutcome('response_invalid', 'provider', { maxRetries: 2 }),
    ],
    [
      'a time limit leaves the outcome unknown',
      async () => fetch((await silent()).url, { signal: AbortSignal.timeout(1) }),
      slow,
    ],
    [
      "a request that the handler itself aborts is not the job's cancellation",
      () => fetch('http://127.0.0.1', { signal: AbortSignal.abort() }),
      unknownOutcome('aborted', 'provider'),
    ],
  ])
})

function badAnswer() {
  return transient('response_invalid', 'provider', { maxRetries: 2 })
}

describe('undici', () => {
  const limits = (options: Agent.Options) => new Agent({ ...options })
  rows([
    ['a wrong argument is permanent', () => request('http://127.0.0.1', { method: 'NOT A METHOD' }), wrongCall],
    [
      'a body of another length than announced is permanent',
      async () => request((await silent()).url, { method: 'POST', body: 'abc', headers: { 'content-length': '1' } }),
      wrongCall,
    ],
    [
      'a response over the limit is permanent',
      async () =>
        (await request((await answering(200, 'x'.repeat(100))).url, { dispatcher: limits({ maxResponseSize: 10 }) })).body.text(),
      permanent('too_large', 'developer'),
    ],
    [
      'headers over the limit are permanent',
      async () => request((await answering(200, '', { 'x-long': 'x'.repeat(30_000) })).url),
      permanent('too_large', 'developer'),
    ],
    ['a client that is closed cannot say whether the request was sent', closedAgent, lost],
    ['a refused connection of a plain request is transient', async () => request((await refusing()).url), refused],
    [
      'a response that throws keeps its status and its wait',
      async () => request((await answering(503, '', { 'retry-after': '7' })).url, { dispatcher: throwingAgent() }),
      limited('provider_unavailable', 'provider', { retryAfterMs: 7_000 }),
    ],
  ])

  const classes: [Error, ReturnType<typeof classify>][] = [
    [new errors.ConnectTimeoutError(), transient('timeout', 'provider')],
    [new errors.HeadersTimeoutError(), slow],
    [new errors.BodyTimeoutError(), slow],
    [new errors.HeadersOverflowError(), permanent('too_large', 'developer')],
    [new errors.InvalidArgumentError(), wrongCall],
    [new errors.InvalidReturnValueError(), wrongCall],
    [new errors.RequestContentLengthMismatchError(), wrongCall],
    [new errors.ResponseContentLengthMismatchError(), transient('connection_lost', 'provider')],
    [new errors.NotSupportedError(), wrongCall],
    [new errors.ClientDestroyedError(), lost],
    [new errors.ClientClosedError(), refused],
    [new errors.InformationalError('reset'), lost],
    [new errors.SocketError('other side closed'), lost],
    [new errors.BalancedPoolMissingUpstreamError(), permanent('misconfigured', 'developer')],
    [new errors.RequestAbortedError(), unknownOutcome('aborted', 'provider')],
    [new errors.ResponseExceededMaxSizeError('large'), permanent('too_large', 'developer')],
    [
      Reflect.construct(errors.HTTPParserError, ['m', 'INVALID_CONSTANT']) as Error,
      unknownOutcome('response_invalid', 'provider', { maxRetries: 2 }),
    ],
  ]
  test.each(classes.map(([error, expected]) => [error.name, error, expected] as const))(
    'its class %s is known',
    (_, error, expected) => {
      expect(classify(error)).toEqual(expected)
    },
  )

  test('a socket that had written no byte sent no request', () => {
    const socket = { bytesWritten: 0 } as unknown as NonNullable<errors.SocketError['socket']>
    const error = Object.assign(new errors.SocketError('closed'), { socket })
    expect(classify(error)).toEqual(refused)
  })
})

async function closedAgent(): Promise<unknown> {
  const dispatcher = new Agent()
  await dispatcher.close()
  return request('http://127.0.0.1:1', { dispatcher })
}

describe('TLS', () => {
  const secure = async (name: 'localhost' | 'other' | 'expired', ca?: string) => {
    const { url } = await https(name)
    const init: UndiciInit = { dispatcher: new Agent({ connect: ca ? { ca } : {} }) }
    return undiciFetch(url, init)
  }
  const untrusted = permanent('tls_invalid', 'operator')
  rows([
    ["a self-signed certificate is permanent and the operator's", () => secure('localhost'), untrusted],
    ['an expired certificate is permanent', () => secure('expired', certificate('expired')), untrusted],
    ['a certificate for another host is permanent', () => secure('other', certificate('other')), untrusted],
    ['the built-in fetch says the same', async () => fetch((await https('localhost')).url), untrusted],
    [
      'so does axios',
      async () => axios.get((await https('expired')).url, { httpsAgent: new HttpsAgent({ ca: certificate('expired') }) }),
      untrusted,
    ],
    [
      'TLS spoken to a plain HTTP port is permanent',
      async () => fetch((await answering(200)).url.replace('http:', 'https:')),
      untrusted,
    ],
    [
      'a connection that closes in the handshake sent nothing',
      async () => axios.post((await hangingUp()).url.replace('http:', 'https:')),
      refused,
    ],
  ])
})

describe('axios', () => {
  const post = async (local: Promise<{ url: string }>, config: AxiosRequestConfig = {}) =>
    axios.post((await local).url, {}, config)
  const read = async (local: Promise<{ url: string }>, config: AxiosRequestConfig = {}) => axios.get((await local).url, config)
  const cutOff: Row[] = [
    ['a GET that reaches its time limit is transient', () => read(silent(), { timeout: 1 }), transient('timeout', 'provider')],
    ['a POST that reaches its time limit may have taken effect', () => post(silent(), { timeout: 1 }), slow],
    [
      'its other code for a time limit means the same',
      () => post(silent(), { timeout: 1, transitional: { clarifyTimeoutError: true } }),
      slow,
    ],
    ['a GET whose connection is reset is transient', () => read(hangingUp('reset')), transient('connection_lost', 'provider')],
    ['a POST whose connection closes may have taken effect', () => post(hangingUp()), lost],
    ['an answer to GET cut off in the middle is transient', () => read(breakingOff()), transient('connection_lost', 'provider')],
    ['AbortSignal.timeout on a POST leaves the outcome unknown', () => post(silent(), { signal: AbortSignal.timeout(1) }), slow],
  ]
  rows([
    ['a refused connection is transient, whatever the name of the error', () => post(refusing()), refused],
    [
      'a refused connection to both addresses of a host, named AggregateError, is transient',
      async () => refusedAtBoth(),
      refused,
    ],
    ['a host that is not found is retried at most 3 times', () => axios.get(`http://${NO_SUCH_HOST}`), noSuchHost],
    ...cutOff,
    [
      '429 is a rate limit although its code says bad request',
      () => read(answering(429, {}, { 'retry-after': '20' })),
      limited('rate_limited', 'provider', { retryAfterMs: 20_000 }),
    ],
    [
      'a body over the limit is permanent',
      () => read(answering(200, 'x'.repeat(100)), { maxContentLength: 10 }),
      permanent('too_large', 'developer'),
    ],
    [
      'an endless redirect is permanent',
      () => read(http((_, response) => response.writeHead(302, { location: '/' }).end())),
      wrongCall,
    ],
    ['an unknown protocol is permanent', () => axios.get('gopher://127.0.0.1'), wrongCall],
    ['an address that is no URL is permanent', () => axios.get('http://'), wrongCall],
  ])
})

describe('HTTP status', () => {
  const expected: Record<number, ReturnType<typeof classify>> = {
    301: wrongCall,
    400: wrongCall,
    401: permanent('unauthorized', 'operator'),
    402: permanent('quota_exhausted', 'operator'),
    403: permanent('forbidden', 'operator'),
    404: permanent('not_found', 'developer'),
    405: wrongCall,
    407: permanent('unauthorized', 'operator'),
    408: transient('timeout', 'provider'),
    409: transient('conflict', 'provider', { maxRetries: 2 }),
    410: permanent('not_found', 'developer'),
    412: permanent('conflict', 'developer'),
    413: permanent('too_large', 'user'),
    414: permanent('too_large', 'developer'),
    415: wrongCall,
    418: wrongCall,
    422: wrongCall,
    423: transient('conflict', 'provider'),
    425: transient('provider_unavailable', 'provider'),
    429: limited('rate_limited', 'provider'),
    431: permanent('too_large', 'developer'),
    451: permanent('content_refused', 'user'),
    499: transient('aborted', 'provider'),
    500: transient('provider_error', 'provider'),
    501: wrongCall,
    502: transient('provider_unavailable', 'provider'),
    503: transient('provider_unavailable', 'provider'),
    504: transient('timeout', 'provider'),
    520: transient('provider_error', 'provider'),
    526: permanent('tls_invalid', 'operator'),
    529: transient('provider_unavailable', 'provider'),
  }
  rows(
    Object.entries(expected).map(([status, decision]) => [
      `${status} is ${decision.kind}`,
      async () => axios.get((await answering(Number(status), '<html>')).url, { maxRedirects: 0 }),
      decision,
    ]),
  )

  const github = { 'x-ratelimit-remaining': '0', 'retry-after': '60' }
  rows([
    [
      '403 with no calls remaining is a rate limit',
      async () => axios.get((await answering(403, {}, github)).url),
      limited('rate_limited', 'provider', { retryAfterMs: 60_000 }),
    ],
    [
      '503 that names a time asks to wait',
      async () => axios.get((await answering(503, '', { 'retry-after': '5' })).url),
      limited('provider_unavailable', 'provider', { retryAfterMs: 5_000 }),
    ],
    [
      '503 with a wait of nothing spends an attempt',
      async () => axios.get((await answering(503, '', { 'retry-after': '0' })).url),
      transient('provider_unavailable', 'provider', { retryAfterMs: 0 }),
    ],
    [
      'x-should-retry: false makes a 500 permanent',
      async () => axios.get((await answering(500, '', { 'x-should-retry': 'false' })).url),
      permanent('provider_error', 'provider'),
    ],
    [
      'x-should-retry: true makes a 400 transient',
      async () => axios.get((await answering(400, '', { 'x-should-retry': 'true' })).url),
      transient('invalid_request', 'provider'),
    ],
    [
      'a 429 that must not be retried now but names a time is a rate limit',
      async () => axios.get((await answering(429, '', { 'x-should-retry': 'false', 'retry-after': '9' })).url),
      limited('rate_limited', 'provider', { retryAfterMs: 9_000 }),
    ],
    [
      'a 429 that must not be retried and names no time is permanent',
      async () => axios.get((await answering(429, '', { 'x-should-retry': 'false' })).url),
      permanent('rate_limited', 'provider'),
    ],
  ])
})

describe('Node', () => {
  const nodeGet = async (local: Promise<{ url: string }>) => {
    const { url } = await local
    return new Promise((_, reject) => void get(url).on('error', reject))
  }
  const coded = (code: string, more: object = {}) => Object.assign(new Error(`${code}: made up`), { code, ...more })
  rows([
    ['"socket hang up" leaves the outcome unknown', () => nodeGet(hangingUp()), lost],
    ['a refused connection is transient', () => nodeGet(refusing()), refused],
    ['a header that no HTTP allows is permanent', () => get('http://127.0.0.1', { headers: { a: 'ü\n' } }), wrongCall],
    ['an argument of a wrong type is permanent', () => Buffer.alloc('x' as unknown as number), wrongCall],
    [
      'a file that does not exist is permanent',
      () => import('node:fs/promises').then((fs) => fs.readFile('/nowhere/at/all')),
      permanent('file_missing', 'developer'),
    ],
    ['a broken pipe is no SQLSTATE', () => Promise.reject(coded('EPIPE', { syscall: 'write' })), lost],
    [
      'a time limit while connecting is transient',
      () => Promise.reject(coded('ETIMEDOUT', { syscall: 'connect' })),
      transient('timeout', 'provider'),
    ],
    ['a time limit after that leaves the outcome unknown', () => Promise.reject(coded('ETIMEDOUT', { syscall: 'read' })), slow],
    ["a full disk is the operator's and may pass", () => Promise.reject(coded('ENOSPC')), transient('disk_full', 'operator')],
    ['no file handles left may pass', () => Promise.reject(coded('EMFILE')), transient('local_resources', 'operator')],
    [
      'a name server in trouble is retried at most 3 times',
      () => Promise.reject(coded('EAI_AGAIN', { syscall: 'getaddrinfo' })),
      noSuchHost,
    ],
    [
      'an HTTP/2 stream that was refused was not processed',
      () =>
        Promise.reject(
          Object.assign(new Error('Stream closed with error code NGHTTP2_REFUSED_STREAM'), { code: 'ERR_HTTP2_STREAM_ERROR' }),
        ),
      refused,
    ],
    ["a programmer's mistake is unknown, and retried twice", () => (undefined as unknown as { a: string }).a, unknown],
  ])

  test('an abort whose number is in place of a code is recognised', async () => {
    expect(
      await caught(() => AbortSignal.timeout(0).throwIfAborted() ?? Promise.reject(new DOMException('late', 'TimeoutError'))),
    ).toHaveProperty('code', 23)
    expect(classify(new DOMException('late', 'TimeoutError'))).toEqual(slow)
  })
})
