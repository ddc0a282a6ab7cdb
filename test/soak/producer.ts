/** What a producer of the soak enqueues. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { EnqueueResult, Job } from '../../src/index.js'
import type { Dice } from './dice.js'
import type { LedgerWriter, Moment } from './ledger.js'
import type { Product } from './product.js'
import type { SoakTypes, Work } from './types.js'

/** So many keys are in use for so long. */
const KEYS = 100
const KEYS_FOR_MS = 5_000
/** After a call that was rejected. Milliseconds. */
const PAUSE_MS = 200
/** One of so many of the newest jobs is canceled. */
const CANCELABLE = 20

export interface ProducerEnv {
  product: Product
  dice: Dice
  ledger: LedgerWriter
  /** Where this process may be killed. */
  moment(moment: Moment): void
  /** The shortest lease of any worker. Milliseconds. */
  leaseMs: number
}

/** Enqueues in every way there is, and changes its mind. */
export class Producer {
  readonly #types: SoakTypes
  readonly #env: ProducerEnv
  readonly #dice: Dice
  readonly #newest: Job[] = []
  #made = 0

  constructor(types: SoakTypes, env: ProducerEnv) {
    this.#types = types
    this.#env = env
    this.#dice = env.dice
  }

  /** Answers with how many jobs it has asked for. */
  async next(): Promise<number> {
    try {
      return await this.#dice.pick([this.#one, this.#many, this.#together, this.#order, this.#effect, this.#cancel]).call(this)
    } catch (error) {
      this.#env.ledger.write({ what: 'refused', error: nameOf(error) })
      await sleep(PAUSE_MS)
      return 0
    }
  }

  async #one(): Promise<number> {
    this.#acknowledge(await this.#types.plain.enqueue(this.#work()))
    return 1
  }

  async #many(): Promise<number> {
    const answers = await this.#types.plain.enqueueMany(Array.from({ length: this.#dice.between(2, 10) }, () => this.#work()))
    for (const answer of answers) this.#acknowledge(answer)
    this.#newest.splice(0, this.#newest.length - CANCELABLE)
    this.#newest.push(...answers.map(({ job }) => job))
    return answers.length
  }

  /** At the same time, so that they share a commit; with keys that other producers use as well. */
  async #together(): Promise<number> {
    // All producers take the same few keys, and others after a while. One that had failed would be free again.
    const epoch = Math.floor(Date.now() / KEYS_FOR_MS)
    const name = (): string => `key-${epoch}-${this.#dice.between(1, KEYS)}`
    const works = Array.from({ length: 5 }, () => ({ ...this.#work(), name: name(), end: 'return' as const }))
    const enqueued = works.map(async (each) => {
      this.#acknowledge(await this.#types.keyed.enqueue(each), `keyed ${each.name}`)
    })
    const outcomes = await Promise.allSettled(enqueued)
    const failure = outcomes.find((outcome) => outcome.status === 'rejected')
    if (failure) throw failure.reason
    return works.length
  }

  /** An order and its job in one commit. */
  async #order(): Promise<number> {
    const order = { ...this.#work(), name: `order-${process.pid}-${Date.now()}-${++this.#made}`, end: 'return' as const }
    const answer = await this.#env.product.transaction(async ({ tx, run }) => {
      await run('INSERT INTO soak_orders (id) VALUES (?)', order.name)
      const enqueued = await this.#types.order.enqueue(order, { tx })
      this.#env.moment('order written')
      return enqueued
    })
    this.#env.moment('order committed')
    this.#acknowledge(answer, `order ${order.name}`)
    return 1
  }

  /** Jobs whose effect is in a transaction with their own record. */
  async #effect(): Promise<number> {
    const types = ['charge', 'credit'] as const
    const enqueued = types.map(async (type) => {
      const work = { ...this.#work(), end: 'return' as const }
      this.#acknowledge(await this.#types[type].enqueue(work), `${type} ${work.name}`)
    })
    await Promise.all(enqueued)
    return types.length
  }

  /** Be it waiting, running or over. */
  async #cancel(): Promise<number> {
    const [job] = this.#newest.splice(this.#dice.between(0, this.#newest.length - 1), 1)
    await job?.cancel().catch((error: unknown) => {
      if (nameOf(error) !== 'status_final') throw error
    })
    return 1
  }

  #work(): Work {
    const name = `${process.pid}-${++this.#made}`
    const dice = this.#dice
    if (dice.chance(0.01)) return { name, ms: this.#env.leaseMs * 1.5, block: dice.chance(0.2) }
    const ms = dice.chance(0.4) ? 0 : dice.between(1, 1_000)
    return { name, ms, end: dice.chance(0.05) ? 'stumble' : dice.chance(0.02) ? 'fail' : 'return' }
  }

  #acknowledge({ job }: EnqueueResult<unknown>, key?: string): void {
    this.#env.ledger.write({ what: 'acknowledged', id: job.id, ...(key !== undefined && { key }) })
  }
}

/** In ASCII: what a database says may be in any language. */
function nameOf(error: unknown): string {
  if (error instanceof Error && 'code' in error && typeof error.code === 'string') return error.code
  return error instanceof Error ? error.message.replaceAll(/[^\x20-\x7e]/g, '?') : 'unknown'
}
