/**
 * Live streams, as server-sent events.
 *
 *   retry: 2000          how long to wait before coming back, a little different for each, so that not all come at once
 *   event: job           a whole public snapshot; its id is the job's rev
 *   event: text          what follows in the text of a stream that was asked for
 *   event: gone          of a stream of many: there is no such job (any more)
 *   event: end           nothing more comes: every job of the stream is final or gone, and its texts are told. A stream that closes without it is worth
 *                        coming back for: the server stops, the token has expired, or the stream has lasted long enough
 *   : (a comment)        keeps proxies from thinking that the connection is dead
 *
 * A reader that is slower than its jobs misses snapshots in between, never the newest: what waits for it is a mark per job, and not text.
 * One that takes nothing at all for a minute is cut off.
 */
import type { Locale } from '../messages.js'
import type { StreamPlace } from '../streams/record.js'
import type { End, FollowedJob, Hub, Viewer } from './hub.js'
import { COMMON_HEADERS, jsonText } from './respond.js'
import { isNews, type FollowedText, type TextPiece, type TextPlace, type TextReader } from './text.js'

/** Below the 30 s and 60 s after which proxies and load balancers lose patience. Milliseconds. */
const KEEP_ALIVE_MS = 15_000
/** So many keep-alives without a read, and the reader is gone. */
const MOST_STALLS = 4
/** How long the rest of a stream that has ended waits for its reader. Milliseconds. */
const LAST_TAKE_MS = 5_000
const RETRY_MS = 1_000
const RETRY_SPREAD_MS = 2_000
/** What happens at the same time is told in one answer of a poll. Milliseconds. */
const GATHER_MS = 50

const encoder = new TextEncoder()
const COMMENT = encoder.encode(': \n\n')
const END = encoder.encode('event: end\ndata: {}\n\n')

export interface LiveOptions {
  locale: Locale
  /** Nothing is sent after this moment, in milliseconds since 1970. */
  until: number
  /** The revs that the reader has. */
  after: ReadonlyMap<string, number>
  texts: readonly TextPlace[]
  /** Ends once something was told, or after so many milliseconds: for those who poll. */
  pollMs?: number
}

/** What the reader has of a text. */
interface ReaderOfText {
  place: StreamPlace | null
  done: boolean
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
    stream.follow(ids, options.texts)
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

export class LiveStream implements Viewer, TextReader {
  readonly #hub: Hub
  readonly #locale: Locale
  readonly #until: number
  readonly #after: ReadonlyMap<string, number>
  readonly #onClose: () => void
  readonly #body: ReadableStream<Uint8Array>
  #controller!: ReadableStreamDefaultController<Uint8Array>
  /** Of which more may come. */
  readonly #jobs = new Set<FollowedJob>()
  /** Of which the reader has to be told. */
  readonly #news = new Set<FollowedJob>()
  readonly #gone: string[] = []
  /** What the reader has of each text of which more may come. */
  readonly #texts = new Map<FollowedText, ReaderOfText>()
  /** Of which there may be more than the reader has. */
  readonly #grown = new Set<FollowedText>()
  #isReading = false
  #told = false
  #isAnswered = false
  readonly #isPoll: boolean
  #pollTimer: NodeJS.Timeout | undefined
  #starting = true
  #stalls = 0
  #closed = false

