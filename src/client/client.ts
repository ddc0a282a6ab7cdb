import type { PublicJob } from '../http/public.js'
import { browser, type Environment } from './environment.js'
import { errorOf, JobsError } from './errors.js'
import { Known, type News, type StreamedText, type Want, type Watcher } from './known.js'
import { MOST } from './limits.js'
import { createReader, type Reader } from './reader.js'
import { createTabs, type Tabs } from './tabs.js'

export interface JobsClientOptions {
  /** Where the server's handler is: its `path`, after an origin if that is another. Default `/jobs`. */
  path?: string
  /**
   * A token for these jobs, made with `signToken`; asked for at every connection, so that it may be short-lived. Null where there is nobody
   * who may. Leave it out where the server decides by a cookie. It should be for all of the ids, which may be those of other tabs of the same user;
   * what the token is not for, the tab that shows it asks for itself. Throw, or reject, where there is none at the moment, such as after a 500 of
   * the product's server: that is waited out.
   */
  getToken?: (ids: readonly string[]) => string | null | Promise<string | null>
  /** The language of stages and messages. Default: as the browser says. */
  locale?: 'en' | 'zh'
  /** Default: the browser's own. */
  fetch?: typeof fetch
}

export interface WatchOptions {
  /** Why nothing more comes: access is refused, or there is no such job. Outages are waited out, and are no errors. */
  onError?: (error: JobsError) => void
  /** False when the connection is lost, and is tried again; true when it is back. It is not told of one that holds from the beginning. */
  onConnection?: (isLive: boolean) => void
  /** A snapshot that the page has already, such as one that came with its HTML. */
  initial?: PublicJob
}

export interface JobsClient {
  /**
   * Shows the newest snapshot that is known, at once where one is, and then each that is newer, until the job is over. The function that it
   * returns ends that.
   */
  watch(id: string, onJob: (job: PublicJob) => void, options?: WatchOptions): () => void
  /** Shows all that there is of a stream's text, and then each time that it has grown or was replaced, until the job is over. */
  stream(id: string, name: string, onText: (text: StreamedText) => void, options?: Omit<WatchOptions, 'initial'>): () => void
  /** The newest snapshot that is known of a job that is watched. */
  known(id: string): PublicJob | undefined
  /** The snapshot of now, from the server. Rejects with a `JobsError`, or as `fetch` does. */
  get(id: string): Promise<PublicJob>
  /** Asks for the cancellation; answers with the job after that, which has ended otherwise where it was too late. */
  cancel(id: string): Promise<PublicJob>
  /** The address of a job's file, for a link, with a token where there is one. It needs the action `download`. */
  fileUrl(id: string): Promise<string>
  /** Ends all that is watched, and the connection. */
  close(): void
}

/** Follows jobs on the server. Does nothing before something is asked of it, so that it can be made anywhere. */
export function jobsClient(options: JobsClientOptions = {}): JobsClient {
  return createClient(options, () => browser(options.fetch))
}

/** What a client has once something is asked of it. */
interface Live {
  environment: Environment
  tabs: Tabs
  readers: Reader[]
  end: AbortController
}

