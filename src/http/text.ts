/**
 * The texts of streams that somebody reads now. Each is read from the database once, however many read it: a reader has no more than a
 * place, `{ attempt, offset }`, and asks for what follows. The end of the text is kept in memory, up to a limit, and answers nearly all of
 * them; whoever begins further back is given it piece by piece, by reads that those at the same place share.
 *
 *   the text     |----------------------------------------------|
 *   remembered                               |------------------|      what follows a place in here is answered from memory
 *   readers       ^ reads a piece of its own         ^ answered  ^ asks the database once the job has changed
 *
 * Only streams that the job's type calls public are read: any other is as one that is not there.
 */
import { isPassing } from '../outage.js'
import type { Queue } from '../queue.js'
import { isCut, type StreamPlace, type StreamText } from '../streams/record.js'
import type { End, FollowedJob, Hub, Viewer } from './hub.js'
import type { PublicText } from './public.js'
import { remembered } from './remembered.js'
import { jsonText } from './respond.js'

/** Where a reader is in a text. */
export interface TextPlace {
  id: string
  name: string
  /** Null for the beginning. */
  place: StreamPlace | null
  /** Whether they know that it is done so far. */
  done: boolean
}

/** So much text in one answer or event, in UTF-16 code units. */
const PIECE = 32_768
/** So much is remembered of each text. */
const WINDOW = 2 * PIECE
/** Readers are at few places; those who are at others are not remembered. */
const MOST_PIECES = 16
/** After a read that failed since the database is away. Milliseconds. */
const AGAIN_MS = 1_000

/** There is no such stream, and none will come. */
const NOTHING: PublicText = { attempt: 0, offset: 0, text: '', done: true, final: true }

const encoder = new TextEncoder()

/** What follows upon a place; encoded once for all who are there. */
export class TextPiece {
  readonly text: PublicText
  readonly #about: { id: string; name: string }
  #event: Uint8Array | undefined

  constructor(about: { id: string; name: string }, text: PublicText) {
    this.#about = about
    this.text = text
  }

  get end(): StreamPlace {
    return { attempt: this.text.attempt, offset: this.text.offset + this.text.text.length }
  }

  get event(): Uint8Array {
    this.#event ??= encoder.encode(`event: text\ndata: ${jsonText({ ...this.#about, ...this.text })}\n\n`)
    return this.#event
  }
}

/** Whether a reader learns something of this piece who is at this place, and knows whether the text is done. */
export function isNews({ text, end }: TextPiece, place: StreamPlace | null, done: boolean): boolean {
  return text.final || text.done !== done || end.attempt !== place?.attempt || end.offset !== place.offset
}

/** Who reads a text. */
export interface TextReader {
  /** There may be more than there was. */
  grown(text: FollowedText): void
  /** Nothing follows, and the reader has been let go. */
  textEnded(text: FollowedText, end: End): void
}

/** What is known of a text: a part of it, that there is none, or that the database cannot say now. */
type Found = StreamText | 'none' | 'away'

export class FollowedText implements Viewer {
  readonly id: string
  readonly name: string
  readonly readers = new Set<TextReader>()
  readonly #queue: Queue
  readonly #hub: Hub
  readonly #reads = new Map<string, Promise<Found>>()
  readonly #pieces = new Map<string, TextPiece>()
  /** The end of the text, as far as it was read. */
  #window: StreamText | undefined
  #job: FollowedJob | undefined
  #again: NodeJS.Timeout | undefined
  /** Counts the changes of the job, and up to which of them all of the text was read. */
  #changes = 1
  #readUpTo = 0

  constructor(queue: Queue, hub: Hub, id: string, name: string) {
    this.#queue = queue
    this.#hub = hub
    this.id = id
    this.name = name
  }

