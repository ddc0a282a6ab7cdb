/** A `Store` of which every call goes through one function. */
import type { FailedJob, NewStep } from '../../src/effects/record.js'
import { JobtableError } from '../../src/errors.js'
import type {
  Change,
  ClaimRequest,
  Fence,
  FencedSettlement,
  JobFilter,
  NewJob,
  Report,
  Retention,
  Store,
  WorkerInfo,
} from '../../src/store.js'

/** Those that need a transaction of the product's have none to join. */
export type Method = Exclude<
  keyof Store,
  'name' | 'address' | 'parallel' | 'close' | 'watch' | 'insertIn' | 'recordIn' | 'transact'
>
export type Arguments<M extends Method> = Parameters<Store[M]>
export type Answer<M extends Method> = Awaited<ReturnType<Store[M]>>

interface Wire {
  call<M extends Method>(method: M, args: Arguments<M>): Promise<Answer<M>>
  watch(listener: (change: Change) => void): () => void
}

export class Connection implements Store {
  readonly name = 'simulation'
  readonly parallel: boolean
  readonly #wire: Wire
  readonly #unwatch: (() => void)[] = []

  constructor(wire: Wire, parallel: boolean) {
    this.#wire = wire
    this.parallel = parallel
  }

  migrate(): Promise<Answer<'migrate'>> {
    return this.#wire.call('migrate', [])
  }
  insert(jobs: readonly NewJob[]): Promise<Answer<'insert'>> {
    return this.#wire.call('insert', [jobs])
  }
  insertIn(): never {
    throw noTransactions()
  }
  recordIn(): never {
    throw noTransactions()
  }
  transact(): Promise<never> {
    return Promise.reject(noTransactions())
  }
  steps(jobId: string): Promise<Answer<'steps'>> {
    return this.#wire.call('steps', [jobId])
  }
  recordStep(fence: Fence, step: NewStep): Promise<Answer<'recordStep'>> {
    return this.#wire.call('recordStep', [fence, step])
  }
  resolveStep(failed: FailedJob, step: Pick<NewStep, 'name' | 'state' | 'value'>, by: string | null): Promise<boolean> {
    return this.#wire.call('resolveStep', [failed, step, by])
  }
  streams(jobId: string): Promise<Answer<'streams'>> {
    return this.#wire.call('streams', [jobId])
  }
  readStream(...args: Arguments<'readStream'>): Promise<Answer<'readStream'>> {
    return this.#wire.call('readStream', args)
  }
  get(ids: readonly string[]): Promise<Answer<'get'>> {
    return this.#wire.call('get', [ids])
  }
  list(filter: JobFilter, page: { limit: number; before?: string }): Promise<Answer<'list'>> {
    return this.#wire.call('list', [filter, page])
  }
  count(filter: JobFilter): Promise<number> {
    return this.#wire.call('count', [filter])
  }
  events(jobId: string): Promise<Answer<'events'>> {
    return this.#wire.call('events', [jobId])
  }
  overview(): Promise<Answer<'overview'>> {
    return this.#wire.call('overview', [])
  }
  workers(): Promise<Answer<'workers'>> {
    return this.#wire.call('workers', [])
  }
  claim(request: ClaimRequest, settlements: readonly FencedSettlement[] = []): Promise<Answer<'claim'>> {
    return this.#wire.call('claim', [request, settlements])
  }
  settle(settlements: readonly FencedSettlement[]): Promise<Answer<'settle'>> {
    return this.#wire.call('settle', [settlements])
  }
  report(reports: readonly Report[]): Promise<Answer<'report'>> {
    return this.#wire.call('report', [reports])
  }
  register(worker: WorkerInfo, leaseMs: number): Promise<void> {
    return this.#wire.call('register', [worker, leaseMs])
  }
  heartbeat(workerId: string, leaseMs: number): Promise<Answer<'heartbeat'>> {
    return this.#wire.call('heartbeat', [workerId, leaseMs])
  }
  retire(workerId: string): Promise<void> {
    return this.#wire.call('retire', [workerId])
  }
  lost(limit: number, types?: readonly string[]): Promise<Answer<'lost'>> {
    return this.#wire.call('lost', types === undefined ? [limit] : [limit, types])
  }
  cancel(ids: readonly string[], by: string | null): Promise<Answer<'cancel'>> {
    return this.#wire.call('cancel', [ids, by])
  }
  repair(ids: readonly string[], by: string | null): Promise<Answer<'repair'>> {
    return this.#wire.call('repair', [ids, by])
  }
  prune(retention: Retention, limit: number): Promise<Answer<'prune'>> {
    return this.#wire.call('prune', [retention, limit])
  }
  inspect(): Promise<Answer<'inspect'>> {
    return this.#wire.call('inspect', [])
  }

  watch(listener: (change: Change) => void): () => void {
    const unwatch = this.#wire.watch(listener)
    this.#unwatch.push(unwatch)
    return unwatch
  }

  async close(): Promise<void> {
    for (const unwatch of this.#unwatch) unwatch()
  }
}

function noTransactions(): JobtableError {
  return new JobtableError('config_invalid', 'there are no transactions to join in a simulation')
}

/** Whether a fence names the claim that this row is under. */
export function holds(row: { id: string; status: string; claimToken: string | null } | undefined, fence: Fence): boolean {
  return row !== undefined && row.id === fence.id && row.status === 'running' && row.claimToken === fence.token
}

/** The settlements that a call brings. */
export function settlementsOf(method: Method, args: readonly unknown[]): readonly FencedSettlement[] {
  if (method === 'settle') return args[0] as readonly FencedSettlement[]
  if (method === 'claim') return (args[1] as readonly FencedSettlement[] | undefined) ?? []
  return []
}
