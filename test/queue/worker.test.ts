import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { z } from 'zod'
import {
  JobAborted,
  PermanentError,
  RetryAfter,
  userMessage,
  type JobContext,
  type Worker,
  type WorkerOptions,
} from '../../src/index.js'
import type { Logger } from '../../src/logger.js'
import { newJob } from '../../src/testing/new-job.js'
import { testQueue, type TestQueue } from '../../src/testing/test-queue.js'

let queue: TestQueue
let logged: { level: string; message: string; facts: Record<string, unknown> }[]
beforeEach(() => {
  logged = []
  const log = (level: string) => (facts: object, message: string) => void logged.push({ level, message, facts: { ...facts } })
  const logger: Logger = { debug: log('debug'), info: log('info'), warn: log('warn'), error: log('error') }
  queue = testQueue({ logger })
})
afterEach(() => queue.close())

const payload = z.object({ n: z.number().default(0) })
const idempotency = { none: 'every one is meant' }
type Run = (job: JobContext<{ n: number }>) => unknown

const define = (run: Run, options: object = {}, name = 'work') =>
  queue.define(name, { payload, idempotency, run, ...options } as never)
const enqueue = async (options: object = {}, name = 'work') => (await queue.enqueue(name, {}, options)).job
const runOnce = async (run: Run, options: object = {}) => {
  define(run, options)
  const job = await enqueue()
  await queue.drain()
  return job.refresh()
}
/** A promise and the function that resolves it. */
function gate<T = void>(): { opened: Promise<T>; open: (value: T) => void } {
  let open!: (value: T) => void
  const opened = new Promise<T>((resolve) => (open = resolve))
  return { opened, open }
}
const stopped = (job: { signal: AbortSignal }) =>
  new Promise<never>((_, reject) => job.signal.addEventListener('abort', () => reject(job.signal.reason as Error)))
const next = (worker: Worker, event: 'succeeded' | 'retrying' | 'failed' | 'canceled' | 'lease_lost') =>
  new Promise<{ id: string }>((resolve) => worker.on(event, resolve))
const work = (options: WorkerOptions = {}) => queue.work({ concurrency: 2, ...options })

/** A job that runs, in a handler that hears nothing until it is told to end. */
async function deaf(options: object = {}) {
  const started = gate()
  const late = gate()
  define(() => (started.open(), late.opened), options)
  const worker = work()
  const job = await enqueue()
  await started.opened
  return { worker, job, end: () => late.open() }
}

describe('a handler', () => {
  it('is given its job', async () => {
    const seen = gate<JobContext<{ n: number }>>()
    const job = await runOnce((context) => seen.open(context), { retry: { maxAttempts: 3 } })
    const context = await seen.opened
    expect(context).toMatchObject({ id: job.id, type: 'work', queue: 'default', payload: { n: 0 }, attempt: 1, maxAttempts: 3 })
    expect(context.signal.aborted).toBe(false)
    expect(context.createdAt).toEqual(job.createdAt)
  })
  it('has its result stored, whatever JSON it is, and nothing for nothing', async () => {
    for (const [i, result] of [{ a: [1] }, 'text', 0, null, undefined].entries()) {
      define(() => result, {}, `r${i}`)
      const job = await enqueue({}, `r${i}`)
      await queue.drain()
      expect(await job.result()).toEqual(result)
    }
  })
  it('fails for good, without a second run, when its result cannot be stored', async () => {
    for (const [i, result] of [{ f: () => 1 }, '\ude00x', 10n, 'x'.repeat(2_000_000)].entries()) {
      let runs = 0
      define(() => (runs++, result), {}, `bad${i}`)
      const job = await enqueue({}, `bad${i}`)
      await queue.drain()
      expect((await job.refresh()).history).toMatchObject([{ kind: 'permanent', code: 'result_invalid', blame: 'developer' }])
      expect(runs).toBe(1)
    }
  })
  it('fails for good when it returns what its contract does not say', async () => {
    const job = await runOnce(() => ({ words: 'many' }), { result: z.object({ words: z.number() }) })
    expect(job).toMatchObject({ status: 'failed', attempts: 1, lastError: expect.stringContaining('$.words') as string })
    expect(job.history).toMatchObject([{ kind: 'permanent', code: 'result_invalid', blame: 'developer' }])
  })
  it('does not run on a payload that its schema refuses; the job fails at once and says why', async () => {
    let runs = 0
    define(() => void runs++)
    const store = await queue.open()
    const row = (await queue.enqueue('other', {})).job
    const [outcome] = await store.insert([newJob({ id: 'bad', type: 'work', payload: '{"n":"x"}' })])
    expect([outcome!.type, row.status]).toEqual(['inserted', 'pending'])
    await queue.drain()
    expect((await queue.get('bad'))!.toJSON()).toMatchObject({
      status: 'failed',
      attempts: 1,
      lastError: expect.stringContaining('$.n'),
    })
    expect(runs).toBe(0)
  })
})

