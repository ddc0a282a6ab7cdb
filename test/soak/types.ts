/** The job types of the soak, and what their handlers do. */
import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import { JobAborted, PermanentError, TransientError, type JobContext, type JobType, type Queue } from '../../src/index.js'
import { EFFECTS, type EffectEnv } from './effects.js'
import type { LedgerWriter, Moment } from './ledger.js'
import type { Product } from './product.js'

const work = z.object({
  /** The key of a keyed job, the id of an order; of others, whatever tells them apart. */
  name: z.string(),
  /** How long the handler takes. Milliseconds. */
  ms: z.number(),
  /** `stumble`: the first attempt throws. `fail`: each does, for good. */
  end: z.enum(['return', 'stumble', 'fail']).optional(),
  /** Lets nothing else in its process have a turn meanwhile. */
  block: z.boolean().optional(),
})
export type Work = z.infer<typeof work>

export interface SoakTypes {
  plain: JobType<Work, Work, string>
  keyed: JobType<Work, Work, string>
  order: JobType<Work, Work, string>
  receipt: JobType<Work, Work, string>
  charge: JobType<Work, Work, string>
  credit: JobType<Work, Work, string>
}

/** What kills a worker a hundred times may be just this: no job of the soak is to fail for it. Waits are short, so that a run is. */
const RETRY = { maxAttempts: 1_000, backoff: { base: '100ms' }, maxDelay: '1s' } as const

export function defineTypes(queue: Queue): SoakTypes {
  const keyed = {
    payload: work,
    idempotency: { key: ['name'], onDuplicate: 'return_previous_result', compare: 'key' },
    retry: RETRY,
  } as const
  return {
    plain: queue.define('plain', { payload: work, idempotency: { none: 'each one is counted' }, retry: RETRY }),
    keyed: queue.define('keyed', keyed),
    order: queue.define('order', keyed),
    receipt: queue.define('receipt', keyed),
    charge: queue.define('charge', keyed),
    credit: queue.define('credit', keyed),
  }
}

export interface HandlerEnv {
  ledger: LedgerWriter
  product: Product
  moment(moment: Moment): void
}

export function handleTypes(types: SoakTypes, { ledger, product, moment }: HandlerEnv): void {
  const effectEnv: EffectEnv = { product, moment, receipt: (name, tx) => types.receipt.enqueue({ name, ms: 0 }, { tx }) }
  const run = async (job: JobContext<Work>): Promise<string> => {
    const { id, type, attempt } = job
    ledger.write({ what: 'started', id, type, attempt })
    try {
      await perform(job)
      for (const effect of EFFECTS) {
        if (effect.type !== type) continue
        await effect.have(job, effectEnv)
        ledger.write({ what: 'effect', effect: effect.name, id })
      }
    } catch (error) {
      ledger.write({ what: 'ended', id, attempt, how: isLost(job.signal) ? 'lost' : 'threw' })
      throw error
    }
    ledger.write({ what: 'ended', id, attempt, how: 'returned' })
    moment('handler ended')
    return job.payload.name
  }
  for (const type of Object.values<JobType<Work, Work, string>>({ ...types })) type.handle(run)
}

async function perform({ payload: { ms, end, block }, attempt, signal }: JobContext<Work>): Promise<void> {
  if (block) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
  else if (ms > 0) await sleep(ms, undefined, { signal })
  if (end === 'fail') throw new PermanentError('this job was made to fail')
  if (end === 'stumble' && attempt === 1) throw new TransientError('this job was made to stumble')
}

/** Its job is somebody else's by now. */
function isLost({ reason }: AbortSignal): boolean {
  return reason instanceof JobAborted && reason.reason === 'lease_lost'
}
