/**
 * Which client a hook or an element uses. Those with the same path, language and `getToken` share one, which is there while one of them is. A
 * `getToken` that is written in the component is another one each time that it renders: the hook keeps its client, and asks the latest.
 */
import { jobsClient, type JobsClient, type JobsClientOptions } from './client.js'

export type GetToken = JobsClientOptions['getToken']

export interface ClientOptions {
  path?: string | undefined
  locale?: 'en' | 'zh' | undefined
  getToken?: GetToken
}

/** A client, as long as somebody uses it. Nothing happens before. */
export interface Handle {
  /** Whoever uses it gives it back. */
  use(): { client: JobsClient; giveBack: () => void }
  getToken: GetToken
  /** The latest that it gave. */
  token: string | null | undefined
}

/** A client that is somebody else's to close. */
export function lent(client: JobsClient): Handle {
  return { use: () => ({ client, giveBack: () => {} }), getToken: undefined, token: undefined }
}

const byFunction = new WeakMap<NonNullable<GetToken>, Map<string, Handle>>()
const byCookie = new Map<string, Handle>()

export function handleOf({ path, locale, getToken }: ClientOptions): Handle {
  let handles = getToken ? byFunction.get(getToken) : byCookie
  if (getToken && !handles) byFunction.set(getToken, (handles = new Map<string, Handle>()))
  const key = `${path ?? ''} ${locale ?? ''}`
  let handle = handles!.get(key)
  if (!handle) handles!.set(key, (handle = createHandle({ path, locale, getToken })))
  return handle
}

function createHandle({ path, locale, getToken }: ClientOptions): Handle {
  let users = 0
  let client: JobsClient | undefined
  const handle: Handle = {
    getToken,
    token: undefined,
    use() {
      users++
      client ??= jobsClient({
        ...(path !== undefined && { path }),
        ...(locale && { locale }),
        ...(getToken && { getToken: async (ids) => (handle.token = await handle.getToken!(ids)) }),
      })
      return { client, giveBack }
    },
  }
  return handle

  function giveBack(): void {
    users--
    // A component that is mounted anew in the same moment, as in StrictMode, goes on with what there is.
    queueMicrotask(() => {
      if (users > 0) return
      client?.close()
      client = undefined
    })
  }
}