describe('an error', () => {
  it('that is worth a retry comes back after the backoff, with its history', async () => {
    let runs = 0
    const job = await runOnce(
      () => {
        if (++runs === 1) throw Object.assign(new Error('socket hang up'), { code: 'ECONNRESET' })
        return runs
      },
      { retry: { jitter: false } },
    )
    expect(job.toJSON()).toMatchObject({
      status: 'retrying',
      attempts: 1,
      lastError: 'socket hang up',
      runAfter: queue.clock.now() + 20_000,
    })
    await queue.runFor('20s')
    expect(await job.result()).toBe(2)
    expect((await job.refresh()).history).toHaveLength(1)
  })
  it('that is permanent fails at once, with the words for the end user', async () => {
    const job = await runOnce(() => {
      throw new PermanentError('template 7 is broken', { code: 'template', userMessage: 'This template cannot be used.' })
    })
    expect(job).toMatchObject({ status: 'failed', attempts: 1, userMessage: 'This template cannot be used.' })
    await expect(job.result()).rejects.toMatchObject({
      code: 'job_failed',
      data: { userMessage: 'This template cannot be used.' },
    })
  })
  it('can be judged by the type before the classifier', async () => {
    const classify = () => ({ kind: 'permanent', code: 'mine', blame: 'operator' }) as const
    const job = await runOnce(
      () => {
        throw new Error('x')
      },
      { classify, messages: { mine: { en: 'Ask your administrator.' } } },
    )
    expect(job).toMatchObject({ status: 'failed', userMessage: 'Ask your administrator.' })
  })
  it("is judged by the built-in classifier when the type's own one throws", async () => {
    const job = await runOnce(
      () => {
        throw new Error('x')
      },
      {
        classify: () => {
          throw new Error('y')
        },
      },
    )
    expect(job).toMatchObject({ status: 'retrying' })
    expect(logged.some(({ message }) => message.includes('own classify threw'))).toBe(true)
  })
  it('that nothing is known of is retried twice and no more', async () => {
    let runs = 0
    const job = await runOnce(() => {
      runs++
      throw new Error('odd')
    })
    await queue.runFor('1h')
    expect([runs, (await job.refresh()).status]).toEqual([3, 'failed'])
  })
  it.each(['text', undefined, null, 7, { deep: { object: true } }, Symbol('s')])('may be anything at all: %s', async (thrown) => {
    const job = await runOnce(() => {
      // oxlint-disable-next-line only-throw-error -- handlers do
      throw thrown
    })
    expect(job).toMatchObject({ status: 'retrying', attempts: 1 })
  })
  it('may be a proxy that throws at every look', async () => {
    const { proxy, revoke } = Proxy.revocable({}, {})
    revoke()
    const job = await runOnce(() => {
      // oxlint-disable-next-line only-throw-error -- handlers do
      throw proxy
    })
    expect(job).toMatchObject({ status: 'retrying', attempts: 1 })
  })
  it('that is a response of fetch names its status', async () => {
    const job = await runOnce(() => {
      // oxlint-disable-next-line only-throw-error -- handlers do
      throw new Response('', { status: 401, statusText: 'Unauthorized' })
    })
    expect(job).toMatchObject({ status: 'failed', lastError: 'HTTP 401 Unauthorized' })
  })
  it('of the program is not told to its user as a fault of theirs', async () => {
    const job = await runOnce(() => Buffer.from(undefined as never))
    expect(job.userMessage).toBe(userMessage('unknown', 'en'))
  })
  it('asks to run again later without spending an attempt, even with a wait that is no wait', async () => {
    const waits = [0, -5, 1500, Number.NaN, Infinity]
    let runs = 0
    const job = await runOnce(
      (context) => {
        expect(context.attempt).toBe(1)
        if (runs < waits.length) throw new RetryAfter(waits[runs++]!)
        return 'done'
      },
      { retry: { maxAttempts: 1 } },
    )
    await queue.runFor('10s')
    expect(await job.result()).toBe('done')
    expect(runs).toBe(5)
  })
})

