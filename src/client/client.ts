import type { PublicJob } from '../http/public.js'
import { browser, type Environment } from './environment.js'
import { errorOf, JobsError } from './errors.js'
import { Known, type News, type StreamedText, type Want, type Watcher } from './known.js'
import { headersWith, Reader } from './reader.js'
import { Tabs } from './tabs.js'

/** So many jobs are read over one connection. */
const MOST_JOBS = 50

export interface JobsClientOptions {
  /** Where the server's handler is: its `path`, after an origin if that is another. Default `/jobs`. */
  path?: string
  /**
   * A token for these jobs, made with `signToken`; asked for at every connection, so that it may be short-lived. Null where there is nobody
   * who may. Leave it out where the server decides by a cookie. It should be for all of the ids, which may be those of other tabs of the same user;
   * what the token is not for, the tab that shows it asks for itself.
   */
  getToken?: (ids: readonly string[]) => string | null | Promise<string | null>
  /** The language of stages and messages. Default: as the browser says. */
  locale?: 'en' | 'zh'
  /** Default: the browser's own. */
  fetch?: typeof fetch
}

export interface WatchOptions {
  /** Why nothing more comes: access is refused, or there is no such job. Outages are waited out and not told. */
  onError?: (error: JobsError) => void
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

/** @internal As `jobsClient`, in any environment. */
export function createClient(options: JobsClientOptions, environment: () => Environment): JobsClient {
  return new Client(options, environment)
}

/** What a client has while it is in use. */
interface Live {
  environment: Environment
  tabs: Tabs
  readers: Reader[]
  end: AbortController
}

class Client implements JobsClient {
  readonly #path: string
  readonly #options: JobsClientOptions
  readonly #makeEnvironment: () => Environment
  readonly #jobs = new Map<string, Known>()
  #live: Live | undefined
  #isChanging = false

  constructor(options: JobsClientOptions, environment: () => Environment) {
    this.#options = options
    this.#path = options.path ?? '/jobs'
    this.#makeEnvironment = environment
  }

  watch(id: string, onJob: (job: PublicJob) => void, { onError = ignore, initial }: WatchOptions = {}): () => void {
    const known = this.#known(id)
    if (initial) known.take({ job: initial })
    if (known.job) onJob(known.job)
    return this.#add(known, { onJob, onError })
  }

  stream(id: string, name: string, onText: (text: StreamedText) => void, { onError = ignore }: WatchOptions = {}): () => void {
    const known = this.#known(id)
    const text = known.texts.get(name)
    if (text) onText({ ...text, offset: 0 })
    return this.#add(known, { name, onText, onError })
  }

  known(id: string): PublicJob | undefined {
    return this.#jobs.get(id)?.job
  }

  get(id: string): Promise<PublicJob> {
    return this.#ask(id)
  }

  cancel(id: string): Promise<PublicJob> {
    return this.#ask(id, '/cancel', 'POST')
  }

  async fileUrl(id: string): Promise<string> {
    const token = await this.#token([id])
    return this.#address(id, '/file', token ? { token } : {})
  }

  close(): void {
    this.#jobs.clear()
    this.#live?.end.abort()
    this.#live?.tabs.leave()
    for (const reader of this.#live?.readers ?? []) reader.update()
    this.#live = undefined
  }

  #add(known: Known, watcher: Watcher): () => void {
    known.watchers.add(watcher)
    this.#start().tabs.join()
    this.#changed()
    return () => {
      known.watchers.delete(watcher)
      this.#changed()
    }
  }

  #start(): Live {
    return (this.#live ??= this.#listen(this.#makeEnvironment()))
  }

