/**
 * Work that waits only where it must. A generator yields, by `yield* wait(...)`, what may be a promise; where nothing was one, all
 * of it has happened when `atOnce` returns. A synchronous transaction needs that: it is over when its function returns.
 */
export type Waiting<T> = Generator<unknown, T, never>

export function* wait<T>(value: T | Promise<T>): Generator<T | Promise<T>, T, T> {
  return yield value
}

/** `onWait` is called before the first wait, and may throw. */
export function atOnce<T>(work: Waiting<T>, onWait?: () => void): T | Promise<T> {
  let step = work.next()
  while (!step.done) {
    if (step.value instanceof Promise) {
      onWait?.()
      return goOn(work, step.value)
    }
    step = work.next(step.value as never)
  }
  return step.value
}

async function goOn<T>(work: Waiting<T>, first: Promise<unknown>): Promise<T> {
  let step = work.next((await first) as never)
  while (!step.done) step = work.next((await step.value) as never)
  return step.value
}
