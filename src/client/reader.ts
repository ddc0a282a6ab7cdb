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
import { createParser, type EventSourceMessage } from 'eventsource-parser'
import type { PublicJob, PublicText } from '../http/public.js'
import type { Environment } from './environment.js'
import { errorOf, JobsError } from './errors.js'
import type { Known, News, Want } from './known.js'
import {
  FIRST_BYTE_MS,
  FIRST_WAIT_MS,
  GOOD_MS,
  LONGEST_WAIT_MS,
  POLL_S,
  POLLING_MS,
  SILENCE_MS,
  SOON_MS,
  STALE_MS,
} from './limits.js'

/** What an event holds, by its name. */
type Told = PublicJob & PublicText & { id: string; name: string }

export interface ReaderHost {
  wants(): Want[]
  known(id: string): Known
  told(id: string, news: News): void
  /** Nothing comes of these. */
  refused(ids: readonly string[], error: JobsError): void
  /** Whether the server was reached. */
  live(isLive: boolean): void
}

export interface ReaderOptions {
  path: string
  locale: string | undefined
  environment: Environment
  headersFor(ids: readonly string[]): Promise<Record<string, string>>
}

export interface Reader {
  /** What is wanted may have changed. */
  update(): void
  /** The page is looked at again, or online again. */
  wake(): void
}

export function createReader(host: ReaderHost, { path, locale, environment, headersFor }: ReaderOptions): Reader {
  const { after, random } = environment
  let asked = new Set<string>()
  let connection: AbortController | undefined
  let endPause = (): void => {}
  let isRunning = false
  let pollUntil = 0
  let failures = 0
  let refusals = 0
  let lastByte = 0

  return {
    update() {
      const wants = host.wants()
      if (!isRunning && wants.length > 0) void run()
      else if (wants.length === 0 || wants.flatMap(keysOf).some((key) => !asked.has(key))) connection?.abort()
    },
    wake() {
      endPause()
      if (Date.now() - lastByte > STALE_MS) connection?.abort()
    },
  }

  async function run(): Promise<void> {
    isRunning = true
    for (let wants = host.wants(); wants.length > 0; wants = host.wants()) {
      const pauseMs = await read(wants)
      if (pauseMs > 0) {
        await new Promise<void>((resolve) => {
          after(pauseMs, resolve)
          endPause = resolve
        })
      }
    }
    isRunning = false
  }

  /** Answers how long to wait before the next. */
  async function read(wants: readonly Want[]): Promise<number> {
    const since = Date.now()
    const isPoll = since < pollUntil
    const own = (connection = new AbortController())
    let isSilent = false
    let callOff = (): void => {}
    const expect = (ms: number): void => {
      callOff()
      callOff = after(ms, () => {
        isSilent = true
        own.abort()
      })
    }
    asked = new Set(wants.flatMap(keysOf))
    try {
      await receive(wants, isPoll, own.signal, expect)
    } catch (error) {
      if (own.signal.aborted && !isSilent) return 0
      if (error instanceof JobsError && error.status !== 429 && error.status < 500) return refused(wants, error)
      if (isSilent && !isPoll) {
        pollUntil = Date.now() + POLLING_MS
        return 0
      }
      // Otherwise the connection broke, or none was had.
    } finally {
      callOff()
    }
    if (lastByte < since) host.live(false)
    if (lastByte < since || (!isPoll && Date.now() - since < GOOD_MS)) {
      return Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** failures++) * (0.5 + random() / 2)
    }
    failures = 0
    return SOON_MS * random()
  }

  function refused(wants: readonly Want[], error: JobsError): number {
    // The first time it may be that the token has just expired.
    if (error.status === 401 && refusals++ === 0) return 0
    refusals = 0
    const ids = wants.map(({ id }) => id)
    const meant = ids.filter((id) => error.jobs?.includes(id))
    host.refused(meant[0] ? meant : ids, error)
    return 0
  }

  async function receive(
    wants: readonly Want[],
    isPoll: boolean,
    signal: AbortSignal,
    expect: (ms: number) => void,
  ): Promise<void> {
    const headers = await headersFor(wants.map(({ id }) => id))
    expect(isPoll ? SILENCE_MS : FIRST_BYTE_MS)
    const init = { headers, signal, cache: 'no-store' as const }
    const response = await environment.fetch(addressOf(wants, isPoll), init)
    // What is no stream of events is the page of something else, such as that of a product for addresses that it does not know.
    if (!/event-stream/.test(response.headers.get('content-type')!)) throw await errorOf(response)
    refusals = 0
    const parser = createParser({ onEvent: heard })
    const reader: ReadableStreamDefaultReader<string> = response.body!.pipeThrough(new TextDecoderStream()).getReader()
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      lastByte = Date.now()
      host.live(true)
      expect(SILENCE_MS)
      parser.feed(part.value)
    }
  }

  function heard({ event, data }: EventSourceMessage): void {
    const told = JSON.parse(data) as Told
    if (event === 'job') host.told(told.id, { job: told })
    else if (event === 'text') host.told(told.id, { text: told })
    else if (event === 'gone') host.refused([told.id], new JobsError(404, 'job_not_found'))
  }

  function addressOf(wants: readonly Want[], isPoll: boolean): string {
    const query = new URLSearchParams()
    const revs = wants.map(({ id, texts }) => {
      const known = host.known(id)
      query.append('id', id)
      for (const name of texts) {
        const text = known.texts.get(name)
        const place = text ? `/${text.attempt}/${text.text.length}${text.done ? '/done' : ''}` : ''
        query.append('text', `${encodeURIComponent(id)}/${encodeURIComponent(name)}${place}`)
      }
      // The first time the server is to show it, also where the page came with it.
      return (known.source && known.job?.rev) ?? ''
    })
    query.append('after', revs.join())
    if (isPoll) query.append('wait', POLL_S)
    if (locale) query.append('locale', locale)
    return `${path}/events?${query.toString()}`
  }
}

function keysOf({ id, texts }: Want): string[] {
  return [id, ...texts.map((name) => `${id}/${name}`)]
}
