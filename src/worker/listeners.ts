/** Who wants to know what becomes of a worker's jobs, and the count of it. */
import type { Logger } from '../logger.js'
import type { ClaimSettlement } from './maintenance.js'
import type { AttemptFacts, WorkerEvents } from './options.js'

type Listener<Name extends keyof WorkerEvents> = (event: WorkerEvents[Name]) => void

export class Listeners {
  readonly totals = { succeeded: 0, failed: 0, retrying: 0, canceled: 0 }
  readonly #logger: Logger
  readonly #listeners: { [Name in keyof WorkerEvents]: Listener<Name>[] } = {
    succeeded: [],
    retrying: [],
    failed: [],
    canceled: [],
    lease_lost: [],
    error: [],
  }
  readonly #warnedOf: Set<string>

  /** `warnedOf`: the types that their owner has been warned about, by whichever worker of the queue. */
  constructor(logger: Logger, warnedOf: Set<string>) {
    this.#logger = logger
    this.#warnedOf = warnedOf
  }

  add<Name extends keyof WorkerEvents>(name: Name, listener: Listener<Name>): void {
    this.#listeners[name].push(listener)
  }

  emit<Name extends keyof WorkerEvents>(name: Name, event: WorkerEvents[Name]): void {
    for (const listener of this.#listeners[name]) {
      try {
        // A listener may be asynchronous, whatever its type says.
        const returned: unknown = listener(event)
        if (returned instanceof Promise) returned.catch((error: unknown) => this.#complain(name, error))
      } catch (error) {
        this.#complain(name, error)
      }
    }
  }

  #complain(event: string, err: unknown): void {
    this.#logger.error({ err, event }, 'a listener of the worker threw')
  }

  /** A settlement has been written. */
  settled({ row, settlement }: ClaimSettlement): void {
    const facts: AttemptFacts = { id: row.id, type: row.type, attempt: row.attempts }
    this.totals[settlement.status]++
    switch (settlement.status) {
      case 'succeeded':
      case 'canceled':
        return this.emit(settlement.status, facts)
      case 'failed':
        return this.emit('failed', { ...facts, code: settlement.entry.code, message: settlement.entry.message })
      case 'retrying': {
        const { delayMs, entry, invalidBackoff } = settlement
        if (invalidBackoff) this.#warnOfBackoff(row.type)
        return this.emit('retrying', {
          ...facts,
          delayMs: delayMs ?? 0,
          code: entry?.code ?? null,
          message: entry?.message ?? null,
        })
      }
    }
  }

  /** Once for each type. */
  #warnOfBackoff(type: string): void {
    if (this.#warnedOf.has(type)) return
    this.#warnedOf.add(type)
    this.#logger.warn({ type }, 'the backoff of this type threw or returned no number of milliseconds; the default was used')
  }
}
