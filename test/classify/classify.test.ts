import Anthropic from '@anthropic-ai/sdk'
import axios from 'axios'
import OpenAI from 'openai'
import { describe, expect, test } from 'vitest'
import { classify, CODES } from '../../src/classify/index.js'
import { JobAborted, JobtableError, type AbortCause, type ErrorCode } from '../../src/errors.js'
import { PermanentError, RetryAfter, TransientError } from '../../src/handler-errors.js'
import { caught, canceled, limited, permanent, rows, silent, transient, unknown, unknownOutcome } from './support.js'

const aborted = (reason: unknown): AbortSignal => AbortSignal.abort(reason)
const status = (code: number, more: object = {}): Error => Object.assign(new Error('m'), { status: code, ...more })

describe("the job's own signal", () => {
  const reasons: Record<AbortCause, ReturnType<typeof classify>> = {
    canceled: canceled('canceled', 'user'),
    timeout: unknownOutcome('timeout', 'provider'),
    shutdown: canceled('shutdown', 'operator'),
    lease_lost: canceled('lease_lost', 'operator'),
    superseded: canceled('superseded', 'operator'),
  }
  test.each(Object.entries(reasons))('%s counts more than what was thrown because of it', (reason, expected) => {
    const signal = aborted(new JobAborted(reason as AbortCause, 'm'))
    for (const thrown of [signal.reason, new Error('other'), status(401), 'user', undefined, new PermanentError('m')]) {
      expect(classify(thrown, { signal })).toEqual(expected)
    }
  })

  test("a fetch that the job's cancellation ends is canceled", async () => {
    const controller = new AbortController()
    const request = fetch((await silent()).url, { signal: controller.signal })
    controller.abort(new JobAborted('canceled', 'm'))
    const error: unknown = await request.catch((error: unknown) => error)
    expect(classify(error, { signal: controller.signal })).toEqual(canceled('canceled', 'user'))
  })

  const clients: Record<string, (url: string, signal: AbortSignal) => Promise<unknown>> = {
    fetch: (url, signal) => fetch(url, { signal }),
    axios: (url, signal) => axios.post(url, {}, { signal }),
    OpenAI: (url, signal) => new OpenAI({ apiKey: 'k', baseURL: url, maxRetries: 0 }).models.list({ signal }),
    Anthropic: (url, signal) => new Anthropic({ apiKey: 'k', baseURL: url, maxRetries: 0 }).models.list({}, { signal }),
  }
  test.each(Object.entries(clients))(
    'what %s throws counts by the reason, whether canceled or at its time limit',
    async (_, call) => {
      const { url } = await silent()
      for (const [reason, expected] of [
        ['canceled', reasons.canceled],
        ['lease_lost', reasons.lease_lost],
      ] as const) {
        const controller = new AbortController()
        const error = caught(() => call(url, controller.signal))
        controller.abort(new JobAborted(reason, 'm'))
        expect(classify(await error, { signal: controller.signal })).toEqual(expected)
      }
      const signal = AbortSignal.timeout(1)
      expect(classify(await caught(() => call(url, signal)), { signal })).toMatchObject({ code: 'timeout' })
    },
  )

  test.each([
    ['a bare string', 'user'],
    ['the default reason', undefined],
  ])('%s as the reason means canceled', (_, reason) => {
    const signal = aborted(reason)
    expect(classify(signal.reason, { signal })).toEqual(canceled('canceled', 'user'))
  })

  test('a time limit of its own means timeout', () => {
    const signal = aborted(new DOMException('late', 'TimeoutError'))
    expect(classify(signal.reason, { signal })).toEqual(unknownOutcome('timeout', 'provider'))
  })

  test('the time limit of a job that was reading is transient', () => {
    const signal = aborted(new JobAborted('timeout', 'm'))
    const error = Object.assign(new Error('canceled'), { config: { method: 'get' } })
    expect(classify(error, { signal })).toEqual(transient('timeout', 'provider'))
  })

  test('says nothing until it has fired', () => {
    expect(classify(status(401), { signal: new AbortController().signal })).toEqual(permanent('unauthorized', 'operator'))
  })
})

