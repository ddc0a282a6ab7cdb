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
  /** Calls at `visibilitychange`, `pageshow`, `pagehide` and `online`; the function that it returns ends that. */
  listen(heard: (event: string) => void): () => void
  /** The function that it returns calls it off. Milliseconds. */
  after(ms: number, run: () => void): () => void
  random(): number
}

interface Target {
  addEventListener?(name: string, heard: (event: { type: string }) => void): void
  removeEventListener?(name: string, heard: (event: { type: string }) => void): void
}
interface Browser extends Target {
  document?: { visibilityState: string }
  navigator?: { locks?: Locks }
  BroadcastChannel?: new (name: string) => Channel & {
    addEventListener(name: 'message', heard: (event: { data: unknown }) => void): void
  }
}

const EVENTS = ['visibilitychange', 'pageshow', 'pagehide', 'online']

export function browser(own: typeof fetch | undefined): Environment {
  const here = globalThis as unknown as Browser
  const { document, BroadcastChannel } = here
  // The first is an event of the document, which the window hears of too.
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
    listen(heard) {
      const hear = ({ type }: { type: string }): void => heard(type)
      for (const name of EVENTS) here.addEventListener?.(name, hear)
      return () => {
        for (const name of EVENTS) here.removeEventListener?.(name, hear)
      }
    },
    after(ms, run) {
      const timer = setTimeout(run, ms)
      return () => clearTimeout(timer)
    },
    random: Math.random,
  }
}
