/** What a hook shows, outside of React: it subscribes to the client when its component is mounted. */
import type { JobsClient, JobsError } from '../client/index.js'
import type { Handle } from '../client/handle.js'

export interface Shown<Value> {
  value: Value
  error: JobsError | undefined
  isLive: boolean
}

/** What is told beside the values. */
export interface On {
  onError: (error: JobsError) => void
  onConnection: (isLive: boolean) => void
}

export interface ShownStore<Value> {
  subscribe(changed: () => void): () => void
  get(): Shown<Value>
}

/** `watch` begins to show values, and answers with what ends that. */
export function createStore<Value>(
  handle: Handle,
  first: Value,
  watch: (client: JobsClient, show: (value: Value) => void, on: On) => () => void,
): ShownStore<Value> {
  let shown: Shown<Value> = { value: first, error: undefined, isLive: true }
  return {
    get: () => shown,
    subscribe(changed) {
      const { client, giveBack } = handle.use()
      const set = (next: Shown<Value>): void => {
        shown = next
        changed()
      }
      // Of a connection from before; of this one it hears anew.
      if (!shown.isLive) set({ ...shown, isLive: true })
      const stop = watch(client, (value) => set({ ...shown, value, error: undefined }), {
        onError: (error) => set({ ...shown, error }),
        onConnection: (isLive) => set({ ...shown, isLive }),
      })
      return () => {
        stop()
        giveBack()
      }
    },
  }
}
