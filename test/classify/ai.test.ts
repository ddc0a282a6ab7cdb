import Anthropic from '@anthropic-ai/sdk'
import { APICallError, createGateway, generateText, NoObjectGeneratedError, Output, RetryError } from 'ai'
import { MockLanguageModelV3 } from 'ai/test'
import OpenAI from 'openai'
import { ContentFilterFinishReasonError, LengthFinishReasonError } from 'openai/error'
import { describe } from 'vitest'
import { z } from 'zod'
import {
  answering,
  hangingUp,
  http,
  limited,
  permanent,
  refusing,
  rows,
  silent,
  transient,
  unknownOutcome,
  type Local,
} from './support.js'

const quota = permanent('quota_exhausted', 'operator')
const overloaded = transient('provider_unavailable', 'provider')

describe('OpenAI', () => {
  const ask = async (local: Promise<Local>, options: object = {}) => {
    const client = new OpenAI({ apiKey: 'key', baseURL: (await local).url, maxRetries: 0, ...options })
    return client.chat.completions.create({ model: 'm', messages: [] })
  }
  const failing = (status: number, error: unknown, headers: Record<string, string> = {}) =>
    ask(answering(status, { error }, headers))
  const both = { 'retry-after-ms': '1500', 'retry-after': '20' }

  rows([
    [
      "429 insufficient_quota is permanent and the operator's",
      () => failing(429, { code: 'insufficient_quota', type: 'insufficient_quota', message: 'm' }),
      quota,
    ],
    [
      '429 rate_limit_exceeded waits, by retry-after-ms first',
      () => failing(429, { code: 'rate_limit_exceeded', type: 'tokens' }, both),
      limited('rate_limited', 'provider', { retryAfterMs: 1_500 }),
    ],
    [
      '429 rate_limit_exceeded waits, by retry-after next',
      () => failing(429, { code: 'rate_limit_exceeded' }, { 'retry-after': '20' }),
      limited('rate_limited', 'provider', { retryAfterMs: 20_000 }),
    ],
    [
      '429 rate_limit_exceeded without a hint is a rate limit all the same',
      () => failing(429, { code: 'rate_limit_exceeded' }),
      limited('rate_limited', 'provider'),
    ],
    [
      "400 context_length_exceeded is permanent and the user's",
      () => failing(400, { code: 'context_length_exceeded', type: 'invalid_request_error' }),
      permanent('too_large', 'user'),
    ],
    [
      "401 invalid_api_key is permanent and the operator's",
      () => failing(401, { code: 'invalid_api_key', type: 'invalid_request_error' }),
      permanent('unauthorized', 'operator'),
    ],
    [
      "403 for a region is permanent and the operator's",
      () => failing(403, { code: 'unsupported_country_region_territory' }),
      permanent('forbidden', 'operator'),
    ],
    ['404 model_not_found is permanent', () => failing(404, { code: 'model_not_found' }), permanent('not_found', 'operator')],
    [
      '400 content_policy_violation is for the user to change',
      () => failing(400, { code: 'content_policy_violation' }),
      permanent('content_refused', 'user'),
    ],
    [
      '400 without a known word is permanent',
      () => failing(400, { code: null, type: 'invalid_request_error' }),
      permanent('invalid_request', 'developer'),
    ],
    ['409 is transient', () => failing(409, { type: 'conflict' }), transient('conflict', 'provider', { maxRetries: 2 })],
    [
      '500 server_error is transient',
      () => failing(500, { type: 'server_error', code: null }),
      transient('provider_error', 'provider'),
    ],
    ['502 with an HTML page and no code is transient', () => ask(answering(502, '<html>Bad gateway</html>')), overloaded],
    [
      '503 with x-should-retry: false is permanent',
      () => failing(503, {}, { 'x-should-retry': 'false' }),
      permanent('provider_unavailable', 'provider'),
    ],
    ['an error in the middle of a stream counts by its word', midStream, limited('rate_limited', 'provider')],
    ['a refused connection is transient', () => ask(refusing()), transient('connection_refused', 'provider')],
    [
      'a connection that breaks leaves the outcome unknown',
      () => ask(hangingUp('reset')),
      unknownOutcome('connection_lost', 'provider'),
    ],
    ['its own time limit leaves the outcome unknown', () => ask(silent(), { timeout: 1 }), unknownOutcome('timeout', 'provider')],
    ["missing credentials are the operator's", () => new OpenAI({ apiKey: '' }), permanent('misconfigured', 'operator')],
    ["an abort that is not the job's leaves the outcome unknown", () => aborted(OpenAI), unknownOutcome('aborted', 'provider')],
    [
      'an answer stopped by the content filter is permanent',
      () => Promise.reject(new ContentFilterFinishReasonError()),
      permanent('content_refused', 'user'),
    ],
    [
      'an answer stopped by its length is permanent',
      () => Promise.reject(new LengthFinishReasonError()),
      permanent('too_large', 'user'),
    ],
  ])
})

