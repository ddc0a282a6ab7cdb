/** What the client needs of a browser. Where there is no page, or no locks, it does without. */

/** Of the Web Locks API, what is used. */
export interface Locks {
  request(
    name: string,
    options: { ifAvailable?: boolean; steal?: boolean; signal?: AbortSignal },
    holding: (lock: unknown) => unknown,
  ): Promise<unknown>
}

export interface Channel {
  postMessage(message: unknown): void
  onmessage: ((event: { data: unknown }) => void) | null
  close(): void
}

export interface Environment {
  fetch: typeof fetch
  /** Undefined where tabs cannot share a connection. */
  locks: Locks | undefined
  openChannel: ((name: string) => Channel) | undefined
  isVisible(): boolean
  /** Calls at `visibilitychange`, `pageshow`, `pagehide` and `online`; the function that it returns ends that. */
  listen(heard: (event: string) => void): () => void
  /** The function that it returns calls it off. Milliseconds. */
  after(ms: number, then: () => void): () => void
  random(): number
}

interface Target {
  addEventListener?(name: string, heard: (event: { type: string }) => void): void
  removeEventListener?(name: string, heard: (event: { type: string }) => void): void
}
type Browser = Target & {
  document?: Target & { visibilityState: string }
  navigator?: { locks?: Locks }
  BroadcastChannel?: new (name: string) => unknown
}

export function browser(own: typeof fetch | undefined): Environment {
  const here = globalThis as unknown as Browser
  const { document, navigator, BroadcastChannel } = here
  return {
    fetch: own ?? ((input, init) => fetch(input, init)),
    locks: navigator?.locks,
    openChannel: BroadcastChannel && ((name) => new BroadcastChannel(name) as Channel),
    isVisible: () => document?.visibilityState !== 'hidden',
    listen(heard) {
      const hear = ({ type }: { type: string }): void => heard(type)
      document?.addEventListener?.('visibilitychange', hear)
      for (const name of ['pageshow', 'pagehide', 'online']) here.addEventListener?.(name, hear)
      return () => {
        document?.removeEventListener?.('visibilitychange', hear)
        for (const name of ['pageshow', 'pagehide', 'online']) here.removeEventListener?.(name, hear)
      }
    },
    after(ms, then) {
      const timer = setTimeout(then, ms)
      return () => clearTimeout(timer)
    },
    random: Math.random,
  }
}
