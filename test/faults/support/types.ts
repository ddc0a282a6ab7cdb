/** The job types that tests and their processes share. */
import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import { TransientError, type JobContext, type JobType, type Queue } from '../../../src/index.js'
import type { Act } from './messages.js'

/** A type without a say of its own. */
export const anything = { payload: z.unknown(), idempotency: { none: 'each one is another case' } } as const

/** Who wants to know what a handler does. */
export interface Witness {
  started(job: JobContext<{ name: string }>): void
  ended?(job: JobContext<{ name: string }>): void
  aborted?(job: JobContext<{ name: string }>, reason: string): void
}

const STEP_MS = 100
const act = z.object({
  name: z.string(),
  ms: z.number(),
  obey: z.boolean().optional(),
  block: z.boolean().optional(),
  end: z.enum(['return', 'throw']).optional(),
})

export interface SharedTypes {
  act: JobType<Act, Act, string>
  /** The same, within a second. */
  brief: JobType<Act, Act, string>
  /** Ends at once, and counts. */
  count: JobType<{ name: string }, { name: string }, null>
  /** Ends at once; one job per key. */
  keyed: JobType<{ key: number }, { key: number }, null>
}

export function defineTypes(queue: Queue, witness?: Witness): SharedTypes {
  const types: SharedTypes = {
    act: queue.define('act', {
      payload: act,
      idempotency: { none: 'each one is another act of the test' },
      retry: { backoff: { base: '100ms' }, jitter: false },
    }),
    brief: queue.define('brief', {
      payload: act,
      idempotency: { none: 'each one is another act of the test' },
      timeout: '1s',
      retry: { backoff: { base: '100ms' }, jitter: false },
    }),
    count: queue.define('count', {
      payload: z.object({ name: z.string() }),
      idempotency: { none: 'each one is counted' },
    }),
    keyed: queue.define('keyed', {
      payload: z.object({ key: z.number() }),
      idempotency: { key: ['key'], onDuplicate: 'return_previous_result' },
    }),
  }
  if (!witness) return types
  const run = async (job: JobContext<Act>): Promise<string> => {
    witness.started(job)
    job.signal.addEventListener('abort', () => witness.aborted?.(job, (job.signal.reason as { reason: string }).reason))
    const { ms, obey, block, end, name } = job.payload
    if (block) blockFor(ms)
    else await pass(ms, obey ? job.signal : undefined)
    witness.ended?.(job)
    if (end === 'throw') throw new TransientError('the test told this job to throw')
    return name
  }
  types.act.handle(run)
  types.brief.handle(run)
  types.count.handle((job) => {
    witness.started(job)
    return null
  })
  types.keyed.handle(() => null)
  return types
}

/** Lets nothing else in this thread have a turn. */
function blockFor(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}

/** In steps, as a handler works that awaits one thing after the other. */
async function pass(ms: number, signal: AbortSignal | undefined): Promise<void> {
  const end = performance.now() + ms
  for (let left = ms; left > 0; left = end - performance.now()) {
    await sleep(Math.min(STEP_MS, left), undefined, signal && { signal })
  }
}