describe("jobtable's own errors", () => {
  const jobtable = (code: ErrorCode) => () => Promise.reject(new JobtableError(code, 'm'))
  const foreign = (name: string, fields: object) => Object.assign(new Error('m'), { name, ...fields })
  rows([
    ['PermanentError is permanent', () => Promise.reject(new PermanentError('m')), permanent('permanent', 'user')],
    [
      'a handler may choose code and blame',
      () => Promise.reject(new PermanentError('m', { code: 'too_old', blame: 'operator' })),
      { kind: 'permanent', code: 'too_old', blame: 'operator' },
    ],
    [
      'TransientError is transient, whatever its cause',
      () => Promise.reject(new TransientError('m', { cause: status(401) })),
      transient('transient', 'provider'),
    ],
    [
      'RetryAfter waits as long as it says',
      () => Promise.reject(new RetryAfter('5m')),
      limited('retry_after', 'provider', { retryAfterMs: 300_000 }),
    ],
    [
      'one of them deep in another error counts',
      () => Promise.reject(new Error('m', { cause: new PermanentError('m') })),
      permanent('permanent', 'user'),
    ],
    ['an invalid payload is permanent', jobtable('payload_invalid'), permanent('payload_invalid', 'developer')],
    ['an invalid result is permanent', jobtable('result_invalid'), permanent('result_invalid', 'developer')],
    ['a missing file is permanent', jobtable('file_missing'), permanent('file_missing', 'developer')],
    ['a payload that is too large is permanent', jobtable('payload_too_large'), permanent('too_large', 'developer')],
    ['one key with two payloads is permanent', jobtable('idempotency_conflict'), permanent('idempotency_conflict', 'developer')],
    ['a store that is busy is transient', jobtable('store_busy'), transient('database_unavailable', 'operator')],
    ['a store that is away is transient', jobtable('store_unavailable'), transient('database_unavailable', 'operator')],
    [
      'a store that takes no writes may be one after a failover',
      jobtable('store_read_only'),
      transient('database_unavailable', 'operator'),
    ],
    ['a full store may be emptied', jobtable('store_full'), transient('disk_full', 'operator')],
    ['a store that denies the role denies it again', jobtable('store_denied'), permanent('forbidden', 'operator')],
    ['tables that are missing are a matter of the set-up', jobtable('schema_missing'), permanent('misconfigured', 'operator')],
    ['another job that was canceled does not cancel this one', jobtable('job_canceled'), permanent('canceled', 'user')],
    ['a lost lease ends the work', jobtable('lease_lost'), canceled('lease_lost', 'operator')],
    ['another job that failed is permanent', jobtable('job_failed'), permanent('permanent', 'developer')],
    ['a wait that was too long may be tried again', jobtable('wait_timeout'), transient('transient', 'operator')],
    ['a step that is asked for twice is permanent', jobtable('step_repeated'), permanent('step_repeated', 'developer')],
    [
      'a transaction that was not committed is permanent',
      jobtable('transaction_uncommitted'),
      permanent('transaction_uncommitted', 'developer'),
    ],
    ['a transaction that has ended is permanent', jobtable('transaction_over'), permanent('transaction_over', 'developer')],
    ['a type that nobody defined is permanent', jobtable('type_defined_twice'), permanent('misconfigured', 'developer')],
    [
      'JobAborted without its signal counts by its reason',
      () => Promise.reject(new JobAborted('shutdown', 'm')),
      canceled('shutdown', 'operator'),
    ],
    [
      'an error of another copy of the package counts by its shape',
      () => Promise.reject(foreign('PermanentError', { code: 'c', blame: 'user' })),
      { kind: 'permanent', code: 'c', blame: 'user' },
    ],
    [
      'RetryAfter of another copy counts by its shape',
      () => Promise.reject(foreign('RetryAfter', { delayMs: 5 })),
      limited('retry_after', 'provider', { retryAfterMs: 5 }),
    ],
    ["somebody else's PermanentError is none of ours", () => Promise.reject(foreign('PermanentError', {})), unknown],
  ])
})

