/** What the client needs of a browser. Where there is no page, or no locks, it does without. */

/** Of the Web Locks API, what is used. */
export interface Locks {
  request(
    name: string,
    options: { ifAvailable?: boolean; steal?: boolean; signal?: AbortSignal },
    holding: (lock: unknown) => unknown,
  ): Promise<unknown>
}

/** A `BroadcastChannel`, as far as it is used. */
export interface Channel {
  postMessage(message: unknown): void
  close(): void
}

export interface Environment {
  fetch: typeof fetch
  /** Undefined where tabs cannot share a connection. */
  locks: Locks | undefined
  openChannel: ((name: string, heard: (message: unknown) => void) => Channel) | undefined
  isVisible(): boolean
  /** Tells of `visibilitychange`, `pageshow`, `pagehide` and `online`, until the signal aborts. */
  listen(heard: (event: string) => void, signal: AbortSignal): void
  /** The function that it returns calls it off. Milliseconds. */
  after(ms: number, run: () => void): () => void
  random(): number
}

interface Browser {
  addEventListener?(name: string, heard: (event: { type: string }) => void, options: { signal: AbortSignal }): void
  document?: { visibilityState: string }
  navigator?: { locks?: Locks }
  BroadcastChannel?: new (name: string) => Channel & {
    addEventListener(name: 'message', heard: (event: { data: unknown }) => void): void
  }
}

export function browser(own: typeof fetch | undefined): Environment {
  const here = globalThis as unknown as Browser
  const { document, BroadcastChannel } = here
  return {
    fetch: own ?? ((input, init) => fetch(input, init)),
    locks: here.navigator?.locks,
    openChannel:
      BroadcastChannel &&
      ((name, heard) => {
        const channel = new BroadcastChannel(name)
        channel.addEventListener('message', ({ data }) => heard(data))
        return channel
      }),
    isVisible: () => document?.visibilityState !== 'hidden',
    listen(heard, signal) {
      // The first is of the document, from which the window hears of it.
      for (const name of ['visibilitychange', 'pageshow', 'pagehide', 'online'])
        here.addEventListener?.(name, ({ type }) => heard(type), { signal })
    },
    after(ms, run) {
      const timer = setTimeout(run, ms)
      return () => clearTimeout(timer)
    },
    random: Math.random,
  }
}
