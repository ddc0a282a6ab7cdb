/**
 * The streams that an attempt writes. What is written waits in its stream's tail; when the worker's reports are due, the tail becomes a
 * piece with a fixed offset, which stays until the store has it, so that a piece whose answer was lost is sent again as it was.
 *
 *   write ──> tail ──a report is due──> sent ──stored──> gone
 *                                        ^ └──the database is away──┐
 *                                        └──────────────────────────┘
 *
 * While too much of an attempt is unsent, `write` waits. An error of a write or of the store stays: it fails the attempt at its end, even
 * where the handler did not await.
 */
import { JobtableError } from '../errors.js'
import { isHighSurrogate, type StreamAppend } from '../streams/record.js'
import { checkStream, notText, unheard, writeFrom, type JobStream, type StreamOptions } from '../streams/stream.js'
import { claimLost } from '../effects/log.js'
import type { Reporter, Reports, StreamSource } from './reports.js'
import { cleanText } from './words.js'

/** While an attempt has more than this unsent, its writes wait. UTF-16 code units. */
const MUCH_UNSENT = 65_536
/** What does not wait may not have more than this unsent. */
const MOST_UNSENT = 4 * 1_048_576
const MOST_STREAMS = 20
/** How long text that is complete is worth waiting for the database, as long as the lease may be held without it. Milliseconds. */
const PATIENCE_MS = 30_000
const FIRST_PAUSE_MS = 100
const LONGEST_PAUSE_MS = 2_000

interface Stream {
  readonly name: string
  readonly maxLength: number
  /** All that was accepted. */
  length: number
  /** How much of it is in pieces. */
  cut: number
  tail: string
  /** No more is accepted. */
  ended: boolean
  /** The piece that says so has been made. */
  endCut: boolean
  readonly jobStream: JobStream
}

export class AttemptStreams implements StreamSource {
  readonly #attempt: Reporter & { readonly signal: AbortSignal }
  readonly #reports: Reports
  readonly #closed: () => boolean
  readonly #streams = new Map<string, Stream>()
  #sent: StreamAppend[] = []
  #unsent = 0
  #failure: Error | undefined
  /** Of the database, which may pass. */
  #trouble: Error | undefined
  #waiting: (() => void)[] = []

  /** `closed` says when nothing more is to be written. */
  constructor(attempt: Reporter & { readonly signal: AbortSignal }, reports: Reports, closed: () => boolean) {
    this.#attempt = attempt
    this.#reports = reports
    this.#closed = closed
  }

