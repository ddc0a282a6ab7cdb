/**
 * The transactional effects: what a handler writes to the product's tables, exactly once for each job, however often the job runs and
 * wherever it is killed. The verdict counts the rows of `soak_effects` for each of these and each of its jobs.
 */
import type { EnqueueResult, JobContext, ProductTransaction } from '../../src/index.js'
import type { Moment } from './ledger.js'
import type { Product } from './product.js'

export interface EffectEnv {
  product: Product
  /** Enqueues the receipt of an order in a transaction. */
  receipt(order: string, tx: ProductTransaction): Promise<EnqueueResult<unknown>>
  /** Where this process may be killed. */
  moment(moment: Moment): void
}

export interface Effect {
  /** As it stands in `soak_effects`. */
  readonly name: string
  /** Each job of this type that succeeds has had it once, and no other job of it more often. */
  readonly type: string
  /** Its transaction ends the job, too. */
  readonly completes?: true
  have(job: JobContext<{ name: string }>, env: EffectEnv): Promise<void>
}

/** The order is marked, the effect noted and the receipt enqueued in one commit; an order that is marked has been shipped. */
const ship: Effect = {
  name: 'ship',
  type: 'order',
  async have(job, { product, receipt, moment }) {
    const order = job.payload.name
    await product.transaction(async ({ tx, run }) => {
      if ((await run('UPDATE soak_orders SET shipped = 1 WHERE id = ? AND shipped = 0', order)) === 0) return
      await run('INSERT INTO soak_effects (effect, job_id) VALUES (?, ?)', 'ship', job.id)
      await receipt(order, tx)
      moment('effect written')
    })
    moment('effect committed')
  },
}

/** The job ends in the product's own transaction. */
const charge: Effect = {
  name: 'charge',
  type: 'charge',
  completes: true,
  async have(job, { product, moment }) {
    await product.transaction(async ({ tx, run }) => {
      await run('INSERT INTO soak_effects (effect, job_id) VALUES (?, ?)', 'charge', job.id)
      await job.complete(tx, job.payload.name)
      moment('effect written')
    })
    moment('effect committed')
  },
}

/** In a transaction of the queue's own, which a later attempt finds done. */
const credit: Effect = {
  name: 'credit',
  type: 'credit',
  async have(job, { product, moment }) {
    await job.transaction('credit', (tx) => {
      const noted = product.note(tx, 'credit', job.id)
      moment('effect written')
      return noted
    })
    moment('effect committed')
  },
}

export const EFFECTS: readonly Effect[] = [ship, charge, credit]
