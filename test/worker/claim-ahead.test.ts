import { setImmediate as turn } from 'node:timers/promises'
import { afterEach, expect, it, vi } from 'vitest'
import { JobtableError } from '../../src/errors.js'
import type { ClaimRequest, FencedSettlement, JobRow, SettleOutcome, Store } from '../../src/store.js'
import { ClaimLoop } from '../../src/worker/loop.js'
import type { ClaimSettlement } from '../../src/worker/maintenance.js'

const CONCURRENCY = 4
const JOBS = 2_000

let loop: ClaimLoop
afterEach(() => loop.close())

/** A store with so many jobs, which takes a few turns of the event loop for each call, and notes what was on its way at the same time. */
function fakeStore({ parallel = true, jobs = JOBS } = {}) {
  let next = 0
  const all = {
    inFlight: [] as string[],
    held: new Set<string>(),
    mostHeld: 0,
    settled: [] as string[],
    calls: [] as { kind: 'claim' | 'settle'; settlements: number; beside: string[] }[],
    fail: undefined as ((settlements: readonly FencedSettlement[]) => Error | undefined) | undefined,
  }
  const call = async <T>(kind: 'claim' | 'settle', settlements: readonly FencedSettlement[], effect: () => T): Promise<T> => {
    all.calls.push({ kind, settlements: settlements.length, beside: [...all.inFlight] })
    all.inFlight.push(kind)
    for (let i = 0; i < 3; i++) await turn()
    all.inFlight.splice(all.inFlight.indexOf(kind), 1)
    const error = all.fail?.(settlements)
    if (error) throw error
    return effect()
  }
  const settle = (settlements: readonly FencedSettlement[]): SettleOutcome[] =>
    settlements.map(({ id }) => {
      if (!all.held.delete(id)) return 'lost'
      all.settled.push(id)
      return 'settled'
    })
  const claim = (limit: number): JobRow[] => {
    const rows = Array.from({ length: Math.min(limit, jobs - next) }, () => ({ id: String(next++) }) as JobRow)
    for (const { id } of rows) all.held.add(id)
    all.mostHeld = Math.max(all.mostHeld, all.held.size)
    return rows
  }
  const store: Partial<Store> = {
    parallel,
    claim: ({ limit }: ClaimRequest, settlements = []) =>
      call('claim', settlements, () => ({ settled: settle(settlements), jobs: claim(limit), alive: true, nextDueInMs: null })),
    settle: (settlements) => call('settle', settlements, () => settle(settlements)),
    get: (ids) => Promise.resolve(ids.map(() => undefined)),
  }
  return Object.assign(all, { store: store as Store })
}

/** Handlers that end at once, or after some turns of the event loop. */
function work(
  store: Store,
  prefetch: number,
  {
    onStart = () => {},
    concurrency = CONCURRENCY,
    turns,
  }: { onStart?: () => void; concurrency?: number; turns?: () => number } = {},
) {
  const told: [string, SettleOutcome][] = []
  const failed = vi.fn<(error: unknown) => void>()
  loop = new ClaimLoop({
    store,
    concurrency,
    prefetch,
    pollIntervalMs: 60_000,
    workerId: () => 'worker',
    queues: () => ['default'],
    types: () => ['type'],
    maxAttempts: () => new Map(),
    start: (row) => {
      onStart()
      const end = (): void => loop.slotFreed({ id: row.id, settlement: { status: 'succeeded' } } as ClaimSettlement)
      if (turns) void pass(turns()).then(end)
      else queueMicrotask(end)
    },
    handBack: (row) => ({ id: row.id }) as ClaimSettlement,
    settled: ({ id }, outcome) => void told.push([id, outcome]),
    unwritable: (claim) => claim,
    leaseLost() {},
    failed,
    recovered() {},
  })
  return { told, failed }
}

async function pass(turns: number): Promise<void> {
  for (let i = 0; i < turns; i++) await turn()
}

const everyJob = Array.from({ length: JOBS }, (_, i) => String(i)).sort()

