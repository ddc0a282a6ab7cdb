import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { z } from 'zod'
import {
  JobtableError,
  jobtable,
  PermanentError,
  RetryAfter,
  TransientError,
  type Classification,
  type Queue,
  type QueueOptions,
} from '../../src/index.js'
import type { Store } from '../../src/store.js'
import { openDriver } from '../../src/stores/sqlite/driver.js'
import { sqliteStore } from '../../src/stores/sqlite/index.js'
import { ClaimLoop } from '../../src/worker/loop.js'
import type { ClaimSettlement } from '../../src/worker/maintenance.js'

const anything = { payload: z.unknown(), idempotency: { none: 'a test' } }
const silent = { debug() {}, info() {}, warn() {}, error() {} }
const away = () => Promise.reject(new JobtableError('store_unavailable', 'the database is away'))

let queue: Queue
afterEach(() => queue.close())

/** A queue in memory, some of whose store's methods are replaced. */
function open(alter: (store: Store) => Partial<Store>, options: QueueOptions = {}): Queue {
  const store = sqliteStore({ path: ':memory:' })
  queue = jobtable('sqlite::memory:', { logger: silent, ...options, store: { ...store, ...alter({ ...store }) } })
  return queue
}

/** A promise and the function that resolves it. */
function gate(): { opened: Promise<void>; open(): void } {
  let release!: () => void
  const opened = new Promise<void>((resolve) => (release = resolve))
  return { opened, open: () => release() }
}

describe('a settlement that cannot be written', () => {
  const refusing = (store: Store): Partial<Store> => {
    const check = (settlements: Parameters<Store['settle']>[0] = []) => {
      if (settlements.some(({ settlement }) => settlement.status === 'succeeded' && settlement.result === '"bad"'))
        throw new Error('CHECK constraint failed')
    }
    return {
      claim: async (request, settlements) => (check(settlements), store.claim(request, settlements)),
      settle: async (settlements) => (check(settlements), store.settle(settlements)),
    }
  }

  it('fails its own job, and holds up no other', async () => {
    const type = open(refusing).define('type', { ...anything, run: (job) => job.payload as string })
    const [bad, ...good] = (await type.enqueueMany(['bad', 'a', 'b', 'c'])).map(({ job }) => job)
    await queue.drain()
    expect(await bad!.refresh()).toMatchObject({
      status: 'failed',
      lastError: expect.stringContaining('CHECK constraint failed') as string,
    })
    expect(await Promise.all(good.map((job) => job.result()))).toEqual(['a', 'b', 'c'])
  })
  it.each<[string, unknown]>([
    ['a wait that is no number', { kind: 'transient', code: 'mine', blame: 'provider', retryAfterMs: Number.NaN }],
    ['an unknown kind', { kind: 'odd', code: 'mine', blame: 'provider' }],
    ['no code', { kind: 'permanent' }],
  ])("does not come from a classify of one's own that answers with %s", async (_, answer) => {
    const type = open(() => ({})).define('type', {
      ...anything,
      classify: () => answer as Classification,
      run: () => {
        throw new Error('x')
      },
    })
    const { job } = await type.enqueue(null)
    await queue.drain()
    expect(await job.refresh()).toMatchObject({ status: 'retrying', attempts: 1 })
  })
})