describe('stage and progress', () => {
  it('are there for everybody to see while the handler runs', async () => {
    const shown = gate()
    const go = gate()
    define(
      async (job) => {
        job.progress(0.4)
        await job.stage('rendering')
        shown.open()
        await go.opened
      },
      { stages: ['rendering', 'saving'] },
    )
    const job = await enqueue()
    const worker = work()
    await shown.opened
    expect(await job.refresh()).toMatchObject({ status: 'running', stage: 'rendering', progress: 0.4, lockedBy: worker.id })
    go.open()
    await job.result()
    expect((await job.events()).map(({ kind, message }) => [kind, message])).toEqual([['stage', 'rendering']])
  })
  it('never go back within an attempt, and are stored when it ends', async () => {
    const job = await runOnce((context) => {
      for (const value of [0.1, 0.9, 0.5, Number.NaN, -1]) context.progress(value)
    })
    expect(job.progress).toBe(0.9)
  })
  it('start anew with the next attempt', async () => {
    let runs = 0
    const seen: unknown[] = []
    const job = await runOnce(async (context) => {
      if (++runs === 1) {
        context.progress(0.9)
        await context.stage('late')
        throw new Error('x')
      }
      const row = await queue.get(context.id)
      seen.push(row!.stage, row!.progress)
      context.progress(0.2)
    })
    await queue.runFor('1m')
    expect(seen).toEqual([null, null])
    expect((await job.refresh()).progress).toBe(0.2)
  })
  it('refuse a stage that the type does not have', async () => {
    const job = await runOnce((context) => context.stage('x'), { stages: ['a', 'b'] })
    expect(job.lastError).toContain('its stages are a, b')
  })
  it('are ignored, with a warning, after the attempt has ended', async () => {
    const seen = gate<JobContext<{ n: number }>>()
    const job = await runOnce((context) => {
      context.progress(0.5)
      seen.open(context)
    })
    const context = await seen.opened
    context.progress(0.9)
    await context.stage('late')
    context.log.info('late')
    await queue.drain()
    expect(await job.refresh()).toMatchObject({ status: 'succeeded', progress: 0.5, stage: null })
    expect(logged.filter(({ message }) => message.includes('after the attempt had ended'))).toHaveLength(3)
    expect(await job.events()).toEqual([])
  })
})

describe('log lines', () => {
  it('go to the logger and to the timeline', async () => {
    const job = await runOnce((context) => context.log.warn('slow', { ms: 5, odd: 1n }))
    expect(await job.events()).toMatchObject([{ kind: 'log', attempt: 1, message: 'slow' }])
    expect(logged).toContainEqual({
      level: 'warn',
      message: 'slow',
      facts: { ms: 5, odd: 1n, jobId: job.id, type: 'work', attempt: 1 },
    })
  })
  it('are bounded in the timeline, which says so', async () => {
    const job = await runOnce((context) => {
      for (let i = 0; i < 2_000; i++) context.log.info(`line ${i}`)
    })
    const events = await job.events()
    expect(events).toHaveLength(500)
    expect(events.at(-1)!.message).toContain('further log lines')
  })
})

describe('a timeout', () => {
  it('aborts the signal with its reason, and counts as an attempt', async () => {
    const reasons: unknown[] = []
    define(async (job) => stopped(job).catch((error: unknown) => (reasons.push(error), Promise.reject(new Error('gave up')))), {
      timeout: '20ms',
    })
    const worker = work()
    const ended = next(worker, 'retrying')
    const job = await enqueue()
    await ended
    expect(reasons[0]).toBeInstanceOf(JobAborted)
    expect((reasons[0] as JobAborted).reason).toBe('timeout')
    expect((await job.refresh()).history).toMatchObject([{ code: 'timeout', attempt: 1 }])
  })
  it('cuts off a handler that ignores it: the slot is free, and what it returns later is not recorded', async () => {
    const late = gate()
    define(() => late.opened, { timeout: '20ms', retry: { maxAttempts: 1 } })
    const worker = work({ concurrency: 1 })
    const failed = next(worker, 'failed')
    const job = await enqueue()
    await failed
    expect(worker.running).toEqual([])
    late.open()
    await worker.stop()
    expect(await job.refresh()).toMatchObject({ status: 'failed', result: expect.anything() })
    expect(logged.some(({ message }) => message.includes('after its job was taken from it'))).toBe(true)
  })
})