async function midStream(): Promise<void> {
  const { url } = await http((_, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.end('data: {"error":{"message":"slow down","code":"rate_limit_exceeded"}}\n\n')
  })
  const client = new OpenAI({ apiKey: 'key', baseURL: url, maxRetries: 0 })
  const stream = await client.chat.completions.create({ model: 'm', messages: [], stream: true })
  for await (const _ of stream);
}

async function aborted(sdk: typeof OpenAI): Promise<unknown> {
  const client = new sdk({ apiKey: 'key', baseURL: (await silent()).url, maxRetries: 0 })
  return client.models.list({ signal: AbortSignal.abort() })
}

describe('Anthropic', () => {
  const question = { model: 'm', max_tokens: 1, messages: [{ role: 'user' as const, content: 'q' }] }
  const connect = async (local: Promise<Local>, options: object = {}) =>
    new Anthropic({ apiKey: 'key', baseURL: (await local).url, maxRetries: 0, ...options })
  const ask = async (local: Promise<Local>, options: object = {}) => (await connect(local, options)).messages.create(question)
  const failing = (status: number, type: string, headers: Record<string, string> = {}, message = 'm') =>
    ask(answering(status, { type: 'error', error: { type, message } }, headers))
  const streaming = async (event: object) => {
    const events = (await connect(eventStream(event))).messages.stream(question)
    return events.finalMessage()
  }

  rows([
    ['529 overloaded_error is transient', () => failing(529, 'overloaded_error', { 'x-should-retry': 'true' }), overloaded],
    [
      'overloaded_error in the middle of a stream is transient, though the status was 200',
      () => streaming({ type: 'overloaded_error' }),
      overloaded,
    ],
    [
      'api_error in the middle of a stream is transient',
      () => streaming({ type: 'api_error' }),
      transient('provider_error', 'provider'),
    ],
    [
      'invalid_request_error in the middle of a stream is permanent',
      () => streaming({ type: 'invalid_request_error' }),
      permanent('invalid_request', 'developer'),
    ],
    [
      '429 rate_limit_error waits',
      () => failing(429, 'rate_limit_error', { 'retry-after': '12' }),
      limited('rate_limited', 'provider', { retryAfterMs: 12_000 }),
    ],
    ["402 billing_error is permanent and the operator's", () => failing(402, 'billing_error'), quota],
    [
      '400 for want of credit is no bad request',
      () => failing(400, 'invalid_request_error', {}, 'Your credit balance is too low'),
      quota,
    ],
    [
      '400 for a long prompt is for the user to change',
      () => failing(400, 'invalid_request_error', {}, 'prompt is too long: 9 tokens'),
      permanent('too_large', 'user'),
    ],
    ['any other 400 is permanent', () => failing(400, 'invalid_request_error'), permanent('invalid_request', 'developer')],
    [
      "413 request_too_large is permanent and the user's",
      () => failing(413, 'request_too_large'),
      permanent('too_large', 'user'),
    ],
    ['401 authentication_error is permanent', () => failing(401, 'authentication_error'), permanent('unauthorized', 'operator')],
    ['403 permission_error is permanent', () => failing(403, 'permission_error'), permanent('forbidden', 'operator')],
    ['404 not_found_error is permanent', () => failing(404, 'not_found_error'), permanent('not_found', 'developer')],
    ['409 is transient', () => failing(409, 'conflict_error'), transient('conflict', 'provider', { maxRetries: 2 })],
    ['500 api_error is transient', () => failing(500, 'api_error'), transient('provider_error', 'provider')],
    ['504 timeout_error is transient', () => failing(504, 'timeout_error'), transient('timeout', 'provider')],
    ['a refused connection is transient', () => ask(refusing()), transient('connection_refused', 'provider')],
    ['its own time limit leaves the outcome unknown', () => ask(silent(), { timeout: 1 }), unknownOutcome('timeout', 'provider')],
    [
      "an abort that is not the job's leaves the outcome unknown",
      async () => (await connect(silent())).models.list({}, { signal: AbortSignal.abort() }),
      unknownOutcome('aborted', 'provider'),
    ],
    [
      "missing credentials are the operator's",
      () => ask(silent(), { apiKey: null, authToken: null, credentials: null, config: null, profile: null }),
      permanent('misconfigured', 'operator'),
    ],
  ])
})

const eventStream = (error: object) =>
  http((_, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.end(`event: error\ndata: ${JSON.stringify({ type: 'error', error })}\n\n`)
  })

