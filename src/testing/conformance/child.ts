/** A process of the multi-process tests: opens the store by the harness's module, then carries out orders. */
import { isAbsolute } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { JobRow, NewJob, Store } from '../../store.js'
import type { Answers, FromChild, Order, Told } from './orders.js'

const LEASE_MS = 60_000

let store: Store
let tokens = 0

function tell(message: FromChild): void {
  process.send?.(message)
}

function keyed(id: string, key: number): NewJob {
  return {
    id,
    type: 'mail',
    queue: 'default',
    payload: '{}',
    priority: 0,
    maxAttempts: null,
    runAfter: { delayMs: 0 },
    idempotencyKey: `key-${key}`,
    fingerprint: null,
    traceContext: null,
    supersedes: null,
  }
}

async function insert({ prefix, calls, perCall, keys }: Order & { do: 'insert' }): Promise<Told[]> {
  const told: Told[] = []
  for (let call = 0; call < calls; call++) {
    const numbers = Array.from({ length: perCall }, (_, i) => call * perCall + i)
    const jobs = numbers.map((number) => keyed(`${prefix}-${String(number).padStart(6, '0')}`, number % keys))
    const outcomes = await store.insert(jobs)
    const batch = outcomes.map((outcome, i): Told => {
      const id = outcome.type === 'held' ? outcome.holder.id : jobs[i]!.id
      return { type: outcome.type, key: numbers[i]! % keys, id }
    })
    tell({ type: 'acknowledged', ids: batch.map(({ id }) => id) })
    told.push(...batch)
  }
  return told
}

async function register(workerId: string, leaseMs: number): Promise<void> {
  const worker = {
    id: workerId,
    host: 'host',
    pid: process.pid,
    process: null,
    queues: ['default'],
    types: ['mail'],
    concurrency: 1,
  }
  await store.register(worker, leaseMs)
}

async function claim(workerId: string, limit: number, last: readonly JobRow[] = []): Promise<JobRow[]> {
  const request = { workerId, token: `${workerId}-${++tokens}`, queues: ['default'], types: ['mail'], limit }
  const settlements = last.map(({ id, claimToken }) => {
    const settlement = { status: 'succeeded', result: null } as const
    return { id, token: claimToken, settlement, maxAttempts: 5, keepForMs: null }
  })
  const { jobs, settled } = await store.claim(request, settlements)
  if (settled.some((outcome) => outcome !== 'settled')) throw new Error(`a live claim was answered with ${settled.join(', ')}`)
  return jobs
}

async function drain({ workerId, limit }: Order & { do: 'drain' }): Promise<string[]> {
  await register(workerId, LEASE_MS)
  const ids: string[] = []
  for (let jobs = await claim(workerId, limit); jobs.length > 0; jobs = await claim(workerId, limit, jobs)) {
    ids.push(...jobs.map(({ id }) => id))
  }
  return ids
}

async function carryOut(order: Order): Promise<Answers[Order['do']]> {
  switch (order.do) {
    case 'migrate':
      return store.migrate()
    case 'insert':
      return insert(order)
    case 'drain':
      return drain(order)
    case 'claim':
      await register(order.workerId, order.leaseMs)
      return (await claim(order.workerId, order.limit)).map(({ id }) => id)
  }
}

function failed(error: unknown): void {
  tell({ type: 'failed', message: error instanceof Error ? (error.stack ?? error.message) : String(error) })
}

// A parent that is gone leaves no children behind.
process.on('disconnect', () => process.exit(0))
process.on('message', (order: Order) => {
  carryOut(order).then((answer) => tell({ type: 'answer', answer }), failed)
})

async function start(module: string, args: string): Promise<void> {
  const url = isAbsolute(module) ? pathToFileURL(module).href : module
  const { open } = (await import(url)) as { open(...args: unknown[]): Store | Promise<Store> }
  store = await open(...(JSON.parse(args) as unknown[]))
  if (typeof store?.migrate !== 'function') throw new TypeError(`open() of ${module} gives no Store`)
  tell({ type: 'ready' })
}

const [module, args] = process.argv.slice(2) as [string, string]
start(module, args).catch(failed)
