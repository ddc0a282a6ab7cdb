/**
 * What a handler has begun of its steps, effects and transactions, and what has become of it. An attempt is settled only when all of it has
 * ended and is recorded, however the handler ended: else what is known of an effect would be thrown away, and its job be held for nothing.
 *
 *   handler returned ──> waits, also for what is begun meanwhile ──> fails by what nobody has awaited and what failed
 *   handler threw ─────> waits, and lets nothing new begin ────────> fails by what it threw
 *
 * How long it may take is not decided here: once the signal is aborted, the attempt is cut off as ever.
 */
import { setImmediate as turn } from 'node:timers/promises'
import { describeError } from '../classify/describe.js'
import { claimLost } from './log.js'

interface Begun {
  /** Such as `step make`. */
  what: string
  promise: Followed<unknown>
  failure?: { error: unknown }
}

/** Knows whether somebody awaits it, and is never an unhandled rejection: the attempt fails by it instead. */
class Followed<Value> extends Promise<Value> {
  heard = false

  /** What follows from it is an ordinary promise. */
  static override get [Symbol.species](): PromiseConstructor {
    return Promise
  }

  // oxlint-disable-next-line unicorn/no-thenable -- a promise has one, and it is how one hears that somebody awaits it
  override then<A = Value, B = never>(
    onDone?: ((value: Value) => A | PromiseLike<A>) | null,
    onFailed?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    this.heard = true
    return super.then(onDone, onFailed)
  }

  /** Without being taken for somebody who awaits it. */
  watch(onDone: () => void, onFailed: (error: unknown) => void): void {
    void super.then(onDone, onFailed)
  }
}

export class InFlight {
  readonly #running = new Set<Begun>()
  /** Of which nobody may have heard. */
  readonly #failed: Begun[] = []
  readonly #warn: (message: string) => void
  #handler: 'running' | 'returned' | 'threw' = 'running'

  constructor(warn: (message: string) => void) {
    this.#warn = warn
  }

  follow<Value>(what: string, begin: () => Promise<Value>): Promise<Value> {
    if (this.#handler === 'threw') return Promise.reject(claimLost(`the handler has thrown, and the ${what} is not begun`))
    const promise = new Followed<Value>((resolve, reject) => void begin().then(resolve, reject))
    const begun: Begun = { what, promise }
    this.#running.add(begun)
    promise.watch(
      () => this.#running.delete(begun),
      (error) => {
        this.#running.delete(begun)
        begun.failure = { error }
        if (this.#handler !== 'running' || !promise.heard) this.#failed.push(begun)
      },
    )
    return promise
  }

  /** Throws the error of what the handler has not awaited. */
  async handlerReturned(): Promise<void> {
    const left = [...this.#running]
    const unheard = this.#failed.filter(({ promise }) => !promise.heard)
    if (left.length > 0)
      this.#warn(`the handler returned before the end of ${namesOf(left)}, which is waited for: await it in the handler`)
    if (unheard.length > 0) this.#warn(`the handler returned without having awaited ${namesOf(unheard)}, which failed`)
    this.#failed.length = 0
    this.#handler = 'returned'
    await this.#ended()
    const [first] = [...unheard, ...this.#failed]
    if (first) throw first.failure!.error
  }

  async handlerThrew(): Promise<void> {
    this.#failed.length = 0
    this.#handler = 'threw'
    await this.#ended()
    for (const { what, failure } of this.#failed)
      this.#warn(`the ${what} failed too, after the handler had thrown: ${describeError(failure!.error).message}`)
  }

  async #ended(): Promise<void> {
    while (this.#running.size > 0) {
      await Promise.allSettled([...this.#running].map(({ promise }) => promise))
      // Whoever awaits one of them has gone on after this, and may have begun the next.
      await turn()
    }
  }
}

function namesOf(begun: readonly Begun[]): string {
  return `the ${begun.map(({ what }) => what).join(', the ')}`
}