describe('a settlement whose answer is lost on the way', () => {
  const unanswered =
    (afterwards: (store: Store, id: string) => Promise<unknown> = async () => {}) =>
    (store: Store): Partial<Store> => {
      let lost = false
      const once = async <Answer>(settlements: Parameters<Store['settle']>[0], answer: Answer): Promise<Answer> => {
        if (lost || settlements.length === 0) return answer
        lost = true
        await afterwards(store, settlements[0]!.id)
        return away()
      }
      return {
        claim: async (request, settlements = []) => once(settlements, await store.claim(request, settlements)),
        settle: async (settlements) => once(settlements, await store.settle(settlements)),
      }
    }

  it.each<[string, Error | null, string]>([
    ['succeeded', null, 'succeeded'],
    ['retrying', new TransientError('again'), 'retrying'],
    ['failed', new PermanentError('never'), 'failed'],
    ['handed back', new RetryAfter(60_000), 'retrying'],
  ])('is told once, as what it is: %s', async (_, error, status) => {
    const told: string[] = []
    const type = open(unanswered()).define('type', {
      ...anything,
      run: () => {
        if (error) throw error
      },
    })
    const worker = queue.work()
    for (const event of ['succeeded', 'retrying', 'failed', 'lease_lost'] as const) worker.on(event, () => told.push(event))
    const { job } = await type.enqueue(null)
    await worker.idle()
    expect(told).toEqual([status])
    expect((await job.refresh()).status).toBe(status)
    await worker.stop()
  })

  it('is told as lost, where the row is not as it was to become', async () => {
    const told: string[] = []
    let runs = 0
    const repaired = (store: Store, id: string) => store.repair([id], null)
    const type = open(unanswered(repaired)).define('type', {
      ...anything,
      run: () => {
        if (runs++ === 0) throw new PermanentError('never')
      },
    })
    const worker = queue.work()
    for (const event of ['succeeded', 'failed', 'lease_lost'] as const) worker.on(event, () => told.push(event))
    await type.enqueue(null)
    await worker.idle()
    expect(told.sort()).toEqual(['lease_lost', 'succeeded'])
    await worker.stop()
  })
})

describe('a handler that returned', () => {
  it('is not run again because of what it returned, whatever its type or its schema say', async () => {
    let effects = 0
    const schema = z.unknown().refine(() => {
      throw new Error('the schema is broken')
    })
    const type = open(() => ({})).define('type', {
      ...anything,
      result: schema,
      classify: () => ({ kind: 'transient', code: 'mine', blame: 'provider' }),
      retry: { backoff: () => 0, jitter: false },
      run: () => ++effects,
    })
    const { job } = await type.enqueue(null)
    await queue.drain()
    expect([effects, (await job.refresh()).status]).toEqual([1, 'failed'])
  })
})

describe('a row with an odd history, written by hand', () => {
  it('neither stops a worker nor its recovery', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'jobtable-'))
    const store = sqliteStore({ path: join(folder, 'app.db') })
    queue = jobtable('sqlite::memory:', { logger: silent, store })
    const type = queue.define('type', { ...anything, run: () => 'done' })
    const jobs = (await type.enqueueMany([1, 2, 3])).map(({ job }) => job)
    await store.register({ id: 'dead', host: 'h', pid: 1, process: null, queues: [], types: [], concurrency: 1 }, 60_000)
    await store.claim({ workerId: 'dead', token: 't', queues: ['default'], types: ['type'], limit: 2 })
    await store.retire('dead')
    const hand = openDriver(join(folder, 'app.db'))
    hand.exec(`UPDATE jobs SET errors = '[null, 5, "text", {}]'`)
    hand.close()
    const worker = queue.work({ lease: '1s' })
    expect(await Promise.all(jobs.map((job) => job.result({ timeout: '20s' })))).toEqual(['done', 'done', 'done'])
    await worker.stop()
    await queue.close()
    await rm(folder, { recursive: true })
  })
})

