import { afterEach, beforeEach, expect, it } from 'vitest'
import { z } from 'zod'
import { httpHandler } from '../../src/http/index.js'
import { jobtable, type Queue } from '../../src/index.js'
import { testQueue } from '../../src/testing/index.js'

let queue: Queue
beforeEach(() => void (queue = testQueue()))
afterEach(() => queue.close())

const contract = { payload: z.object({}), idempotency: { none: 'a test' } }
let types = 0
/** As in JavaScript, where nobody looks at the names. */
const define = (options: object) => queue.define(`type-${++types}`, { ...contract, ...options })

it.each<[string, string | undefined, () => unknown]>([
  ['a queue', 'locale', () => jobtable('sqlite::memory:', { local: 'zh' } as never)],
  ['a test queue', 'locale', () => testQueue({ Locale: 'zh' } as never)],
  ['retention', 'failed', () => jobtable('sqlite::memory:', { retention: { fialed: '1d' } } as never)],
  ['a type', 'timeout', () => define({ timeuot: '1s' })],
  ['a type', undefined, () => define({ wholly: 'different' })],
  ['a type, by the name of what every object has', undefined, () => define({ constructor: 1 })],
  ['a rule', 'keepFor', () => define({ idempotency: { key: ['a'], onDuplicate: 'ignore_duplicate', keepfor: '1d' } })],
  ['no rule', undefined, () => define({ idempotency: { none: 'a reason', key: ['a'] } })],
  ['retry', 'maxAttempts', () => define({ retry: { maxAttempt: 1 } })],
  ['a curve', 'factor', () => define({ retry: { backoff: { base: '1s', facter: 3 } } })],
  [
    'an isolation',
    'memoryMb',
    () => define({ isolate: { in: 'thread', memoryMB: 64 }, run: new URL('./a.js', import.meta.url) }),
  ],
  ['an enqueue', 'runAfter', () => define({}).enqueue({}, { runafter: new Date() } as never)],
  ['one of many enqueues', 'delay', () => define({}).enqueueMany([{}], (() => ({ dealy: '1s' })) as never)],
  ['an enqueue by name', 'priority', () => queue.enqueue('unknown', {}, { prioirty: 1 } as never)],
  ['a worker', 'concurrency', () => queue.work({ concurency: 5 } as never)],
  ['a drain', 'lease', () => queue.drain({ leese: '1s' } as never)],
  ['a call with a budget', 'concurrency', () => queue.runOnce({ budget: '1s', concurrencyy: 1 } as never)],
  ['a filter', 'status', () => queue.list({ stauts: ['failed'] } as never)],
  ['a count', 'status', () => queue.count({ state: ['failed'] } as never)],
  ['a page', 'limit', () => queue.list({}, { limits: 1 } as never)],
  ['a resolution', 'result', () => queue.resolve('a', { effect: 'charge', as: 'done', results: 1 } as never)],
  ['live pages', 'maxStream', () => httpHandler(queue, { authorize: () => true, maxstream: '1m' } as never)],
])('an option that nobody reads is refused, and the one that is meant is named: %s', async (_, meant, call) => {
  const error: unknown = await (async () => call())().catch((reason: unknown) => reason)
  expect(error).toMatchObject({
    code: 'config_invalid',
    message: expect.stringMatching(
      meant === undefined ? /has no option "\w+"; there are: \w+/ : `\\(did you mean ${meant}\\?\\); there`,
    ) as string,
    data: { option: expect.any(String) as string, ...(meant !== undefined && { meant }) },
  })
  expect(await queue.count()).toBe(0)
})

it('what a handler misspells fails its job for good', async () => {
  const jobs = [
    define({
      run: (job: { effect(...args: unknown[]): unknown }) =>
        job.effect('e', { request: 1, run: () => 1, onUnknown: 'hold', reconsile: 1 }),
    }),
    define({ run: (job: { stream(...args: unknown[]): unknown }) => void job.stream('s', { maxlength: 5 }) }),
  ]
  for (const type of jobs) {
    const { job } = await type.enqueue({})
    await queue.drain()
    expect(await job.refresh()).toMatchObject({
      status: 'failed',
      attempts: 1,
      lastError: expect.stringContaining('did you mean') as string,
    })
  }
})
