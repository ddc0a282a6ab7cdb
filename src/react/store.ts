/** What a hook shows, outside of React: it subscribes to the client when its component is mounted. */
import type { JobsClient, JobsError } from '../client/index.js'
import type { Handle } from '../client/handle.js'

export interface Shown<Value> {
  value: Value
  error: JobsError | undefined
}

export interface ShownStore<Value> {
  subscribe(changed: () => void): () => void
  get(): Shown<Value>
}

/** `watch` begins to show values, and answers with what ends that. */
export function createStore<Value>(
  handle: Handle,
  first: Value,
  watch: (client: JobsClient, show: (value: Value) => void, onError: (error: JobsError) => void) => () => void,
): ShownStore<Value> {
  let shown: Shown<Value> = { value: first, error: undefined }
  return {
    get: () => shown,
    subscribe(changed) {
      const { client, giveBack } = handle.use()
      const set = (next: Shown<Value>): void => {
        shown = next
        changed()
      }
      const stop = watch(
        client,
        (value) => set({ value, error: undefined }),
        (error) => set({ ...shown, error }),
      )
      return () => {
        stop()
        giveBack()
      }
    },
  }
}