describe('closing', () => {
  it('leaves the queue to the handlers that still run', async () => {
    const started = gate()
    const go = gate()
    const type = open(() => ({})).define('type', {
      ...anything,
      run: async (job) => {
        started.open()
        await go.opened
        await queue.enqueue('other', {})
        return (await queue.get(job.id))!.status
      },
    })
    const succeeded: unknown[] = []
    queue.work().on('succeeded', (event) => succeeded.push(event))
    await type.enqueue(null)
    await started.opened
    const closing = queue.close()
    go.open()
    await closing
    expect(succeeded).toHaveLength(1)
    await expect(queue.get('x')).rejects.toMatchObject({ code: 'queue_closed' })
  })
  it('ends, says what is lost, and leaves nothing behind when the database fails to the end', async () => {
    let down = false
    const errors: string[] = []
    const logger = { ...silent, error: (_: object, message: string) => void errors.push(message) }
    const type = open(
      (store) => ({
        claim: (...args) => (down ? away() : store.claim(...args)),
        settle: (...args) => (down ? away() : store.settle(...args)),
      }),
      { logger },
    ).define('type', { ...anything, run: () => void (down = true) })
    const timers = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length
    const before = timers()
    const worker = queue.work()
    const failing = new Promise((resolve) => worker.on('error', resolve))
    await type.enqueue(null)
    await failing
    await queue.close()
    expect(errors.some((message) => message.includes('stopped before the database took its last settlements'))).toBe(true)
    expect(timers()).toBeLessThanOrEqual(before)
  })
  it('hands back what was claimed by a claim whose answer was lost', async () => {
    let lost = false
    const type = open((store) => ({
      async claim(request, settlements) {
        const answer = await store.claim(request, settlements)
        if (answer.jobs.length === 0 || lost) return answer
        lost = true
        return away()
      },
    })).define('type', { ...anything, retry: { maxAttempts: 1 }, run: () => 'done' })
    const { job } = await type.enqueue('once')
    const worker = queue.work()
    await new Promise((resolve) => worker.on('error', resolve))
    await worker.stop()
    expect(await job.refresh()).toMatchObject({ status: 'retrying', attempts: 0, history: [] })
    await queue.drain()
    expect(await job.result()).toBe('done')
  })

  it('signs the worker off for good, whatever its heartbeats do', async () => {
    const store = sqliteStore({ path: ':memory:' })
    const beaten = gate()
    const alter: Partial<Store> = {
      retire: async (id) => {
        await store.retire(id)
        await store.heartbeat(id, 1_000)
        beaten.open()
      },
    }
    queue = jobtable('sqlite::memory:', { logger: silent, store: { ...store, ...alter } })
    queue.define('type', { ...anything, run: () => {} })
    const worker = queue.work({ lease: '1s' })
    await worker.ready()
    await worker.stop()
    await beaten.opened
    expect((await queue.stats()).workers).toEqual([])
  })
})

describe('the pause after a failed claim', () => {
  it('does not hold up what ends after it, when nothing is claimed any more', async () => {
    vi.useFakeTimers()
    onTestFinished(() => void vi.useRealTimers())
    const written: string[] = []
    const store = {
      claim: away,
      settle: (settlements: readonly ClaimSettlement[]) => {
        written.push(...settlements.map(({ id }) => id))
        return Promise.resolve(settlements.map(() => 'settled' as const))
      },
    }
    const loop = new ClaimLoop({
      store: store as Partial<Store> as Store,
      workerId: () => 'worker',
      queues: () => ['default'],
      types: () => ['type'],
      maxAttempts: () => new Map(),
      concurrency: 1,
      prefetch: 0,
      pollIntervalMs: 60_000,
      start() {},
      handBack: (row) => ({ id: row.id }) as ClaimSettlement,
      settled() {},
      unwritable: (claim) => claim,
      leaseLost() {},
      failed: () => loop.stopClaiming(),
      recovered() {},
    })
    loop.wake()
    await vi.advanceTimersByTimeAsync(10_000)
    loop.settle({ id: 'the last one' } as ClaimSettlement)
    await vi.advanceTimersByTimeAsync(10_000)
    loop.close()
    expect(written).toEqual(['the last one'])
  })
})

