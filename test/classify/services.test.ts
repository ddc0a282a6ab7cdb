import { GetObjectCommand, PutObjectCommand, S3Client, S3ServiceException } from '@aws-sdk/client-s3'
import { Gaxios, type GaxiosOptions } from 'gaxios'
import Stripe from 'stripe'
import { describe } from 'vitest'
import {
  answering,
  hangingUp,
  limited,
  NO_SUCH_HOST,
  permanent,
  refusing,
  rows,
  silent,
  transient,
  unknown,
  unknownOutcome,
  type Local,
} from './support.js'

describe('Stripe', () => {
  const connect = async (local: Promise<{ port: number }>, options: object = {}) =>
    new Stripe('sk_test_none', {
      host: '127.0.0.1',
      port: (await local).port,
      protocol: 'http',
      maxNetworkRetries: 0,
      telemetry: false,
      ...options,
    })
  const charge = async (local: Promise<Local>, options: object = {}) =>
    (await connect(local, options)).paymentIntents.create({ amount: 100, currency: 'eur' })
  const failing = (status: number, error: object, headers: Record<string, string> = {}) =>
    charge(answering(status, { error }, headers))

  rows([
    [
      "402 card_declined is permanent and the user's",
      () => failing(402, { type: 'card_error', code: 'card_declined', decline_code: 'insufficient_funds' }),
      permanent('card_declined', 'user'),
    ],
    [
      '402 expired_card is a refused card too',
      () => failing(402, { type: 'card_error', code: 'expired_card' }),
      permanent('card_declined', 'user'),
    ],
    [
      '429 rate_limit waits',
      () =>
        failing(
          429,
          { type: 'invalid_request_error', code: 'rate_limit' },
          { 'stripe-should-retry': 'true', 'retry-after': '2' },
        ),
      limited('rate_limited', 'provider', { retryAfterMs: 2_000 }),
    ],
    [
      '429 lock_timeout is transient',
      () => failing(429, { type: 'invalid_request_error', code: 'lock_timeout' }),
      transient('conflict', 'provider'),
    ],
    [
      "400 idempotency_error is permanent and the developer's",
      () => failing(400, { type: 'idempotency_error' }),
      permanent('idempotency_conflict', 'developer'),
    ],
    [
      '409 idempotency_key_in_use is transient',
      () => failing(409, { type: 'idempotency_error', code: 'idempotency_key_in_use' }),
      transient('conflict', 'provider'),
    ],
    [
      "401 is permanent and the operator's",
      () => failing(401, { type: 'invalid_request_error' }),
      permanent('unauthorized', 'operator'),
    ],
    ['403 is permanent', () => failing(403, { type: 'invalid_request_error' }), permanent('forbidden', 'operator')],
    [
      '404 resource_missing is permanent',
      () => failing(404, { type: 'invalid_request_error', code: 'resource_missing' }),
      permanent('not_found', 'developer'),
    ],
    [
      'any other 400 is permanent',
      () => failing(400, { type: 'invalid_request_error', code: 'parameter_missing' }),
      permanent('invalid_request', 'developer'),
    ],
    ['500 api_error is transient', () => failing(500, { type: 'api_error' }), transient('provider_error', 'provider')],
    [
      '500 with stripe-should-retry: false is permanent',
      () => failing(500, { type: 'api_error' }, { 'stripe-should-retry': 'false' }),
      permanent('provider_error', 'provider'),
    ],
    ['a refused connection was never sent', () => charge(refusing()), transient('connection_refused', 'provider')],
    [
      'a connection that breaks leaves the outcome unknown',
      () => charge(hangingUp('reset')),
      unknownOutcome('connection_lost', 'provider'),
    ],
    ['a time limit leaves the outcome unknown', () => charge(silent(), { timeout: 1 }), unknownOutcome('timeout', 'provider')],
    [
      'a host that is not found is retried at most 3 times',
      () => charge(refusing(), { host: NO_SUCH_HOST }),
      transient('dns_failed', 'operator', { maxRetries: 3 }),
    ],
    [
      'a connection error without a reason leaves the outcome unknown',
      () => Promise.reject(new Stripe.errors.StripeConnectionError({ message: 'm' })),
      unknownOutcome('connection_lost', 'provider'),
    ],
    [
      'an account that ended its grant must be connected again',
      () => Promise.reject(new Stripe.errors.StripeInvalidGrantError({ type: 'invalid_grant' } as never)),
      permanent('account_disconnected', 'user'),
    ],
    [
      'an account without enough money is told to its user (API v2)',
      () => Promise.reject(stripeV2({ type: 'insufficient_funds', statusCode: 400 })),
      permanent('card_declined', 'user'),
    ],
    [
      'a webhook with a wrong signature is permanent',
      () => new Stripe('k').webhooks.constructEvent('{}', 't=1,v1=0', 'whsec_x'),
      permanent('unauthorized', 'operator'),
    ],
    ["a missing key is the operator's", () => new Stripe(''), permanent('misconfigured', 'operator')],
  ])
})