it('a claim is asked for before the jobs of the last one start, and settlements are written beside it', async () => {
  const all = fakeStore()
  let ahead = 0
  const { told } = work(all.store, 100, { onStart: () => (ahead += Number(all.inFlight.includes('claim'))) })
  await loop.idle()
  expect(all.settled.sort()).toEqual(everyJob)
  expect(told.every(([, outcome]) => outcome === 'settled')).toBe(true)
  expect(ahead).toBeGreaterThan(0.9 * JOBS)
  const apart = all.calls.filter(({ kind, beside }) => kind === 'claim' && beside.includes('settle'))
  expect(apart.length).toBeGreaterThan(10)
  expect(all.calls.every(({ beside }) => beside.length <= 1 && new Set(beside).size === beside.length)).toBe(true)
})

it('never more is claimed and not settled than the concurrency and the prefetch', async () => {
  const all = fakeStore()
  work(all.store, 100)
  await loop.idle()
  expect(all.settled).toHaveLength(JOBS)
  expect(all.mostHeld).toBeGreaterThan(50)
  expect(all.mostHeld).toBeLessThanOrEqual(CONCURRENCY + 100)
})

it.each([true, false])(
  'with slots for all that is held, too, a claim waits until it is worth it (parallel: %s)',
  async (parallel) => {
    const all = fakeStore({ parallel })
    let started = 0
    work(all.store, 40, { concurrency: 40, turns: () => 20 + (started++ % 40) })
    await loop.idle()
    expect(all.settled).toHaveLength(JOBS)
    expect(all.mostHeld).toBeLessThanOrEqual(80)
    expect(all.calls.filter(({ kind }) => kind === 'claim').length).toBeLessThan(JOBS / 15)
  },
)

it('without a prefetch, and where the store works in this process, settlements go along with the claims', async () => {
  for (const [parallel, prefetch] of [
    [true, 0],
    [false, 100],
  ] as const) {
    const all = fakeStore({ parallel, jobs: 200 })
    work(all.store, prefetch)
    await loop.idle()
    expect(all.settled).toHaveLength(200)
    expect(all.calls.filter(({ beside }) => beside.length > 0)).toEqual([])
    // But for the last ones.
    expect(all.calls.filter(({ kind }) => kind === 'settle').length).toBeLessThanOrEqual(1)
    loop.close()
  }
})

it('settlements that met an outage are written once it is over, each once', async () => {
  const all = fakeStore()
  let outages = 0
  all.fail = () => (outages++ < 2 ? new JobtableError('store_unavailable', 'away') : undefined)
  const { told, failed } = work(all.store, 100)
  await loop.idle()
  expect(failed).toHaveBeenCalled()
  expect(all.settled.sort()).toEqual(everyJob)
  expect(told).toHaveLength(JOBS)
  expect(all.mostHeld).toBeLessThanOrEqual(CONCURRENCY + 100)
})

it('settlements that were refused are written one by one', async () => {
  const all = fakeStore()
  all.fail = (settlements) =>
    settlements.length > 1 && settlements.some(({ id }) => id === '500') ? new Error('bad') : undefined
  const { told, failed } = work(all.store, 100)
  await loop.idle()
  expect(failed).not.toHaveBeenCalled()
  expect(all.settled.sort()).toEqual(everyJob)
  expect(told).toHaveLength(JOBS)
  expect(all.calls.filter(({ kind, settlements }) => kind === 'settle' && settlements === 1).length).toBeGreaterThan(1)
  expect(all.mostHeld).toBeLessThanOrEqual(CONCURRENCY + 100)
})

it('while settlements of two calls are written one by one, each counts as held until it is written', async () => {
  const all = fakeStore({ jobs: 10_000 })
  all.fail = (settlements) => (settlements.length > 1 ? new Error('bad') : undefined)
  let started = 0
  work(all.store, 100, { concurrency: 40, turns: () => (started++ * 7) % 10 })
  await loop.idle()
  expect(all.settled).toHaveLength(10_000)
  expect(all.mostHeld).toBeLessThanOrEqual(140)
})
