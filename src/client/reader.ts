/**
 * One connection to the server for all that is wanted, for as long as something is.
 *
 *            ┌──────── closed, or what is wanted has grown: soon ───────┐
 *            v                                                          │
 *   ──> a stream of events ──no byte for too long──> polls ──5 minutes──┤
 *            │                                        │                 │
 *            └───────failed──────> waits, longer each time <┘───────────┘
 *
 * Something in between may gather what the server sends, and pass it on when the answer ends: such a stream is silent. A poll is the same
 * request with `wait`, which ends with the first news. A refusal ends what it is about; an outage ends nothing.
 */
import { createParser } from 'eventsource-parser'
import type { PublicJob, PublicText } from '../http/public.js'
import type { Environment } from './environment.js'
import { errorOf, JobsError } from './errors.js'
import type { Known, News, Want } from './known.js'

/** The server sends its first bytes at once, and then some every 15 s. Milliseconds. */
const FIRST_BYTE_MS = 5_000
const SILENCE_MS = 35_000
/** So long a poll waits for news. Seconds. */
const POLL_S = 20
const POLLING_MS = 300_000
const PAUSE_MS = 250
/** After a failure; doubled with each that follows, up to the longest. */
const FIRST_WAIT_MS = 1_000
const LONGEST_WAIT_MS = 30_000
/** A connection that has lasted so long was none of the failures. */
const GOOD_MS = 2_000
/** A connection that was silent for so long when its page wakes may be dead. */
const STALE_MS = 20_000

/** What an event holds, by its name. */
type Told = PublicJob & PublicText & { id: string; name: string }

export interface ReaderHost {
  wants(): Want[]
  known(id: string): Known
  took(id: string, news: News): void
  /** Nothing comes of these. */
  refused(ids: readonly string[], error: JobsError): void
}

export interface ReaderOptions {
  path: string
  locale: string | undefined
  environment: Environment
  token(ids: readonly string[]): Promise<string | undefined>
}

export class Reader {
  readonly #host: ReaderHost
  readonly #options: ReaderOptions
  #asked = new Set<string>()
  #connection: AbortController | undefined
  #endPause: (() => void) | undefined
  #isRunning = false
  #pollUntil = 0
  #failures = 0
  #refusals = 0
  #lastByte = 0

  constructor(host: ReaderHost, options: ReaderOptions) {
    this.#host = host
    this.#options = options
  }

  /** What is wanted may have changed. */
  update(): void {
    const wants = this.#host.wants()
    if (!this.#isRunning && wants.length > 0) void this.#run()
    else if (wants.length === 0 || wants.some((want) => keysOf(want).some((key) => !this.#asked.has(key))))
      this.#connection?.abort()
  }

  /** The page is looked at again, or online again. */
  wake(): void {
    this.#endPause?.()
    if (Date.now() - this.#lastByte > STALE_MS) this.#connection?.abort()
  }

  async #run(): Promise<void> {
    this.#isRunning = true
    for (let wants = this.#host.wants(); wants.length > 0; wants = this.#host.wants()) {
      const pauseMs = await this.#read(wants)
      if (pauseMs > 0) await this.#pause(pauseMs)
    }
    this.#isRunning = false
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const callOff = this.#options.environment.after(ms, () => this.#endPause!())
      this.#endPause = () => {
        callOff()
        this.#endPause = undefined
        resolve()
      }
    })
  }

  /** Answers how long to wait before the next. */
  async #read(wants: readonly Want[]): Promise<number> {
    const { after, random } = this.#options.environment
    const since = Date.now()
    const isPoll = since < this.#pollUntil
    const connection = new AbortController()
    let isSilent = false
    let callOff = (): void => {}
    const expect = (ms: number): void => {
      callOff()
      callOff = after(ms, () => {
        isSilent = true
        connection.abort()
      })
    }
    this.#connection = connection
    this.#asked = new Set(wants.flatMap(keysOf))
    try {
      await this.#receive(wants, isPoll, connection.signal, expect)
      if (!isPoll && Date.now() - since < GOOD_MS) return this.#backoff()
      this.#failures = 0
      return isPoll ? PAUSE_MS : PAUSE_MS * 2 * random()
    } catch (error) {
      if (isSilent && !isPoll) this.#pollUntil = Date.now() + POLLING_MS
      else if (isSilent || !connection.signal.aborted) return this.#failed(wants, error)
      return 0
    } finally {
      callOff()
      this.#connection = undefined
    }
  }

  #failed(wants: readonly Want[], error: unknown): number {
    if (!(error instanceof JobsError) || error.status === 429 || error.status >= 500) return this.#backoff()
    // The first time it may be that the token has just expired.
    if (error.status === 401 && this.#refusals++ === 0) return 0
    this.#refusals = 0
    const ids = wants.map(({ id }) => id)
    const meant = ids.filter((id) => error.jobs?.includes(id))
    this.#host.refused(meant.length > 0 ? meant : ids, error)
    return 0
  }

  #backoff(): number {
    const longest = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** this.#failures++)
    return longest * (0.5 + this.#options.environment.random() / 2)
  }

  async #receive(wants: readonly Want[], isPoll: boolean, signal: AbortSignal, expect: (ms: number) => void): Promise<void> {
    const { environment, token } = this.#options
    const headers = headersWith(await token(wants.map(({ id }) => id)))
    if (signal.aborted) return
    expect(isPoll ? SILENCE_MS : FIRST_BYTE_MS)
    const init = { headers, signal, cache: 'no-store' }
    const response = await environment.fetch(this.#address(wants, isPoll), init)
    if (!response.ok) throw await errorOf(response)
    const parser = createParser({ onEvent: ({ event, data }) => this.#heard(event, data) })
    const reader: ReadableStreamDefaultReader<string> = response.body!.pipeThrough(new TextDecoderStream()).getReader()
    this.#refusals = 0
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      this.#lastByte = Date.now()
      expect(SILENCE_MS)
      parser.feed(part.value)
    }
  }

  #heard(event: string | undefined, data: string): void {
    const told = JSON.parse(data) as Told
    if (event === 'job') this.#host.took(told.id, { job: told })
    else if (event === 'text') this.#host.took(told.id, { text: told })
    else if (event === 'gone') this.#host.refused([told.id], new JobsError(404, 'job_not_found', 'there is no such job'))
  }

  #address(wants: readonly Want[], isPoll: boolean): string {
    const query = new URLSearchParams()
    const revs: (number | string)[] = []
    for (const { id, texts } of wants) {
      const known = this.#host.known(id)
      query.append('id', id)
      revs.push(known.job?.rev ?? '')
      for (const name of texts) {
        const text = known.texts.get(name)
        const place = text ? `/${text.attempt}/${text.text.length}${text.done ? '/done' : ''}` : ''
        query.append('text', `${encodeURIComponent(id)}/${encodeURIComponent(name)}${place}`)
      }
    }
    query.append('after', revs.join())
    if (isPoll) query.append('wait', String(POLL_S))
    const { path, locale } = this.#options
    if (locale) query.append('locale', locale)
    return `${path}/events?${query.toString()}`
  }
}

export function headersWith(token: string | undefined): Record<string, string> {
  return token ? { authorization: `Bearer ${token}` } : {}
}

function keysOf({ id, texts }: Want): string[] {
  return [id, ...texts.map((name) => `${id}/${name}`)]
}
