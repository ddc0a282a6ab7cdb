/** What the tests of effects share: a job that is run attempt by attempt, and a provider that counts. */
import { z } from 'zod'
import type { Job, JobContext, Queue } from '../../src/index.js'
import type { AnyPlace } from '../faults/support/databases.js'
import type { PlaceOptions } from '../faults/support/place.js'

export type Run = (job: JobContext<Record<string, unknown>>) => unknown

export interface OneType {
  queue: Queue
  enqueue(options?: object): Promise<Job>
  /** Runs what is due, until nothing is. */
  drain(): Promise<void>
}

const options = {
  payload: z.record(z.string(), z.unknown()),
  idempotency: { key: () => ['order', 7], onDuplicate: 'return_previous_result' },
  // Every attempt is due at once.
  retry: { backoff: () => 0, jitter: false, maxAttempts: 5 },
} as const

export function defineJob(
  place: AnyPlace,
  run: Run,
  { type = {}, ...queueOptions }: PlaceOptions & { type?: object } = {},
): OneType {
  const queue = place.queue(queueOptions)
  queue.define('charge', { ...options, ...type, run } as never)
  return {
    queue,
    enqueue: async () => (await queue.enqueue('charge', {})).job,
    drain: async () => void (await queue.drain()),
  }
}

/** A provider that does each call, whatever its key, and counts. */
export class Provider {
  readonly calls: { key: string; body: unknown }[] = []

  get keys(): string[] {
    return [...new Set(this.calls.map(({ key }) => key))]
  }

  call(body: unknown, key: string): { receipt: number } {
    this.calls.push({ key, body })
    return { receipt: this.calls.length }
  }
}

/** An error as fetch-like libraries throw it for an answer with this status. */
export function answered(status: number): Error {
  return Object.assign(new Error(`the provider answered ${status}`), { status })
}

/** As Node says that a connection broke after the request was sent. */
export function brokenOff(): Error {
  return Object.assign(new Error('socket hang up'), { code: 'ECONNRESET' })
}