const stripeV2 = (raw: { type: string; statusCode: number }): Error =>
  new Stripe.errors.StripeError(raw as never, 'InsufficientFundsError')

describe('S3', () => {
  const connect = async (local: Promise<Local>) =>
    new S3Client({
      endpoint: (await local).url,
      region: 'x',
      forcePathStyle: true,
      maxAttempts: 1,
      credentials: { accessKeyId: 'a', secretAccessKey: 's' },
    })
  const where = { Bucket: 'b', Key: 'k' }
  const fetchObject = async (local: Promise<Local>) => (await connect(local)).send(new GetObjectCommand(where))
  const store = async (local: Promise<Local>) => (await connect(local)).send(new PutObjectCommand({ ...where, Body: 'x' }))
  const failing = (status: number, code: string, headers: Record<string, string> = {}) =>
    fetchObject(
      answering(status, `<?xml version="1.0"?><Error><Code>${code}</Code><Message>m</Message></Error>`, {
        'content-type': 'application/xml',
        ...headers,
      }),
    )
  const expired = transient('credentials_expired', 'operator', { maxRetries: 1 })
  const unauthorized = permanent('unauthorized', 'operator')

  rows([
    ['503 SlowDown is a rate limit', () => failing(503, 'SlowDown'), limited('rate_limited', 'provider')],
    [
      'x-amz-retry-after is in milliseconds',
      () => failing(503, 'SlowDown', { 'x-amz-retry-after': '2000' }),
      limited('rate_limited', 'provider', { retryAfterMs: 2_000 }),
    ],
    [
      '400 RequestTimeout is transient: the name beats the status',
      () => failing(400, 'RequestTimeout'),
      transient('timeout', 'provider'),
    ],
    ['NoSuchKey is permanent', () => failing(404, 'NoSuchKey'), permanent('not_found', 'developer')],
    ['NoSuchBucket is permanent', () => failing(404, 'NoSuchBucket'), permanent('not_found', 'developer')],
    ["AccessDenied is permanent and the operator's", () => failing(403, 'AccessDenied'), permanent('forbidden', 'operator')],
    ["SignatureDoesNotMatch is permanent and the operator's", () => failing(403, 'SignatureDoesNotMatch'), unauthorized],
    ["InvalidAccessKeyId is permanent and the operator's", () => failing(403, 'InvalidAccessKeyId'), unauthorized],
    ['400 ExpiredToken is tried once more', () => failing(400, 'ExpiredToken'), expired],
    ['RequestTimeTooSkewed is tried once more', () => failing(403, 'RequestTimeTooSkewed'), expired],
    ['412 PreconditionFailed is permanent', () => failing(412, 'PreconditionFailed'), permanent('conflict', 'developer')],
    ['409 OperationAborted is transient', () => failing(409, 'OperationAborted'), transient('conflict', 'provider')],
    ['EntityTooLarge is permanent', () => failing(400, 'EntityTooLarge'), permanent('too_large', 'user')],
    ['500 InternalError is transient', () => failing(500, 'InternalError'), transient('provider_error', 'provider')],
    ['an unknown name counts by its status', () => failing(400, 'MalformedXML'), permanent('invalid_request', 'developer')],
    [
      'a 502 from a proxy counts by its status',
      () => fetchObject(answering(502, '')),
      transient('provider_unavailable', 'provider'),
    ],
    ['$retryable of a service is transient', () => Promise.reject(modelled({})), transient('provider_error', 'provider')],
    [
      '$retryable.throttling of a service is a rate limit',
      () => Promise.reject(modelled({ throttling: true })),
      limited('rate_limited', 'provider'),
    ],
    ['a refused connection was never sent', () => store(refusing()), transient('connection_refused', 'provider')],
    [
      'a connection that breaks leaves the outcome unknown',
      () => store(hangingUp('reset')),
      unknownOutcome('connection_lost', 'provider'),
    ],
  ])
})

/** What the generated client of a service makes of an error whose model carries the retryable trait. */
function modelled(retryable: { throttling?: boolean }): Error {
  const error = new S3ServiceException({
    name: 'SomeServiceException',
    $fault: 'client',
    $metadata: { httpStatusCode: 400, attempts: 1 },
  })
  return Object.assign(error, { $retryable: retryable })
}