describe('a settlement that cannot be written, in an outage', () => {
  it('does not end the claim loop, whatever was to be exchanged when the outage began', async () => {
    vi.useFakeTimers()
    onTestFinished(() => void vi.useRealTimers())
    const written: string[] = []
    let outage = true
    const write = (settlements: readonly ClaimSettlement[] = []) => {
      if (settlements.some(({ id }) => id === 'bad')) throw new Error('CHECK constraint failed')
      written.push(...settlements.map(({ id }) => id))
      return settlements.map(() => 'settled' as const)
    }
    const store = {
      claim: async (_: unknown, settlements?: ClaimSettlement[]) => {
        return { alive: true, jobs: [], nextDueInMs: null, settled: write(settlements) }
      },
      settle: async (settlements: ClaimSettlement[]) => {
        if (!outage) return write(settlements)
        outage = false
        loop.wake() // The next exchange is to begin in the next turn of the event loop.
        return away()
      },
    }
    const loop: ClaimLoop = new ClaimLoop({
      store: store as Partial<Store> as Store,
      workerId: () => 'worker',
      queues: () => ['default'],
      types: () => ['type'],
      maxAttempts: () => new Map(),
      concurrency: 1,
      prefetch: 0,
      pollIntervalMs: 60_000,
      start() {},
      handBack: (row) => ({ id: row.id }) as ClaimSettlement,
      settled() {},
      unwritable: (claim) => ({ ...claim, id: 'bad, as failed' }),
      leaseLost() {},
      failed() {},
      recovered() {},
    })
    loop.settle({ id: 'bad' } as ClaimSettlement)
    await vi.advanceTimersByTimeAsync(10_000)
    loop.settle({ id: 'the next' } as ClaimSettlement)
    await vi.advanceTimersByTimeAsync(10_000)
    loop.close()
    expect(written).toEqual(['bad, as failed', 'the next'])
  })
})

describe('what a product brings along may fail', () => {
  it('a logger that throws changes nothing', async () => {
    const broken = () => {
      throw new Error('the disk of the log is full')
    }
    const type = open(() => ({}), { logger: { debug: broken, info: broken, warn: broken, error: broken } }).define('type', {
      ...anything,
      run: (job) => {
        job.log.info('hello')
        return 'done'
      },
    })
    const { job } = await type.enqueue(null)
    await queue.drain()
    expect(await job.result()).toBe('done')
  })
  it('a listener that rejects is logged', async () => {
    const errors: string[] = []
    const logger = { ...silent, error: (_: object, message: string) => void errors.push(message) }
    const type = open(() => ({}), { logger }).define('type', { ...anything, run: () => {} })
    const worker = queue.work()
    worker.on('succeeded', () => Promise.reject(new Error('a listener')) as never)
    await (await type.enqueue(null)).job.result()
    await worker.stop()
    expect(errors).toEqual(['a listener of the worker threw'])
  })
})

describe('waits that are longer than a timer can be', () => {
  it('are waited for', async () => {
    const calls = { claim: 0, heartbeat: 0 }
    const type = open((store) => ({
      claim: (...args) => (calls.claim++, store.claim(...args)),
      heartbeat: (...args) => (calls.heartbeat++, store.heartbeat(...args)),
    })).define('type', { ...anything, run: () => {} })
    const worker = queue.work({ pollInterval: '30d', lease: '90d' })
    const { job } = await type.enqueue(null)
    await job.result({ timeout: '30d' })
    await worker.idle()
    const after = calls.claim
    for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve))
    expect([calls.claim - after, calls.heartbeat]).toEqual([0, 0])
    await worker.stop({ timeout: '30d' })
  })
})

describe('a lost job of a type that is unknown here', () => {
  it('waits for a worker that knows its limits', async () => {
    const store = sqliteStore({ path: ':memory:' })
    queue = jobtable('sqlite::memory:', { logger: silent, store })
    await queue.open()
    await queue.enqueue('charge', {})
    await store.register({ id: 'dead', host: 'h', pid: 1, process: null, queues: [], types: [], concurrency: 1 }, 60_000)
    await store.claim({ workerId: 'dead', token: 't', queues: ['default'], types: ['charge'], limit: 1 })
    await store.retire('dead')
    queue.define('mail', { ...anything, run: () => {} })
    const [row] = await store.lost(10, [...queue.types.keys()])
    expect(row).toBeUndefined()
    const charge = queue.define('charge', { ...anything, retry: { maxAttempts: 1 }, run: () => {} })
    const worker = queue.work({ lease: '1s' })
    const failed = new Promise<{ type: string }>((resolve) => worker.on('failed', resolve))
    expect((await failed).type).toBe(charge.name)
    await worker.stop()
  })
})