  constructor(hub: Hub, { locale, until, after, pollMs }: LiveOptions, onClose: () => void) {
    this.#hub = hub
    this.#locale = locale
    this.#until = until
    this.#after = after
    this.#onClose = onClose
    this.#isPoll = pollMs !== undefined
    if (pollMs !== undefined) this.#pollTimer = setTimeout(() => this.close(), pollMs)
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

  follow(ids: readonly string[], texts: readonly TextPlace[]): void {
    // All are known before the first is final, so that the end is the end of all.
    for (const id of ids) {
      const job = this.#hub.follow(id, this)
      if (this.#closed) return this.#hub.leave(job, this)
      if (job.viewers.has(this)) this.#jobs.add(job)
    }
    for (const { id, name, place, done } of texts) {
      const text = this.#hub.followText(id, name, this)
      this.#texts.set(text, { place, done })
      this.#grown.add(text)
    }
    this.#starting = false
    this.#flush()
  }

  changed(job: FollowedJob): void {
    if (job.rev > (this.#after.get(job.id) ?? -1)) this.#news.add(job)
    else if (job.final) this.#leaveJob(job)
    this.#flush()
  }

  ended(job: FollowedJob, end: End): void {
    if (end !== 'gone') return this.close()
    this.#jobs.delete(job)
    this.#news.delete(job)
    this.#gone.push(job.id)
    this.#flush()
  }

  grown(text: FollowedText): void {
    if (this.#texts.has(text)) this.#grown.add(text)
    this.#flush()
  }

  textEnded(text: FollowedText, end: End): void {
    this.#texts.delete(text)
    this.#grown.delete(text)
    if (end !== 'gone') return this.close()
    this.#flush()
  }

  keepAlive(): void {
    if (Date.now() >= this.#until) this.close()
    else if (this.#ready()) this.#send(COMMENT)
    else if (++this.#stalls >= MOST_STALLS) this.#cut()
  }

  /** Without `end`: the reader may come back. */
  close(): void {
    if (this.#leave()) this.#finish()
  }

  #flush(): void {
    while (!this.#starting && !this.#closed && this.#ready()) {
      if (Date.now() >= this.#until) return this.close()
      const gone = this.#gone.shift()
      const [job] = this.#news
      const [grown] = this.#isReading ? [] : this.#grown
      if (gone !== undefined) this.#send(encoder.encode(`event: gone\ndata: ${jsonText({ id: gone })}\n\n`))
      else if (job) this.#tell(job)
      else if (grown) void this.#tellText(grown)
      else if (this.#jobs.size === 0 && this.#texts.size === 0) return this.#end()
      else return this.#rest()
    }
  }

  #tell(job: FollowedJob): void {
    this.#news.delete(job)
    this.#send(job.event(this.#locale))
    if (job.final) this.#leaveJob(job)
  }

  /** One piece at a time, so that what is to be read waits for its reader in the database. */
  async #tellText(text: FollowedText): Promise<void> {
    const reader = this.#texts.get(text)!
    this.#grown.delete(text)
    this.#isReading = true
    try {
      const piece = await text.after(reader.place)
      this.#isReading = false
      if (this.#closed) return
      const isThere = piece && piece !== 'none' && this.#texts.has(text)
      if (isThere && isNews(piece, reader.place, reader.done)) this.#sendText(text, reader, piece)
      this.#flush()
    } catch (error) {
      this.#hub.log(error, text.id, 'the text of a stream could not be read')
      this.close()
    }
  }

  #sendText(text: FollowedText, reader: ReaderOfText, piece: TextPiece): void {
    this.#send(piece.event)
    reader.place = piece.end
    reader.done = piece.text.done
    if (!piece.text.final) return void this.#grown.add(text)
    this.#texts.delete(text)
    this.#grown.delete(text)
    this.#hub.leaveText(text, this)
  }

  /** A poll is answered once there is something to tell, and what happens with it. */
  #rest(): void {
    if (!this.#isPoll || !this.#told || this.#isAnswered) return
    this.#isAnswered = true
    clearTimeout(this.#pollTimer)
    this.#pollTimer = setTimeout(() => this.close(), GATHER_MS)
  }

  #leaveJob(job: FollowedJob): void {
    this.#jobs.delete(job)
    this.#hub.leave(job, this)
  }

  #send(chunk: Uint8Array): void {
    this.#stalls = 0
    this.#told ||= chunk !== COMMENT
    this.#controller.enqueue(chunk)
  }

  /** Whether the reader has taken what it was sent. */
  #ready(): boolean {
    return (this.#controller.desiredSize ?? 0) > 0
  }

  #end(): void {
    if (!this.#leave()) return
    this.#controller.enqueue(END)
    this.#finish()
  }

  /** Whoever does not take the rest would hold the connection, and a server that waits for it to end. */
  #finish(): void {
    this.#controller.close()
    setTimeout(() => this.#controller.error(new Error('the reader takes nothing')), LAST_TAKE_MS).unref()
  }

  #cut(): void {
    if (this.#leave()) this.#controller.error(new Error('the reader takes nothing'))
  }

  #leave(): boolean {
    if (this.#closed) return false
    this.#closed = true
    clearTimeout(this.#pollTimer)
    for (const job of this.#jobs) this.#hub.leave(job, this)
    for (const text of this.#texts.keys()) this.#hub.leaveText(text, this)
    this.#jobs.clear()
    this.#news.clear()
    this.#texts.clear()
    this.#grown.clear()
    this.#onClose()
    return true
  }
}