  #listen(environment: Environment): Live {
    const tabs = new Tabs(environment, `jobtable ${this.#path} ${this.#options.locale ?? ''}`, {
      changed: () => {
        for (const known of this.#jobs.values()) if (known.source === 'server') known.source = undefined
        this.#changed()
      },
      wanted: (wants) => {
        for (const { id } of wants) tabs.tell(id, this.#known(id).all())
        this.#changed()
      },
      told: (id, news) => this.#take(id, news),
      refused: (ids) => {
        for (const id of ids) if (this.#jobs.has(id)) this.#known(id).source = 'server'
        this.#changed()
      },
    })
    const live: Live = { environment, tabs, readers: [], end: new AbortController() }
    environment.listen((event) => {
      if (event === 'pagehide') tabs.leave()
      else if (this.#jobs.size > 0) tabs.join()
      if (event !== 'online') tabs.looked()
      if (environment.isVisible()) for (const reader of live.readers) reader.wake()
    }, live.end.signal)
    return live
  }

  /** What is wanted, who leads or who may has changed. All that changes together is seen to together. */
  #changed(): void {
    if (this.#isChanging) return
    this.#isChanging = true
    queueMicrotask(() => {
      this.#isChanging = false
      if (this.#live) this.#update(this.#live)
    })
  }

  #update({ environment, tabs, readers }: Live): void {
    const others = new Set(tabs.others.map(({ id }) => id))
    for (const [id, known] of this.#jobs) {
      if (known.watchers.size === 0 && !others.has(id)) this.#jobs.delete(id)
      else if (tabs.role === 'following' && !known.source) void this.#enter(known)
    }
    tabs.want(this.#wants('leader'))
    while (readers.length * MOST_JOBS < this.#toRead().length) readers.push(this.#reader(environment, readers.length * MOST_JOBS))
    for (const reader of readers) reader.update()
  }

  /** Of a part of what is to be read: an address can only be so long. */
  #reader(environment: Environment, from: number): Reader {
    return new Reader(
      {
        wants: () => this.#toRead().slice(from, from + MOST_JOBS),
        known: (id) => this.#known(id),
        took: (id, news) => this.#take(id, news),
        refused: (ids, error) => this.#refused(ids, error),
      },
      { path: this.#path, locale: this.#options.locale, environment, token: (ids) => this.#token(ids) },
    )
  }

  /** Nothing comes from another tab that the server has not let this one see. */
  async #enter(known: Known): Promise<void> {
    known.source = 'asking'
    try {
      await this.get(known.id)
      known.source = 'leader'
    } catch {
      known.source = 'server' // It is told why, or does better, by a connection of its own.
    }
    this.#changed()
  }

  #known(id: string): Known {
    let known = this.#jobs.get(id)
    if (!known) this.#jobs.set(id, (known = new Known(id)))
    return known
  }

  /** What this tab wants: of everybody, or from this source. */
  #wants(source?: Known['source']): Want[] {
    return [...this.#jobs.values()].flatMap((known) => {
      if (known.watchers.size === 0 || (source && known.source !== source)) return []
      return known.missing([...known.watchers].flatMap(({ name }) => name ?? [])) ?? []
    })
  }

  /** What this tab is to read from the server. */
  #toRead(): Want[] {
    const tabs = this.#live?.tabs
    if (!tabs?.role) return []
    if (tabs.role === 'following') return this.#wants('server')
    const wants = new Map<string, string[]>()
    for (const { id, texts } of [...this.#wants(), ...tabs.others]) wants.set(id, [...(wants.get(id) ?? []), ...texts])
    return [...wants].flatMap(([id, texts]) => this.#known(id).missing(texts) ?? [])
  }

  #take(id: string, news: News): void {
    if (this.#jobs.get(id)?.take(news)) this.#live?.tabs.tell(id, [news])
  }

  #refused(ids: readonly string[], error: JobsError): void {
    this.#live?.tabs.refuse(ids)
    for (const id of ids) {
      const known = this.#jobs.get(id)
      this.#jobs.delete(id)
      for (const watcher of known?.watchers ?? []) watcher.onError(error)
    }
  }

  async #token(ids: readonly string[]): Promise<string | undefined> {
    const { getToken } = this.#options
    if (!getToken) return undefined
    const token = await getToken(ids)
    if (token) return token
    throw new JobsError(401, 'unauthorized', 'getToken has none')
  }

  #address(id: string, action: string, query: Record<string, string> = {}): string {
    const { locale } = this.#options
    const asked = new URLSearchParams({ ...(locale && { locale }), ...query }).toString()
    return `${this.#path}/${encodeURIComponent(id)}${action}${asked && `?${asked}`}`
  }

  async #ask(id: string, action = '', method = 'GET'): Promise<PublicJob> {
    const { environment } = this.#start()
    const headers = headersWith(await this.#token([id]))
    const response = await environment.fetch(this.#address(id, action), { method, headers })
    // With 409 comes the job that could not be canceled any more.
    if (!response.ok && response.status !== 409) throw await errorOf(response)
    const job = (await response.json()) as PublicJob
    this.#take(id, { job })
    return job
  }
}

function ignore(): void {}