  begin(): void {
    this.#job = this.#hub.follow(this.id, this)
  }
  end(): void {
    clearTimeout(this.#again)
    if (this.#job) this.#hub.leave(this.#job, this)
  }

  /** A snapshot is no news of a text. */
  changed(): void {}
  touched(): void {
    this.#changes++
    this.#tellAll()
  }
  ended(_: FollowedJob, end: End): void {
    const readers = [...this.readers]
    for (const reader of readers) this.#hub.leaveText(this, reader)
    for (const reader of readers) reader.textEnded(this, end)
  }

  /** What follows upon the place; undefined where nothing can be said yet. Rejects when it cannot be read at all. */
  async after(place: StreamPlace | null): Promise<TextPiece | 'none' | undefined> {
    if (!this.#job?.known) return undefined
    if (!this.#isPublic(this.#job.type)) return this.#piece(NOTHING)
    const isFinal = this.#job.final
    const remembered = this.#remembered(place)
    const found = remembered ?? (await this.#read(place))
    if (found === 'away') return undefined
    if (found === 'none') return isFinal ? this.#piece(NOTHING) : 'none'
    // What is remembered may have been replaced since.
    const isLast = found.done && isFinal && (found !== remembered || this.#isFresh)
    return this.#piece({ ...found, final: isLast })
  }

  get #isFresh(): boolean {
    return this.#readUpTo === this.#changes
  }

  #isPublic(type: string): boolean {
    return this.#queue.types.get(type)?.publicStreams.includes(this.name) ?? false
  }

  /** The same object for all who are at the same place, so that it is encoded once. */
  #piece(text: PublicText): TextPiece {
    const key = `${text.attempt}/${text.offset}/${text.text.length}/${text.done}/${text.final}`
    if (this.#pieces.size > MOST_PIECES) this.#pieces.clear()
    return remembered(this.#pieces, key, () => new TextPiece({ id: this.id, name: this.name }, text))
  }

  #remembered(place: StreamPlace | null): StreamText | undefined {
    const known = this.#window
    if (!known) return undefined
    const from = place === null || place.attempt < known.attempt ? { attempt: known.attempt, offset: 0 } : place
    const end = endOf(known)
    if (from.attempt !== known.attempt || from.offset < known.offset || from.offset > end) return undefined
    return from.offset < end || this.#isFresh ? partOf(known, from.offset) : undefined
  }

  /** Those who ask for the same place while it is read share the read. */
  #read(place: StreamPlace | null): Promise<Found> {
    const key = place ? `${place.attempt}/${place.offset}` : ''
    return remembered(this.#reads, key, () => this.#readOnce(place).finally(() => this.#reads.delete(key)))
  }

  async #readOnce(place: StreamPlace | null): Promise<Found> {
    const changes = this.#changes
    try {
      const found = (await this.#queue.readStream(this.id, this.name, place ?? undefined, PIECE)) ?? 'none'
      if (found !== 'none') this.#remember(found)
      const hasAll = found === 'none' || (isWhole(found) && endOf(found) === endOf(this.#window!))
      if (hasAll) this.#readUpTo = changes
      // Who came to share this read after a change has not seen that change.
      if (changes !== this.#changes) queueMicrotask(() => this.#tellAll())
      return found
    } catch (error) {
      if (!isPassing(error)) throw error
      this.#again ??= setTimeout(() => {
        this.#again = undefined
        this.#tellAll()
      }, AGAIN_MS).unref()
      return 'away'
    }
  }

  #tellAll(): void {
    for (const reader of [...this.readers]) reader.grown(this)
  }

  #remember(found: StreamText): void {
    this.#pieces.clear()
    const known = this.#window
    if (!known || found.attempt > known.attempt) return void (this.#window = found)
    const overlap = endOf(known) - found.offset
    if (found.attempt < known.attempt || overlap < 0 || endOf(found) < endOf(known)) return
    const text = known.text + found.text.slice(overlap)
    const start = wholeFrom(text, Math.max(0, text.length - WINDOW))
    this.#window = { ...found, offset: known.offset + start, text: text.slice(start) }
  }
}

function endOf({ offset, text }: StreamText): number {
  return offset + text.length
}

/** Whether the piece reaches the end of what there was: only a full one may not, and it may lack half a surrogate pair. */
function isWhole(found: StreamText): boolean {
  return found.text.length < PIECE - 1
}

/** What follows upon an offset within it. */
function partOf(known: StreamText, offset: number): StreamText {
  const start = wholeFrom(known.text, offset - known.offset)
  const end = wholeFrom(known.text, Math.min(known.text.length, start + PIECE))
  return {
    ...known,
    offset: known.offset + start,
    text: known.text.slice(start, end),
    done: known.done && end === known.text.length,
  }
}

/** The index, or the one before where a surrogate pair stands on both sides of it. */
function wholeFrom(text: string, index: number): number {
  return isCut(text, index) ? index - 1 : index
}
