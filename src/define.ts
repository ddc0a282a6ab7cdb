/**
 * A defined type, as its users hold it: the contract made ready, and the three things that can be done with it.
 */
import { JobtableError } from './errors.js'
import type { JobFile } from './files.js'
import type { Job } from './job.js'
import { prepareType, type AnyTypeOptions, type Handler, type PreparedType, type ResultCheck } from './job-type.js'
import type { EnqueueOptions } from './producer.js'

/** What an enqueue answers. */
export interface EnqueueResult<Result> {
  job: Job<Result>
  /** Whether a job that was there already answers for this enqueue; nothing new was stored then. */
  duplicate: boolean
}

/** A defined type: enqueue it, or give it its handler. */
export interface JobType<Input, Payload, Result, Stage extends string = string> {
  readonly name: string
  /** Stores the job; has it durably when the promise resolves, or with `tx` when that commits. */
  enqueue(payload: Input, options?: EnqueueOptions): Promise<EnqueueResult<Result>>
  /**
   * Stores many in one commit and answers in order. A payload that is refused rejects the call before anything is stored; an
   * `idempotency_conflict` or a taken id rejects it after the others were stored.
   */
  enqueueMany(
    payloads: readonly Input[],
    options?: EnqueueOptions | ((payload: Input, index: number) => EnqueueOptions),
  ): Promise<EnqueueResult<Result>[]>
  /** Gives the type its handler, once; for workers that are defined apart from their contract. */
  handle<Returned extends Result>(
    // Where the contract says nothing of the result, the compiler looks at what is returned.
    run:
      | (Handler<Payload, unknown extends Result ? Returned : Result, Stage> &
          (ResultCheck<Returned> extends true ? unknown : ResultCheck<Returned>))
      | URL,
  ): void
}

/** What a handler returns where its contract does not say. */
export type DefaultResult<Idempotency> = Idempotency extends { onDuplicate: 'return_existing_file' } ? JobFile : unknown

/** How the queue enqueues by name. */
export interface Enqueues {
  one(payload: unknown, options: EnqueueOptions | undefined): Promise<EnqueueResult<unknown>>
  many(payloads: readonly unknown[], optionsOf: (index: number) => EnqueueOptions | undefined): Promise<EnqueueResult<unknown>[]>
}

/** Adds the type to those of its queue. */
export function addType(
  types: Map<string, PreparedType>,
  name: string,
  options: AnyTypeOptions,
  enqueues: Enqueues,
): JobType<unknown, unknown, unknown> {
  const type = prepareType(name, options)
  if (types.has(name)) {
    throw new JobtableError('type_defined_twice', `the job type ${name} is defined twice: import the first definition instead`, {
      data: { type: name },
    })
  }
  types.set(name, type)
  return {
    name,
    enqueue: (payload, enqueueOptions) => enqueues.one(payload, enqueueOptions),
    enqueueMany: (payloads, enqueueOptions) =>
      enqueues.many(
        payloads,
        typeof enqueueOptions === 'function' ? (i) => enqueueOptions(payloads[i], i) : () => enqueueOptions,
      ),
    handle: (run) => {
      if (type.handler) {
        throw new JobtableError('type_defined_twice', `the job type ${name} has a handler already`, { data: { type: name } })
      }
      type.handler = type.toHandler(run)
    },
  }
}