  readonly open = (name: string, options?: StreamOptions): JobStream => {
    const maxLength = checkStream(name, options)
    const known = this.#streams.get(name)
    if (known) return known.jobStream
    if (this.#streams.size === MOST_STREAMS) {
      throw new JobtableError('config_invalid', `an attempt may write ${MOST_STREAMS} streams, and ${name} is one more`)
    }
    const jobStream: JobStream = {
      write: (text) => unheard(this.#write(stream, text)),
      end: () => unheard(this.#end(stream)),
      from: (pieces) => writeFrom(jobStream, pieces, this.#attempt.signal),
    }
    const stream: Stream = { name, maxLength, length: 0, cut: 0, tail: '', ended: false, endCut: false, jobStream }
    this.#streams.set(name, stream)
    return jobStream
  }

  async #write(stream: Stream, text: string): Promise<void> {
    this.#check()
    if (typeof text !== 'string') this.#fail(notText(stream.name, text))
    if (stream.ended) this.#fail(new JobtableError('config_invalid', `the stream ${stream.name} was ended before this write`))
    if (stream.length + text.length > stream.maxLength) this.#fail(tooLong(stream))
    if (this.#unsent > 0 && this.#unsent + text.length > MOST_UNSENT) this.#fail(tooFast(stream))
    if (text === '') return
    stream.tail += text
    stream.length += text.length
    this.#unsent += text.length
    this.#reports.add(this.#attempt, {})
    if (this.#unsent > MUCH_UNSENT) await this.#room()
  }

  async #end(stream: Stream): Promise<void> {
    this.#check()
    stream.ended = true
    if (!stream.endCut) this.#reports.add(this.#attempt, {})
    await this.#stored()
  }

  #check(): void {
    if (this.#closed()) throw claimLost('or the job is completed already, so that a stream takes no more text')
    if (this.#failure) throw this.#failure
  }

  #fail(error: Error): never {
    this.#failure ??= error
    throw error
  }

  /** Resolves once less is unsent, or the job is to stop; rejects when it cannot be sent. */
  async #room(): Promise<void> {
    const signal = this.#attempt.signal
    if (signal.aborted) return
    let wake!: () => void
    const woken = new Promise<void>((resolve) => (wake = resolve))
    this.#waiting.push(wake)
    signal.addEventListener('abort', wake, { once: true })
    await woken
    signal.removeEventListener('abort', wake)
    this.#check()
  }

  #wake(): void {
    const waiting = this.#waiting
    this.#waiting = []
    for (const wake of waiting) wake()
  }

  /** All that is to be stored. From now on it has its offsets. */
  unsent(): StreamAppend[] {
    for (const stream of this.#streams.values()) this.#cut(stream)
    return [...this.#sent]
  }

  #cut(stream: Stream): void {
    const { name, tail, cut: offset, ended } = stream
    // The other half may come with the next write.
    const length = !ended && isHighSurrogate(tail.charCodeAt(tail.length - 1)) ? tail.length - 1 : tail.length
    if (stream.endCut || (length === 0 && !ended)) return
    this.#sent.push({ name, offset, text: cleanText(tail.slice(0, length)), done: ended })
    stream.tail = tail.slice(length)
    stream.cut += length
    stream.endCut = ended
  }

  stored(pieces: readonly StreamAppend[]): void {
    const gone = new Set(pieces)
    this.#sent = this.#sent.filter((piece) => !gone.has(piece))
    for (const { text } of pieces) this.#unsent -= text.length
    this.#trouble = undefined
    if (this.#unsent <= MUCH_UNSENT) this.#wake()
  }

  failed(error: Error, passing: boolean): boolean {
    this.#trouble = error
    if (passing) return !this.#closed()
    this.#failure ??= error
    // Or it would fail what others report in the same write, time and again.
    this.#sent = []
    this.#streams.clear()
    this.#wake()
    return false
  }

  /** What is unsent, for a transaction that completes the job: the text ends with it. */
  last(): StreamAppend[] {
    return this.#letGo()
  }

  /** When the handler has returned: resolves once all is stored, and rejects with what went wrong. */
  async finish(): Promise<void> {
    if (this.#letGo().length > 0) this.#reports.add(this.#attempt, {})
    else this.#check()
    await this.#stored()
  }

  /** A half of a surrogate pair that nothing followed is a character of its own now. */
  #letGo(): StreamAppend[] {
    for (const stream of this.#streams.values()) {
      if (isHighSurrogate(stream.tail.charCodeAt(stream.tail.length - 1))) stream.tail = stream.tail.toWellFormed()
    }
    return this.unsent()
  }

  /** Resolves once all that was written before is stored. */
  async #stored(): Promise<void> {
    const pieces = new Set(this.unsent())
    const until = performance.now() + PATIENCE_MS
    for (let pauseMs = FIRST_PAUSE_MS; this.#sent.some((piece) => pieces.has(piece)); pauseMs *= 2) {
      await this.#reports.flush(this.#attempt)
      this.#check()
      if (!this.#trouble) continue
      const restMs = Math.min(LONGEST_PAUSE_MS, pauseMs)
      if (performance.now() + restMs > until) this.#fail(this.#trouble)
      await new Promise((resolve) => setTimeout(resolve, restMs))
    }
  }
}

function tooLong({ name, maxLength }: Stream): JobtableError {
  return new JobtableError(
    'stream_full',
    `the stream ${name} may have ${maxLength} characters (UTF-16 code units), and this write goes beyond: give job.stream a greater maxLength, or store a long text as a file`,
    { data: { name, maxLength } },
  )
}

function tooFast({ name }: Stream): JobtableError {
  return new JobtableError(
    'stream_full',
    `more than ${MOST_UNSENT} characters of this attempt's streams are not stored yet, and ${name} gets more: await each write`,
    { data: { name, maxUnsent: MOST_UNSENT } },
  )
}