describe('a cancellation', () => {
  it('reaches a running handler by its signal, and the job ends canceled without a retry', async () => {
    const started = gate()
    define(async (job) => {
      const aborted = stopped(job)
      started.open()
      await aborted
    })
    const worker = work()
    const canceled = next(worker, 'canceled')
    const job = await enqueue()
    await started.opened
    expect((await job.cancel()).cancelRequested).toBe(true)
    await canceled
    expect(await job.refresh()).toMatchObject({ status: 'canceled', attempts: 1, lockedBy: null })
    await expect(job.result()).rejects.toMatchObject({ code: 'job_canceled' })
  })
  it('that comes too late for a handler that returns is no cancellation', async () => {
    const job = await runOnce(async (context) => {
      await (await queue.get(context.id))!.cancel()
      return 'done'
    })
    expect([job.status, await job.result()]).toEqual(['succeeded', 'done'])
  })
  it('that the worker has not seen yet still wins over a retry', async () => {
    const job = await runOnce(async (context) => {
      await (await queue.get(context.id))!.cancel()
      throw new Error('x')
    })
    expect(job).toMatchObject({ status: 'canceled', attempts: 1 })
    expect(job.history).toHaveLength(1)
  })
  it('of a job that waits is immediate, of one that is over is refused', async () => {
    define(() => {})
    const waiting = await enqueue()
    expect((await waiting.cancel()).status).toBe('canceled')
    const done = await enqueue()
    await queue.drain()
    await expect(done.cancel()).rejects.toMatchObject({ code: 'status_final' })
  })
})

