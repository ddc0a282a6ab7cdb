import {
  createContext,
  createElement,
  useCallback,
  useContext,
  useEffect,
  useMemo,
  useSyncExternalStore,
  type ReactElement,
  type ReactNode,
} from 'react'
import type { JobsClient, JobsError, PublicJob, StreamedText } from '../client/index.js'
import { handleOf, lent, type ClientOptions, type Handle } from '../client/handle.js'
import { createStore, type Shown, type ShownStore } from './store.js'

const Jobs = createContext<JobsClient | undefined>(undefined)

/** The client that the hooks below use, instead of one of their own. It stays yours to close. */
export function JobsProvider({ client, children }: { client: JobsClient; children?: ReactNode }): ReactElement {
  return createElement(Jobs.Provider, { value: client }, children)
}

/** Where jobs are read from. A `JobsProvider` above the component says it for all of its hooks, which then need none of these. */
export type HookOptions = ClientOptions

export interface UseJobOptions extends HookOptions {
  /** What the server has rendered: shown at first, and on the server, until something newer is known. */
  initial?: PublicJob | undefined
}

export interface UsedJob {
  /** The newest snapshot; undefined until there is one. */
  job: PublicJob | undefined
  /** Why nothing more comes. */
  error: JobsError | undefined
  /** False while the connection is lost, and is tried again. */
  isLive: boolean
  /** Asks for the cancellation; see `JobsClient.cancel`. */
  cancel: () => Promise<PublicJob>
  /** The address of the job's file, for a link; see `JobsClient.fileUrl`. */
  fileUrl: () => Promise<string>
}

/** A job, live. Without an id nothing is read. On the server it is `initial` alone. */
export function useJob(id: string | null | undefined, options: UseJobOptions = {}): UsedJob {
  const { initial } = options
  const handle = useHandle(options)
  const store = useMemo(
    () =>
      createStore<PublicJob | undefined>(handle, undefined, (client, show, on) =>
        id ? client.watch(id, show, { ...on, ...(initial?.id === id && { initial }) }) : nothing,
      ),
    [handle, id], // Another `initial` is no reason to subscribe anew.
  )
  const { value, error, isLive } = useShown(store)
  const rendered = initial?.id === id ? initial : undefined
  const job = !value || (rendered && rendered.rev > value.rev) ? rendered : value
  const cancel = useCallback(() => using(handle, (client) => client.cancel(known(id))), [handle, id])
  const fileUrl = useCallback(() => using(handle, (client) => client.fileUrl(known(id))), [handle, id])
  return { job, error, isLive, cancel, fileUrl }
}

export interface UsedJobStream extends Omit<StreamedText, 'offset'> {
  /** Why nothing more comes. */
  error: JobsError | undefined
  /** False while the connection is lost, and is tried again. */
  isLive: boolean
}

const EMPTY: StreamedText = { text: '', offset: 0, attempt: 0, done: false, final: false }

/** The text of one of a job's streams, live: all of it so far. Without an id nothing is read, nor on the server. */
export function useJobStream(id: string | null | undefined, name: string, options: HookOptions = {}): UsedJobStream {
  const handle = useHandle(options)
  const store = useMemo(
    () => createStore(handle, EMPTY, (client, show, on) => (id ? client.stream(id, name, show, on) : nothing)),
    [handle, id, name],
  )
  const { value, error, isLive } = useShown(store)
  const { text, attempt, done, final } = value
  return { text, attempt, done, final, error, isLive }
}

function useHandle({ path, locale, getToken }: ClientOptions): Handle {
  const client = useContext(Jobs)
  // The first `getToken` says with whom to share; the latest is asked.
  const handle = useMemo(() => (client ? lent(client) : handleOf({ path, locale, getToken })), [client, path, locale])
  useEffect(() => {
    handle.getToken = getToken
  }, [handle, getToken])
  return handle
}

function useShown<Value>(store: ShownStore<Value>): Shown<Value> {
  return useSyncExternalStore(store.subscribe, store.get, store.get)
}

async function using<Value>(handle: Handle, ask: (client: JobsClient) => Promise<Value>): Promise<Value> {
  const { client, giveBack } = handle.use()
  try {
    return await ask(client)
  } finally {
    giveBack()
  }
}

function known(id: string | null | undefined): string {
  if (id) return id
  throw new TypeError('there is no job: the hook was given no id')
}

function nothing(): void {}