describe('Google', () => {
  const call = async (local: Promise<Local>, options: Partial<GaxiosOptions> = {}) =>
    new Gaxios().request({ url: (await local).url, retry: false, ...options })
  const failing = (status: number, error: unknown) => call(answering(status, { error }))
  const reason = (status: number, word: string) =>
    failing(status, { code: status, message: 'm', errors: [{ domain: 'usageLimits', reason: word, message: 'm' }] })
  const status = (code: number, word: string, details: object[] = []) =>
    failing(code, { code, message: 'm', status: word, details })
  const post = { method: 'POST' as const, data: {} }
  const retryInfo = [{ '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: '34s' }]

  rows([
    ['403 rateLimitExceeded is a rate limit', () => reason(403, 'rateLimitExceeded'), limited('rate_limited', 'provider')],
    [
      '403 userRateLimitExceeded is a rate limit',
      () => reason(403, 'userRateLimitExceeded'),
      limited('rate_limited', 'provider'),
    ],
    [
      "403 dailyLimitExceeded is permanent and the operator's",
      () => reason(403, 'dailyLimitExceeded'),
      permanent('quota_exhausted', 'operator'),
    ],
    [
      "403 storageQuotaExceeded is permanent and the user's",
      () => reason(403, 'storageQuotaExceeded'),
      permanent('quota_exhausted', 'user'),
    ],
    [
      '403 insufficientPermissions is permanent',
      () => reason(403, 'insufficientPermissions'),
      permanent('forbidden', 'operator'),
    ],
    ['500 backendError is transient', () => reason(500, 'backendError'), transient('provider_error', 'provider')],
    [
      '400 invalid_grant is for the user, who must connect the account again',
      () => call(answering(400, { error: 'invalid_grant', error_description: 'm' })),
      permanent('account_disconnected', 'user'),
    ],
    [
      'RESOURCE_EXHAUSTED waits as long as its details say',
      () => status(429, 'RESOURCE_EXHAUSTED', retryInfo),
      limited('rate_limited', 'provider', { retryAfterMs: 34_000 }),
    ],
    [
      'a reason in the details is more exact than the status',
      () => status(400, 'INVALID_ARGUMENT', [{ reason: 'API_KEY_INVALID' }]),
      permanent('unauthorized', 'operator'),
    ],
    ['UNAVAILABLE is transient', () => status(503, 'UNAVAILABLE'), transient('provider_unavailable', 'provider')],
    ['INTERNAL is transient', () => status(500, 'INTERNAL'), transient('provider_error', 'provider')],
    ['DEADLINE_EXCEEDED of a GET is transient', () => status(504, 'DEADLINE_EXCEEDED'), transient('timeout', 'provider')],
    ['PERMISSION_DENIED is permanent', () => status(403, 'PERMISSION_DENIED'), permanent('forbidden', 'operator')],
    ['NOT_FOUND is permanent', () => status(404, 'NOT_FOUND'), permanent('not_found', 'developer')],
    ['a plain 502 is transient', () => call(answering(502, '<html>')), transient('provider_unavailable', 'provider')],
    ['a refused connection is transient', () => call(refusing(), post), transient('connection_refused', 'provider')],
    ['a GET whose connection breaks is transient', () => call(hangingUp('reset')), transient('connection_lost', 'provider')],
    [
      'a POST whose connection breaks may have taken effect',
      () => call(hangingUp('reset'), post),
      unknownOutcome('connection_lost', 'provider'),
    ],
    ['a GET that reaches its time limit is transient', () => call(silent(), { timeout: 1 }), transient('timeout', 'provider')],
    ['gRPC 14 is transient', () => Promise.reject(grpc(14)), transient('provider_unavailable', 'provider')],
    ['gRPC 8 is a rate limit', () => Promise.reject(grpc(8)), limited('rate_limited', 'provider')],
    ['gRPC 4 leaves the outcome unknown', () => Promise.reject(grpc(4)), unknownOutcome('timeout', 'provider')],
    [
      'a body that @google/genai keeps in the message is read there',
      () => Promise.reject(Object.assign(new Error('{"error":{"status":"RESOURCE_EXHAUSTED"}}'), { name: 'ApiError' })),
      limited('rate_limited', 'provider'),
    ],
    ['gRPC 2 is unknown', () => Promise.reject(grpc(2)), unknown],
    ['gRPC 7 is permanent', () => Promise.reject(grpc(7)), permanent('forbidden', 'operator')],
  ])
})

/** The shape of grpc-js's ServiceError. */
function grpc(code: number): Error {
  return Object.assign(new Error('m'), { code, details: 'm', metadata: {} })
}