describe('AI SDK', () => {
  const apiCall = (statusCode: number | undefined, more: object = {}) =>
    new APICallError({
      message: 'm',
      url: 'http://127.0.0.1',
      requestBodyValues: {},
      ...(statusCode ? { statusCode } : {}),
      ...more,
    })
  const model = (error: Error) => new MockLanguageModelV3({ doGenerate: () => Promise.reject(error) })
  const generate = (error: Error, maxRetries = 0) => generateText({ model: model(error), prompt: 'p', maxRetries })
  const soon = { responseHeaders: { 'retry-after-ms': '1' } }
  const gateway = async (status: number, type: string, headers: Record<string, string> = {}) => {
    const { url } = await answering(status, { error: { message: 'm', type } }, headers)
    return generateText({ model: createGateway({ apiKey: 'k', baseURL: url })('openai/m'), prompt: 'p', maxRetries: 0 })
  }
  const badAnswer = transient('response_invalid', 'provider', { maxRetries: 2 })
  const text = (finishReason: 'stop' | 'content-filter') =>
    new MockLanguageModelV3({
      doGenerate: {
        content: [{ type: 'text', text: 'no JSON' }],
        finishReason: { unified: finishReason, raw: undefined },
        usage: {
          inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
          outputTokens: { total: 1, text: 1, reasoning: 0 },
        },
        warnings: [],
      },
    })
  const object = (finishReason: 'stop' | 'content-filter') =>
    generateText({ model: text(finishReason), output: Output.object({ schema: z.object({}) }), prompt: 'p', maxRetries: 0 }).then(
      (result) => result.output,
    )

  rows([
    ['a call that fails with 500 is transient', () => generate(apiCall(500)), transient('provider_error', 'provider')],
    ['a call that fails with 401 is permanent', () => generate(apiCall(401)), permanent('unauthorized', 'operator')],
    [
      'the word in the body of a call counts',
      () => generate(apiCall(429, { responseBody: '{"error":{"code":"insufficient_quota"}}' })),
      quota,
    ],
    [
      'the parsed body of a call counts',
      () => generate(apiCall(400, { data: { error: { code: 'context_length_exceeded' } } })),
      permanent('too_large', 'user'),
    ],
    [
      'a call that never reached the server is known by its cause',
      () => generate(apiCall(undefined, { cause: Object.assign(new Error('refused'), { code: 'ECONNREFUSED' }) })),
      transient('connection_refused', 'provider'),
    ],
    [
      'a connection lost in a call leaves the outcome unknown',
      () => generate(apiCall(undefined, { cause: Object.assign(new Error('reset'), { code: 'ECONNRESET' }), isRetryable: true })),
      unknownOutcome('connection_lost', 'provider'),
    ],
    [
      'a call that says it may be retried, and no more, leaves the outcome unknown',
      () => generate(apiCall(undefined, { isRetryable: true })),
      unknownOutcome('provider_error', 'provider'),
    ],
    ['a success that cannot be parsed is retried at most twice', () => generate(apiCall(200)), badAnswer],
    [
      'after its own retries the last error counts, with its wait',
      () => generate(apiCall(429, soon), 1),
      limited('rate_limited', 'provider', { retryAfterMs: 1 }),
    ],
    [
      'of its attempts only the last one counts',
      () => Promise.reject(new RetryError({ message: 'm', reason: 'errorNotRetryable', errors: [apiCall(429), apiCall(401)] })),
      permanent('unauthorized', 'operator'),
    ],
    ['an answer that is not the object asked for is retried at most twice', () => object('stop'), badAnswer],
    ['an answer withheld by a filter is permanent', () => object('content-filter'), permanent('content_refused', 'user')],
    ['its gateway: 401 is permanent', () => gateway(401, 'authentication_error'), permanent('unauthorized', 'operator')],
    [
      'its gateway: 429 is a rate limit',
      () => gateway(429, 'rate_limit_exceeded', { 'retry-after': '3' }),
      limited('rate_limited', 'provider', { retryAfterMs: 3_000 }),
    ],
    ['its gateway: 404 is permanent', () => gateway(404, 'model_not_found'), permanent('not_found', 'operator')],
    ['its gateway: 500 is transient', () => gateway(500, 'internal_server_error'), transient('provider_error', 'provider')],
    [
      'a wrong argument is permanent',
      () => generateText({ model: model(new Error('never called')), prompt: 'p', maxRetries: -1 }),
      permanent('invalid_request', 'developer'),
    ],
    [
      'two prompts at once are permanent',
      () => generateText({ model: model(new Error('never called')), prompt: 'p', messages: [] } as never),
      permanent('invalid_request', 'developer'),
    ],
    [
      'no object at all is retried at most twice',
      () =>
        Promise.reject(
          new NoObjectGeneratedError({ message: 'm', response: {} as never, usage: {} as never, finishReason: 'stop' }),
        ),
      badAnswer,
    ],
  ])
})
