/** A type's schema may be asynchronous, so that a claimed job is held for a while before its handler starts. */
import type { StandardSchemaV1 } from '@standard-schema/spec'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { Attempt } from '../../src/worker/attempt.js'
import { Reports } from '../../src/worker/reports.js'
import { signal } from '../../src/timers.js'
import type { Outcome } from '../../src/transition.js'
import { testQueue, type TestQueue } from '../../src/testing/test-queue.js'

const anything: StandardSchemaV1<object, object> = {
  '~standard': { version: 1, vendor: 'test', validate: (value) => ({ value: value as object }) },
}

let queue: TestQueue
let checking: ReturnType<typeof signal>
let checked: ReturnType<typeof signal>
let runs: string[]

beforeEach(() => {
  queue = testQueue()
  checking = signal()
  checked = signal()
  runs = []
  let checks = 0
  const payload: StandardSchemaV1<object, object> = {
    '~standard': {
      version: 1,
      vendor: 'test',
      // The first check is that of the enqueue; the second, that of the first attempt, waits.
      validate: (value) => {
        if (++checks !== 2) return { value: value as object }
        checking.resolve()
        return checked.promise.then(() => ({ value: value as object }))
      },
    },
  }
  queue.define('slow', { payload, idempotency: { none: 'every one is meant' }, run: (job) => void runs.push(job.id) })
})
afterEach(() => queue.close())

/** Lets everything go on that has nothing to wait for. */
const turn = (): Promise<void> => new Promise(setImmediate)

it('a handler whose payload is still checked when its worker stops does not start any more', async () => {
  const { job } = await queue.enqueue('slow', {})
  const worker = queue.work()
  await checking.promise
  await worker.stop({ timeout: '0ms' })
  checked.resolve()
  await turn()
  expect(runs).toEqual([])
  expect(await job.refresh()).toMatchObject({ status: 'retrying', attempts: 0 })
  await queue.drain()
  expect(runs).toEqual([job.id])
})

it('a handler whose payload is still checked when its job is canceled does not start any more', async () => {
  const { job } = await queue.enqueue('slow', {})
  const worker = queue.work()
  const canceled = new Promise((resolve) => worker.on('canceled', resolve))
  await checking.promise
  await job.cancel()
  await canceled
  checked.resolve()
  await turn()
  expect(runs).toEqual([])
  expect((await job.refresh()).status).toBe('canceled')
})

it('an attempt that is told to stop while its payload is checked ends without its handler', async () => {
  const { job } = await queue.enqueue('slow', {})
  const store = await queue.open()
  const [row] = await store.get([job.id])
  const outcomes: (Outcome | null)[] = []
  const attempt = new Attempt({ ...row!, status: 'running', claimToken: 'token' }, queue.types.get('slow')!, {
    store,
    files: queue.files,
    logger: queue.logger,
    locale: 'en',
    reports: new Reports(store, () => {}),
    lease: { holds: () => true, closed: false },
    ended: (_, outcome) => void outcomes.push(outcome),
    completed: () => {},
  })
  const ended = attempt.run()
  await checking.promise
  attempt.abort('canceled')
  checked.resolve()
  await ended
  expect(runs).toEqual([])
  expect(outcomes).toMatchObject([{ type: 'threw', error: { kind: 'canceled' } }])
})

it('a claim that is lost while the payload is checked frees its slot once', async () => {
  let active = 0
  let most = 0
  queue.define('work', {
    payload: anything,
    idempotency: { none: 'every one is meant' },
    run: async () => {
      most = Math.max(most, ++active)
      await turn()
      active--
    },
  })
  await queue.enqueue('slow', {})
  const worker = queue.work({ lease: '1s', concurrency: 1, prefetch: 0 })
  const lost = new Promise((resolve) => worker.on('lease_lost', resolve))
  await checking.promise
  queue.clock.advance('2s')
  await lost
  checked.resolve()
  await turn()
  await queue.enqueueMany('work', [{}, {}, {}])
  await worker.idle()
  expect(most).toBe(1)
})