/** @internal As `jobsClient`, in any environment. */
export function createClient(options: JobsClientOptions, environmentOf: () => Environment): JobsClient {
  const { path = '/jobs', locale, getToken } = options
  const jobs = new Map<string, Known>()
  let live: Live | undefined
  let isChanging = false
  let isLive = true

  return {
    watch(id, onJob, { initial, ...on } = {}) {
      const known = knownOf(id)
      if (initial) known.take({ job: initial })
      if (known.job) onJob(known.job)
      return add(known, { ...on, name: undefined, show: onJob })
    },
    stream(id, name, onText, on) {
      const known = knownOf(id)
      const text = known.texts.get(name)
      if (text) onText({ ...text, offset: 0 })
      return add(known, { ...on, name, show: onText })
    },
    known: (id) => jobs.get(id)?.job,
    get: ask,
    cancel: (id) => ask(id, '/cancel', 'POST'),
    async fileUrl(id) {
      const token = await tokenFor([id])
      return addressOf(id, '/file') + (token ? `?token=${encodeURIComponent(token)}` : '')
    },
    close() {
      jobs.clear()
      if (!live) return
      live.end.abort()
      live.tabs.leave()
      update(live)
      live = undefined
    },
  }

  function add(known: Known, watcher: Watcher): () => void {
    known.watchers.add(watcher)
    if (!isLive) watcher.onConnection?.(isLive)
    start().tabs.join()
    changed()
    return () => {
      known.watchers.delete(watcher)
      changed()
    }
  }

  function start(): Live {
    if (live) return live
    const environment = environmentOf()
    const end = new AbortController()
    const readers: Reader[] = []
    const tabs = createTabs(environment, `jobtable ${path} ${locale ?? ''}`, {
      changed() {
        for (const known of jobs.values()) if (known.source === 'server') known.source = undefined
        changed()
      },
      wanted(wants) {
        for (const { id } of wants) tabs.tell(id, knownOf(id).all())
        changed()
      },
      told,
      live: connection,
      isLive: () => isLive,
      refused(ids) {
        for (const id of ids) if (jobs.has(id)) jobs.get(id)!.source = 'server'
        changed()
      },
    })
    environment.listen((event) => {
      if (event === 'pagehide') tabs.leave()
      else if (jobs.size > 0) tabs.join()
      if (event !== 'online') tabs.looked()
      if (environment.isVisible()) for (const reader of readers) reader.wake()
    }, end.signal)
    return (live = { environment, tabs, readers, end })
  }

  /** What is wanted, who leads or who may has changed. All that changes together is seen to together. */
  function changed(): void {
    if (isChanging) return
    isChanging = true
    queueMicrotask(() => {
      isChanging = false
      if (live) update(live)
    })
  }

  function update({ environment, tabs, readers }: Live): void {
    const others = new Set(tabs.others().map(({ id }) => id))
    for (const [id, known] of jobs) if (known.watchers.size === 0 && !others.has(id)) jobs.delete(id)
    tabs.want(wanted(({ source }) => source === 'leader'))
    while (partOf(readers.length).length > 0) readers.push(readerOf(readers.length, environment))
    for (const reader of readers) reader.update()
  }

  function readerOf(part: number, environment: Environment): Reader {
    const host = { wants: () => partOf(part), known: knownOf, told, refused, live: connection }
    return createReader(host, { path, locale, environment, headersFor })
  }

  function partOf(part: number): Want[] {
    let size = 0
    return toRead().filter(({ texts }) => {
      const start = size
      size += 1 + texts.length
      return Math.floor(start / MOST) === part
    })
  }

  /** Nothing comes from another tab that the server has not shown this one itself. */
  function told(id: string, news: News & { job?: PublicJob }): void {
    take(id, news)
    const known = jobs.get(id)
    if (!known) return
    const before = known.source
    // A job that the leader takes for over may have been repaired since, as the server has shown this tab.
    known.source = news.job?.final && !known.job!.final ? 'server' : (before ?? 'leader')
    // All that is asked of the tab that leads is asked of it together.
    if (known.source !== before && !wanted(({ source }) => !source)[0]) changed()
  }

  function knownOf(id: string): Known {
    let known = jobs.get(id)
    if (!known) jobs.set(id, (known = new Known(id)))
    return known
  }

  /** What this tab wants, of the jobs of which that holds. */
  function wanted(is: (known: Known) => boolean): Want[] {
    return [...jobs.values()].flatMap((known) => {
      if (known.watchers.size === 0 || !is(known)) return []
      return known.missing([...known.watchers].flatMap(({ name }) => name ?? [])) ?? []
    })
  }

  /** What this tab is to read from the server. */
  function toRead(): Want[] {
    const leads = live?.tabs.leads()
    if (!leads) return leads === false ? wanted(({ source }) => source !== 'leader') : []
    const names = new Map<string, string[]>()
    for (const { id, texts } of [...wanted(() => true), ...live!.tabs.others()])
      names.set(id, [...(names.get(id) ?? []), ...texts])
    return [...names].flatMap(([id, texts]) => knownOf(id).missing(texts) ?? [])
  }

  function take(id: string, news: News): void {
    if (jobs.get(id)?.take(news)) live?.tabs.tell(id, [news])
  }

  function refused(ids: readonly string[], error: JobsError): void {
    live?.tabs.refuse(ids)
    for (const id of ids) {
      const known = jobs.get(id)
      jobs.delete(id)
      // On its own, for what a page's own function throws is no fault of the connection.
      for (const watcher of known?.watchers ?? []) queueMicrotask(() => watcher.onError?.(error))
    }
    changed()
  }

  /** It was lost, or is back. The tab that leads says it to the others. */
  function connection(now: boolean): void {
    if (now === isLive) return
    isLive = now
    live?.tabs.sayLead()
    for (const { watchers } of jobs.values()) for (const watcher of watchers) queueMicrotask(() => watcher.onConnection?.(now))
  }

  async function tokenFor(ids: readonly string[]): Promise<string | null | undefined> {
    const token = await getToken?.(ids)
    if (token || !getToken) return token
    throw new JobsError(401, 'unauthorized')
  }

  async function headersFor(ids: readonly string[]): Promise<Record<string, string>> {
    const token = await tokenFor(ids)
    return token ? { authorization: `Bearer ${token}` } : {}
  }

  function addressOf(id: string, action: string): string {
    return `${path}/${encodeURIComponent(id)}${action}`
  }

  async function ask(id: string, action = '', method = 'GET'): Promise<PublicJob> {
    const address = addressOf(id, action) + (locale ? `?locale=${locale}` : '')
    const headers = await headersFor([id])
    const response = await start().environment.fetch(address, { method, headers })
    // With 409 comes the job that could not be canceled any more.
    if (!response.ok && response.status !== 409) throw await errorOf(response)
    const job = (await response.json()) as PublicJob
    take(id, { job })
    return job
  }
}