describe('a worker', () => {
  it('runs as many jobs at a time as it has slots, and no more', async () => {
    let now = 0
    let most = 0
    define(async () => {
      most = Math.max(most, ++now)
      await new Promise(setImmediate)
      now--
    })
    for (let i = 0; i < 50; i++) await enqueue()
    await queue.drain({ concurrency: 3 })
    expect(most).toBe(3)
  })
  it('empties its queues in the order given, and leaves others alone', async () => {
    const ran: string[] = []
    define((job) => void ran.push(job.queue))
    for (const name of ['slow', 'fast', 'slow', 'fast', 'other']) await enqueue({ queue: name })
    await queue.drain({ queues: ['fast', 'slow'], concurrency: 1, prefetch: 0 })
    expect(ran).toEqual(['fast', 'fast', 'slow', 'slow'])
  })
  it('leaves the jobs of types that it does not know untouched, and runs those behind them', async () => {
    let runs = 0
    define(() => void runs++)
    for (let i = 0; i < 3; i++) await queue.enqueue('unknown', {})
    await enqueue()
    await queue.drain()
    expect(runs).toBe(1)
    expect(await queue.list({ type: ['unknown'] })).toMatchObject(
      Array.from({ length: 3 }, () => ({ status: 'pending', attempts: 0 })),
    )
  })
  it('hands back what it cannot finish in time when it stops, which spends no attempt', async () => {
    const started = gate()
    const reasons: unknown[] = []
    define(async (job) => {
      started.open()
      await stopped(job).catch((error: unknown) => reasons.push((error as JobAborted).reason))
      throw new Error('interrupted')
    })
    const worker = work()
    const job = await enqueue()
    await started.opened
    await worker.stop({ timeout: '10ms' })
    expect(reasons).toEqual(['shutdown'])
    expect(await job.refresh()).toMatchObject({ status: 'retrying', attempts: 0, lockedBy: null, history: [] })
    expect((await queue.stats()).workers).toEqual([])
  })
  it('hands back a job whose handler ignores the shutdown', async () => {
    const { worker, job, end } = await deaf()
    await worker.stop({ timeout: '10ms' })
    expect(await job.refresh()).toMatchObject({ status: 'retrying', attempts: 0, lockedBy: null })
    end()
  })
  it('stops sooner when a second call asks for it, and the timeline tells of the hand-back', async () => {
    const { worker, job, end } = await deaf()
    const stopping = worker.stop({ timeout: '1h' })
    await worker.stop({ timeout: '0ms' })
    await stopping
    expect(await job.refresh()).toMatchObject({ status: 'retrying', attempts: 0 })
    expect((await job.events()).map(({ kind }) => kind)).toEqual(['handed_back'])
    end()
  })
  it('leaves what it abandons to be found lost, which spends the attempt', async () => {
    const { worker, job, end } = await deaf({ retry: { maxAttempts: 1 } })
    await worker.stop({ timeout: '10ms', abandon: true })
    end()
    const failed = next(work({ lease: '1s' }), 'failed')
    expect(await failed).toMatchObject({ id: job.id, attempt: 1, code: 'worker_lost' })
  })
  it('lets running jobs end when it stops', async () => {
    const started = gate()
    const go = gate()
    define(async () => {
      started.open()
      await go.opened
      return 'whole'
    })
    const worker = work()
    const job = await enqueue()
    await started.opened
    const stopping = worker.stop()
    go.open()
    await stopping
    expect(await job.result()).toBe('whole')
  })
  it('can follow one that has stopped, many times, and leaves no timer behind', async () => {
    let runs = 0
    define(() => void runs++)
    const timers = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length
    const before = timers()
    for (let i = 0; i < 20; i++) {
      for (let k = 0; k < 5; k++) await enqueue()
      await queue.drain()
    }
    expect(runs).toBe(100)
    expect(timers()).toBeLessThanOrEqual(before)
  })
  it('leaves no timer behind when it is told to stop again after it has stopped', async () => {
    define(() => {})
    const timers = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length
    const worker = work()
    await worker.ready()
    await worker.stop()
    const before = timers()
    await worker.stop()
    expect(timers()).toBe(before)
  })
  it('abandons its jobs when its lease has run out, and runs them again under a new name', async () => {
    const attempts: number[] = []
    const reasons: unknown[] = []
    define(async (job) => {
      attempts.push(job.attempt)
      if (job.attempt === 1) {
        queue.clock.advance('2s')
        await stopped(job).catch((error: unknown) => reasons.push((error as JobAborted).reason))
      }
      return job.attempt
    })
    const worker = work({ lease: '1s' })
    await worker.ready()
    const firstId = worker.id
    const job = await enqueue()
    expect(await job.result()).toBe(2)
    expect([attempts, reasons]).toEqual([[1, 2], ['lease_lost']])
    expect((await job.refresh()).history).toMatchObject([{ kind: 'lost', by: firstId, attempt: 1 }])
    expect(worker.id).not.toBe(firstId)
  })
  it('tells its listeners what became of each job, and is not disturbed by one that throws', async () => {
    define((job) => {
      if (job.attempt === 1) throw new PermanentError('no', { code: 'mine' })
    })
    const worker = work()
    const failed = next(worker, 'failed')
    worker.on('failed', () => {
      throw new Error('a listener')
    })
    const job = await enqueue()
    expect(await failed).toEqual({ id: job.id, type: 'work', attempt: 1, code: 'mine', message: 'no' })
    await worker.stop()
    expect(logged.some(({ message }) => message.includes('listener of the worker threw'))).toBe(true)
  })
  it.each([
    { concurrency: 0 },
    { concurrency: 1.5 },
    { prefetch: -1 },
    { lease: '10ms' },
    { queues: [''] },
    { pollInterval: '1' },
  ])('refuses %j', (options) => {
    define(() => {})
    expect(() => queue.work(options as never)).toThrow(expect.objectContaining({ name: 'JobtableError' }))
  })
})

describe('a result that is waited for', () => {
  it('comes as soon as the job ends, for all who wait', async () => {
    define(() => 'x')
    const job = await enqueue()
    const waiting = Promise.all([job.result(), job.result({ timeout: '1m' })])
    await queue.drain()
    expect(await waiting).toEqual(['x', 'x'])
  })
  it('may take too long, which leaves the job as it is', async () => {
    const job = (await queue.enqueue('nobody', {})).job
    await expect(job.result({ timeout: '10ms' })).rejects.toMatchObject({ code: 'wait_timeout' })
    expect((await job.refresh()).status).toBe('pending')
  })
  it('never comes from a job that does not exist', async () => {
    define(() => {})
    const job = await enqueue()
    await queue.drain()
    queue.clock.advance('8d')
    await queue.prune()
    await expect(job.result()).rejects.toMatchObject({ code: 'job_not_found' })
  })
  it('is refused when the queue is closed meanwhile', async () => {
    const job = (await queue.enqueue('nobody', {})).job
    const waiting = job.result().catch((error: unknown) => error)
    await new Promise(setImmediate)
    await queue.close()
    expect(await waiting).toMatchObject({ code: 'queue_closed' })
  })
})
