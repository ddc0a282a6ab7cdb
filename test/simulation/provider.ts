/**
 * A system elsewhere, at which effects happen. One that knows its keys does a thing once for each, and answers a key that it has declined with
 * the very same words ever after; one that does not does whatever it is asked, as often as it is asked.
 *
 * What a call may meet:
 *   unsent       lost on the way there; the caller hears that the connection broke
 *   unanswered   it took effect, the answer is lost; the caller hears the same
 *   late         the caller has given up at its deadline; then it takes effect
 *   slow         it outlasts leases, timeouts and callers, and takes effect
 *   limited      too many requests: nothing happened, for certain
 *   declined     for good: nothing happened, for certain
 *   unheard      the same, and the answer is lost
 *   unreachable  the connection was refused: nothing was sent
 *   death        the caller is gone before the call arrives, or after it took effect
 */
import type { Reconciled } from '../../src/effects/effect.js'
import { PermanentError, RetryAfter } from '../../src/handler-errors.js'
import type { Host } from './virtual-time.js'
import type { World } from './world.js'

const FAULTS = [
  'unsent',
  'unanswered',
  'late',
  'slow',
  'limited',
  'declined',
  'unheard',
  'unreachable',
  'dead_before',
  'dead_after',
] as const
type Fate = 'served' | (typeof FAULTS)[number]

export interface Caller {
  host: Host
  signal: AbortSignal | undefined
  kill(): void
}

export interface ProviderCall {
  jobId: string
  key: string
  knowsKeys: boolean
}

export class Provider {
  readonly #world: World
  /** The receipt of what was done under a key, the first one. */
  readonly #receipts = new Map<string, number>()
  /** Keys that were declined by one that knows its keys. */
  readonly #declined = new Set<string>()
  /** Calls that may still take effect. */
  readonly #onTheWay = new Map<string, number>()
  #done = 0
  /** Something has happened for this job. */
  happened: (jobId: string, knowsKeys: boolean) => void = () => {}

  constructor(world: World) {
    this.#world = world
  }

  receiptOf(key: string): number | undefined {
    return this.#receipts.get(key)
  }

  /** What can be found out at this moment. While a call is on its way nobody can say that it will not be done. */
  look(key: string): Reconciled<number> {
    if ((this.#onTheWay.get(key) ?? 0) > 0) return 'unknown'
    const receipt = this.#receipts.get(key)
    return receipt === undefined ? 'not_done' : { done: receipt }
  }

  /** What a person finds, who may take some time to pass it on. */
  findFor(host: Host, key: string): Promise<Reconciled<number>> {
    const { random, time } = this.#world
    const found = this.look(key)
    return new Promise((resolve) => time.after(random.between(0, 3_000), host, () => resolve(found)))
  }

  call(caller: Caller, call: ProviderCall): Promise<number> {
    const { random, time, plan, coverage } = this.#world
    const fate = this.#fate()
    coverage.count(`provider: ${fate}`)
    this.#world.note(caller.host, () => `${call.jobId} calls the provider: ${fate}`)
    const refusal = refusalOf(fate)
    return new Promise((resolve, reject) => {
      const { host, signal, kill } = caller
      // Giving up takes nothing back.
      signal?.addEventListener('abort', () => reject(signal.reason as Error), { once: true })
      const answer = (act: () => void): void => void time.after(random.between(0.5, 30), host, act)
      if (refusal) return answer(() => reject(refusal))
      if (fate === 'unsent') return void time.after(random.between(1, 500), host, () => reject(brokenOff()))
      const deadlineMs = random.between(50, 1_000)
      if (fate === 'late') time.after(deadlineMs, host, () => reject(timedOut()))
      if (fate === 'dead_before') time.after(random.between(0, 3), null, kill)
      const slowMs = fate === 'slow' ? random.between(0.3, 2.5) * plan.leaseMs : 0
      const lateMs = fate === 'late' ? deadlineMs + random.between(0, 2) * plan.leaseMs : 0
      this.#travel(call.key, 1)
      time.after(random.between(0.5, 40) + slowMs + lateMs, null, () => {
        this.#travel(call.key, -1)
        // What a process that died had under way may have left it, or not.
        if (!host.alive && random.chance(0.3)) return
        const receipt = this.#do(call, fate)
        if (fate === 'dead_after') kill()
        else if (fate === 'unanswered' || fate === 'unheard') answer(() => reject(brokenOff()))
        else if (fate !== 'late')
          answer(() => (receipt === undefined ? reject(new PermanentError('declined')) : resolve(receipt)))
      })
    })
  }

  /** Looks an effect up over the network. */
  ask({ host }: Caller, key: string): Promise<Reconciled<number>> {
    const { random, time, coverage } = this.#world
    const fate = this.#fate()
    return new Promise((resolve, reject) => {
      const back = (act: () => void): void => void time.after(random.between(0.5, 30), host, act)
      time.after(random.between(0.5, 40), null, () => {
        if (fate !== 'served' && fate !== 'slow') return back(() => reject(brokenOff()))
        const found = this.look(key)
        coverage.count(`reconcile: ${typeof found === 'object' ? 'done' : found}`)
        if (found === 'unknown' && random.chance(0.5)) return back(() => reject(new RetryAfter(1_000)))
        back(() => resolve(found))
      })
    })
  }

  #fate(): Fate {
    const { random, plan, healthy } = this.#world
    // It has its own troubles when all else is well, and fewer, so that jobs come to their end.
    return random.chance(healthy ? plan.providerFaults / 4 : plan.providerFaults) ? random.pick(FAULTS) : 'served'
  }

  /** Undefined where it declines. */
  #do({ jobId, key, knowsKeys }: ProviderCall, fate: Fate): number | undefined {
    const before = this.#receipts.get(key)
    if (knowsKeys && before !== undefined) {
      this.#world.coverage.count('provider: knew the key')
      return before
    }
    if (knowsKeys && this.#declined.has(key)) {
      this.#world.coverage.count('provider: declined as before')
      return undefined
    }
    if (fate === 'declined' || fate === 'unheard') {
      if (knowsKeys) this.#declined.add(key)
      return undefined
    }
    const receipt = ++this.#done
    if (before === undefined) this.#receipts.set(key, receipt)
    this.#world.note(null, () => `the effect of ${jobId} happens: receipt ${receipt}`)
    this.happened(jobId, knowsKeys)
    return receipt
  }

  #travel(key: string, by: 1 | -1): void {
    this.#onTheWay.set(key, (this.#onTheWay.get(key) ?? 0) + by)
  }
}

function refusalOf(fate: Fate): Error | undefined {
  if (fate === 'limited') return Object.assign(new Error('too many requests'), { status: 429 })
  if (fate === 'unreachable') return Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' })
  return undefined
}

function brokenOff(): Error {
  return Object.assign(new Error('socket hang up'), { code: 'ECONNRESET' })
}

function timedOut(): Error {
  return Object.assign(new Error('the provider did not answer in time'), { code: 'ETIMEDOUT' })
}
