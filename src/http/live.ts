/**
 * Live streams, as server-sent events.
 *
 *   retry: 2000          how long to wait before coming back, a little different for each, so that not all come at once
 *   event: job           a whole public snapshot; its id is the job's rev
 *   event: gone          of a stream of many: there is no such job (any more)
 *   event: end           nothing more comes: every job of the stream is final or gone. A stream that closes without it is worth
 *                        coming back for: the server stops, the token has expired, or the stream has lasted long enough
 *   : (a comment)        keeps proxies from thinking that the connection is dead
 *
 * A reader that is slower than its jobs misses snapshots in between, never the newest: what waits for it is a mark per job, and not text.
 * One that takes nothing at all for a minute is cut off.
 */
import type { Locale } from '../messages.js'
import type { End, FollowedJob, Hub, Viewer } from './hub.js'
import { COMMON_HEADERS, jsonText } from './respond.js'

/** Below the 30 s and 60 s after which proxies and load balancers lose patience. Milliseconds. */
const KEEP_ALIVE_MS = 15_000
/** So many keep-alives without a read, and the reader is gone. */
const MOST_STALLS = 4
const RETRY_MS = 1_000
const RETRY_SPREAD_MS = 2_000

const encoder = new TextEncoder()
const COMMENT = encoder.encode(': \n\n')
const END = encoder.encode('event: end\ndata: {}\n\n')

export interface LiveOptions {
  locale: Locale
  /** Nothing is sent after this moment, in milliseconds since 1970. */
  until: number
  /** The rev that the reader has, of a stream of one job. */
  after?: number
}

/** The streams that are open, with one timer for all. */
export class LiveStreams {
  readonly #hub: Hub
  readonly #open = new Set<LiveStream>()
  #timer: NodeJS.Timeout | undefined

  constructor(hub: Hub) {
    this.#hub = hub
  }

  open(ids: readonly string[], options: LiveOptions): LiveStream {
    const stream = new LiveStream(this.#hub, options, () => this.#closed(stream))
    this.#open.add(stream)
    this.#timer ??= setInterval(() => this.#tick(), KEEP_ALIVE_MS).unref()
    stream.follow(ids)
    return stream
  }

  close(): void {
    for (const stream of [...this.#open]) stream.close()
  }

  #tick(): void {
    for (const stream of [...this.#open]) stream.keepAlive()
  }

  #closed(stream: LiveStream): void {
    this.#open.delete(stream)
    if (this.#open.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }
}

export class LiveStream implements Viewer {
  readonly #hub: Hub
  readonly #locale: Locale
  readonly #until: number
  readonly #after: number | undefined
  readonly #onClose: () => void
  readonly #body: ReadableStream<Uint8Array>
  #controller!: ReadableStreamDefaultController<Uint8Array>
  /** Of which more may come. */
  readonly #jobs = new Set<FollowedJob>()
  /** Of which the reader has to be told. */
  readonly #news = new Set<FollowedJob>()
  readonly #gone: string[] = []
  #starting = true
  #stalls = 0
  #closed = false

  constructor(hub: Hub, { locale, until, after }: LiveOptions, onClose: () => void) {
    this.#hub = hub
    this.#locale = locale
    this.#until = until
    this.#after = after
    this.#onClose = onClose
    this.#body = new ReadableStream<Uint8Array>({
      start: (controller) => void (this.#controller = controller),
      pull: () => this.#flush(),
      cancel: () => void this.#leave(),
    })
    const retryMs = Math.round(RETRY_MS + Math.random() * RETRY_SPREAD_MS)
    this.#controller.enqueue(encoder.encode(`retry: ${retryMs}\n\n`))
  }

  response(): Response {
    return new Response(this.#body, {
      headers: {
        ...COMMON_HEADERS,
        'content-type': 'text/event-stream; charset=utf-8',
        'cache-control': 'no-cache, no-transform',
        // nginx and those who learned from it gather a response before they pass it on, unless told not to.
        'x-accel-buffering': 'no',
      },
    })
  }

  follow(ids: readonly string[]): void {
    // All are known before the first is final, so that the end is the end of all.
    for (const id of ids) {
      const job = this.#hub.follow(id, this)
      if (this.#closed) return this.#hub.leave(job, this)
      if (job.viewers.has(this)) this.#jobs.add(job)
    }
    this.#starting = false
    this.#flush()
  }

  changed(job: FollowedJob): void {
    if (this.#after !== undefined && job.rev <= this.#after) return
    this.#news.add(job)
    this.#flush()
  }

  ended(job: FollowedJob, end: End): void {
    if (end !== 'gone') return this.close()
    this.#jobs.delete(job)
    this.#news.delete(job)
    this.#gone.push(job.id)
    this.#flush()
  }

  keepAlive(): void {
    if (Date.now() >= this.#until) this.close()
    else if (this.#ready()) this.#send(COMMENT)
    else if (++this.#stalls >= MOST_STALLS) this.#cut()
  }

  /** Without `end`: the reader may come back. */
  close(): void {
    if (this.#leave()) this.#controller.close()
  }

  #flush(): void {
    while (!this.#starting && !this.#closed && this.#ready()) {
      if (Date.now() >= this.#until) return this.close()
      const gone = this.#gone.shift()
      const [job] = this.#news
      if (gone !== undefined) this.#send(encoder.encode(`event: gone\ndata: ${jsonText({ id: gone })}\n\n`))
      else if (job) this.#tell(job)
      else if (this.#jobs.size === 0) return this.#end()
      else return
    }
  }

  #tell(job: FollowedJob): void {
    this.#news.delete(job)
    this.#send(job.event(this.#locale))
    if (!job.final) return
    this.#jobs.delete(job)
    this.#hub.leave(job, this)
  }

  #send(chunk: Uint8Array): void {
    this.#stalls = 0
    this.#controller.enqueue(chunk)
  }

  /** Whether the reader has taken what it was sent. */
  #ready(): boolean {
    return (this.#controller.desiredSize ?? 0) > 0
  }

  #end(): void {
    if (!this.#leave()) return
    this.#controller.enqueue(END)
    this.#controller.close()
  }

  #cut(): void {
    if (this.#leave()) this.#controller.error(new Error('the reader takes nothing'))
  }

  #leave(): boolean {
    if (this.#closed) return false
    this.#closed = true
    for (const job of this.#jobs) this.#hub.leave(job, this)
    this.#jobs.clear()
    this.#news.clear()
    this.#onClose()
    return true
  }
}