describe('wrapped errors', () => {
  const wrap = (error: Error, times: number): Error =>
    times === 0 ? error : new Error('wrapped', { cause: wrap(error, times - 1) })
  rows([
    [
      'the outermost error that says something counts',
      () => Promise.reject(Object.assign(new Error('m', { cause: status(500) }), { status: 404 })),
      permanent('not_found', 'developer'),
    ],
    [
      'a wrapper that says nothing is looked through',
      () => Promise.reject(wrap(status(404), 9)),
      permanent('not_found', 'developer'),
    ],
    ['nothing is looked for deeper than 10', () => Promise.reject(wrap(status(404), 11)), unknown],
    [
      'errors side by side are worth a retry while one of them is',
      () => Promise.reject(new AggregateError([status(404), status(500)])),
      transient('provider_error', 'provider'),
    ],
    [
      'errors side by side are permanent when all are',
      () => Promise.reject(new AggregateError([status(404), status(401)])),
      permanent('not_found', 'developer'),
    ],
    [
      'one unknown outcome among many counts most',
      () => Promise.reject(new AggregateError([status(429), Object.assign(new Error('m'), { code: 'ECONNRESET' })])),
      unknownOutcome('connection_lost', 'provider'),
    ],
    [
      'originalError is looked at',
      () => Promise.reject(Object.assign(new Error('m'), { originalError: status(404) })),
      permanent('not_found', 'developer'),
    ],
    [
      'detail is looked at',
      () => Promise.reject(Object.assign(new Error('m'), { detail: status(404) })),
      permanent('not_found', 'developer'),
    ],
  ])
})

describe('anything can be thrown', () => {
  const trap = (): never => {
    throw new Error('trap')
  }
  const circular: { cause?: unknown; errors?: unknown } = new Error('m')
  circular.cause = circular
  circular.errors = [circular, { cause: circular }]
  const endless = (): object => ({
    get cause() {
      return endless()
    },
    get errors() {
      return [endless(), endless(), endless()]
    },
  })
  const revoked = Proxy.revocable({}, {})
  revoked.revoke()
  const everyTrap = Object.fromEntries(Object.getOwnPropertyNames(Reflect).map((name) => [name, trap]))
  const hostile: [string, unknown][] = [
    ['undefined', undefined],
    ['null', null],
    ['a string', 'nonsense'],
    ['an empty string', ''],
    ['a number', 42],
    ['NaN', Number.NaN],
    ['a bigint', 10n],
    ['a symbol', Symbol('s')],
    ['a function', () => {}],
    ['an object', {}],
    ['an object without prototype', Object.create(null)],
    ['an array', [1, 2]],
    ['a frozen error', Object.freeze(new Error('m'))],
    ['a circular error', circular],
    ['an error without end', endless()],
    ['a Proxy whose traps all throw', new Proxy({}, everyTrap)],
    ['a Proxy of a function whose traps all throw', new Proxy(() => {}, everyTrap)],
    ['a revoked Proxy', revoked.proxy],
    ['a Proxy that has everything', new Proxy({}, { get: () => 'x' })],
    [
      'getters that throw',
      Object.defineProperties(
        {},
        Object.fromEntries(
          ['name', 'message', 'code', 'status', 'cause', 'headers', 'errors', 'constructor'].map((key) => [key, { get: trap }]),
        ),
      ),
    ],
    [
      'a property that is no error',
      Object.assign(new Error('m'), { status: 'x', code: {}, headers: 5, errors: 'x', cause: 7, response: null }),
    ],
    ['a message of 20,000,000 characters', new Error('x'.repeat(20_000_000))],
  ]
  test.each(hostile)('%s gives two retries and no crash', (_, thrown) => {
    expect(classify(thrown)).toEqual(unknown)
  })

  test('one getter that throws hides nothing else', () => {
    const error = Object.defineProperty(status(404), 'cause', { get: trap })
    expect(classify(error)).toEqual(permanent('not_found', 'developer'))
  })

  test('a signal that is none is as good as none', () => {
    expect(classify(status(404), { signal: 'x' as unknown as AbortSignal })).toEqual(permanent('not_found', 'developer'))
  })

  test('every code has a meaning', () => {
    for (const meaning of Object.values(CODES)) expect(meaning).toMatch(/^\w.{10,}$/)
  })
})
