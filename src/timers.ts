/** The longest that a timer can wait; a longer wait would fire at once. Milliseconds, about 24 days. */
export const LONGEST_TIMER_MS = 2_147_483_647

/** Repeated passes that do not overlap, and pauses, all of which end together. */
export class Timers {
  readonly #timers = new Set<NodeJS.Timeout>()
  readonly #sleepers = new Set<() => void>()
  readonly #background: boolean
  #closed = false

  /** In the background they do not keep the process alive. */
  constructor({ background = false }: { background?: boolean } = {}) {
    this.#background = background
  }

  get closed(): boolean {
    return this.#closed
  }

  /** Runs the pass again and again, `ms` after the last one has ended, or `againMs` when it threw, of which `onError` hears. */
  every(ms: number, pass: () => Promise<void> | void, onError: (error: unknown) => void, againMs = ms): void {
    const arm = (restMs: number): void => {
      if (this.#closed) return
      const timer = setTimeout(
        () => {
          this.#timers.delete(timer)
          void run()
        },
        Math.min(restMs, LONGEST_TIMER_MS),
      )
      this.#add(timer)
    }
    const run = async (): Promise<void> => {
      let restMs = ms
      try {
        await pass()
      } catch (error) {
        restMs = againMs
        onError(error)
      }
      arm(restMs)
    }
    arm(ms)
  }

  /** Resolves after `ms`, or when everything is closed. */
  sleep(ms: number): Promise<void> {
    if (this.#closed) return Promise.resolve()
    return new Promise((resolve) => {
      const end = (): void => {
        clearTimeout(timer)
        this.#timers.delete(timer)
        this.#sleepers.delete(end)
        resolve()
      }
      const timer = setTimeout(end, Math.min(ms, LONGEST_TIMER_MS))
      this.#add(timer)
      this.#sleepers.add(end)
    })
  }

  /** Calls back when everything is closed, at once if it is already; the answer takes that back. */
  onClose(callback: () => void): () => void {
    if (this.#closed) callback()
    else this.#sleepers.add(callback)
    return () => void this.#sleepers.delete(callback)
  }

  #add(timer: NodeJS.Timeout): void {
    if (this.#background) timer.unref()
    this.#timers.add(timer)
  }

  close(): void {
    this.#closed = true
    for (const timer of this.#timers) clearTimeout(timer)
    this.#timers.clear()
    for (const end of this.#sleepers) end()
  }
}

/** Something that happens once, and can be waited for. */
export function signal(): { promise: Promise<void>; resolve(): void } {
  let resolve!: () => void
  const promise = new Promise<void>((done) => (resolve = done))
  return { promise, resolve }
}

/** Rejects when the promise is not settled in time, with what `late` makes. */
export async function within<T>(
  ms: number,
  promise: Promise<T>,
  late = (): Error => new Error(`not done within ${ms} ms`),
): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const tooLate = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(late()), ms)
  })
  try {
    return await Promise.race([promise, tooLate])
  } finally {
    clearTimeout(timer)
    promise.catch(() => {}) // If it fails after all, nobody waits for it any more.
  }
}
