/** A browser with tabs: Web Locks as their specification has them, where Node has none, and pages that the test shows and hides. */
import { onTestFinished } from 'vitest'
import { browser, type Environment, type Locks } from '../../src/client/environment.js'

interface Request {
  holding: (lock: unknown) => unknown
  grant: () => void
  steal: () => void
}

/** https://w3c.github.io/web-locks/: one holder of each name, a line of those who wait, and stealing. Exclusive locks only. */
export class LockManager implements Locks {
  readonly #held = new Map<string, Request>()
  readonly #waiting = new Map<string, Request[]>()

  request(name: string, options: Parameters<Locks['request']>[1], holding: (lock: unknown) => unknown): Promise<unknown> {
    if (options.signal && (options.ifAvailable || options.steal)) return Promise.reject(new DOMException('', 'NotSupportedError'))
    if (options.signal?.aborted) return Promise.reject(new DOMException('', 'AbortError'))
    return new Promise((resolve, reject) => {
      const line = this.#lineOf(name)
      const request: Request = {
        holding,
        grant: () => {
          this.#held.set(name, request)
          // As in a browser, the page hears of it later.
          queueMicrotask(() => {
            void (async () => holding({ name, mode: 'exclusive' }))()
              .then(resolve, reject)
              .finally(() => {
                if (this.#held.get(name) === request) this.#next(name)
              })
          })
        },
        steal: () => reject(new DOMException('stolen', 'AbortError')),
      }
      if (options.steal) {
        this.#held.get(name)?.steal()
        request.grant()
      } else if (!this.#held.has(name)) {
        request.grant()
      } else if (options.ifAvailable) {
        queueMicrotask(() => void (async () => holding(null))().then(resolve, reject))
      } else {
        line.push(request)
        options.signal?.addEventListener('abort', () => {
          const place = line.indexOf(request)
          if (place === -1) return // It was granted before.
          line.splice(place, 1)
          reject(new DOMException('aborted', 'AbortError'))
        })
      }
    })
  }

  #lineOf(name: string): Request[] {
    let line = this.#waiting.get(name)
    if (!line) this.#waiting.set(name, (line = []))
    return line
  }

  #next(name: string): void {
    this.#held.delete(name)
    this.#lineOf(name).shift()?.grant()
  }
}

/** A page's surroundings. It dies without a word when it is killed, and is deaf while it is frozen. */
export class Tab {
  readonly environment: Environment
  readonly timers = new Set<{ ms: number; run: () => void }>()
  /** The names of the channels that it has opened. */
  readonly channels: string[] = []
  isVisible = true
  isFrozen = false
  #heard: ((event: string) => void) | undefined
  readonly #channels = new Set<{ close(): void }>()
  #set = (): void => {}
  readonly #death = new AbortController()

  constructor(locks: Locks | undefined) {
    const real = browser(undefined)
    const { signal } = this.#death
    const death = new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()))
    this.environment = {
      ...real,
      fetch: (input, init) =>
        real.fetch(input, { ...init, signal: AbortSignal.any([signal, ...(init?.signal ? [init.signal] : [])]) }),
      locks: locks && {
        request: (name, options, holding) => locks.request(name, options, (lock) => Promise.race([holding(lock), death])),
      },
      openChannel: (name, heard) => {
        const channel = real.openChannel!(name, (message) => {
          if (!this.isFrozen) heard(message)
        })
        this.#channels.add(channel)
        this.channels.push(name)
        return {
          postMessage: (message) => {
            if (!this.isFrozen) channel.postMessage(message)
          },
          close: () => channel.close(),
        }
      },
      isVisible: () => this.isVisible,
      listen: (heard, until) => {
        this.#heard = heard
        until.addEventListener('abort', () => (this.#heard = undefined))
      },
      after: (ms, run) => {
        const timer = { ms, run }
        this.timers.add(timer)
        this.#set()
        return () => void this.timers.delete(timer)
      },
    }
    onTestFinished(() => {
      for (const channel of this.#channels) channel.close()
    })
  }

  fire(event: string): void {
    if (!this.isFrozen) this.#heard?.(event)
  }
  /** The browser ends it, with its locks and connections. */
  kill(): void {
    this.isFrozen = true
    for (const channel of this.#channels) channel.close()
    this.#channels.clear()
    this.#death.abort()
  }
  show(): void {
    this.isVisible = true
    this.fire('visibilitychange')
  }
  hide(): void {
    this.isVisible = false
    this.fire('visibilitychange')
  }

  /** Resolves once the page waits for so long before it does something, with the length in milliseconds. */
  async waits(is: (ms: number) => boolean): Promise<number> {
    for (;;) {
      const timer = [...this.timers].find(({ ms }) => is(ms))
      if (timer) return timer.ms
      await new Promise<void>((resolve) => (this.#set = resolve))
    }
  }

  /** Runs the timers that wait for so long, in milliseconds, or no longer. */
  pass(ms: number): void {
    for (const timer of [...this.timers]) {
      if (timer.ms > ms || !this.timers.delete(timer)) continue
      timer.run()
    }
  }
}
