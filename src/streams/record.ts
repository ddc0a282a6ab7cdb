/**
 * What is stored of a job's streams: texts that a handler writes while it runs, and that others read as they grow. A stream is a list
 * of pieces in `job_streams`, each with the offset at which it begins. Offsets count UTF-16 code units, as `String.length` does, and no
 * piece ends between the halves of a surrogate pair.
 *
 *   (none) ──first append──> open ──append──> open ──append that ends it──> done
 *                             │ ^                                           │
 *                             └─┴──first append of a later claim: from 0 ───┘
 *
 * Pieces are written with the reports of a claim, and fenced like these: who lost the claim appends nothing. What a lost claim has
 * written stays until a later claim appends to the same stream; its pieces replace those before. So a reader needs to know
 * which run of the handler the text is of: a stream's `attempt` is the number of the job's attempt, but always greater than that of
 * the text it replaces, also where an attempt was handed back, or a repair has set the job's attempts to 0. Attempt and offset together
 * are a place in the stream that never means another text.
 *
 * An append is known by its offset: one that is made again, since its answer was lost, changes nothing.
 */
import { isFinal, type Status } from '../transition.js'

/** A piece of a stream's text. The pieces of one claim follow upon each other without a gap, from offset 0. */
export interface StreamAppend {
  /** Unique within the job. */
  name: string
  /** Where the text begins. */
  offset: number
  /** Well-formed and without U+0000; may be empty where it only ends the stream. */
  text: string
  /** Nothing more comes. */
  done: boolean
}

/** A place in a stream. */
export interface StreamPlace {
  attempt: number
  offset: number
}

/** A part of a stream's text. */
export interface StreamText {
  /** Which run of the handler has written it; a greater one has replaced the text of those before. */
  attempt: number
  /** Where `text` begins: the place that was asked for, or 0 where that is of another attempt. */
  offset: number
  text: string
  /** Nothing comes after this text: the stream was ended, or its job is over. */
  done: boolean
}

export interface StreamInfo {
  name: string
  attempt: number
  /** In UTF-16 code units. */
  length: number
  /** The stream was ended, or its job is over. */
  done: boolean
}

/** The part of a store that keeps streams. They are written by `report`, and with a completion by `recordIn`. */
export interface StreamStore {
  /** The streams of a job, in the order of their names. */
  streams(jobId: string): Promise<StreamInfo[]>

  /**
   * The text of a stream from a place on, at most about `limit` code units of it, or from 0 where the place is of another attempt or
   * beyond the end. Undefined where there is no such stream. Text and `done` are of one moment.
   */
  readStream(jobId: string, name: string, after: StreamPlace | null, limit: number | null): Promise<StreamText | undefined>
}

/** What a store has read: the stream as a whole, and its pieces from the one that holds `from` on, in order. */
export interface StreamReading {
  status: Status
  attempt: number
  length: number
  ended: boolean
  /** Where to begin, as `startOf` says. */
  from: number
  pieces: readonly { offset: number; text: string }[]
}

/** What a reader gets. A limit never cuts a surrogate pair; where it is smaller than one, it gets one. */
export function textOf({ status, attempt, length, ended, from, pieces }: StreamReading, limit: number | null): StreamText {
  const first = pieces[0]?.offset ?? from
  const all = pieces.map(({ text }) => text).join('')
  let start = from - first
  if (isCut(all, start)) start--
  let end = limit === null ? all.length : Math.min(all.length, start + limit)
  if (isCut(all, end)) end += end - start > 1 ? -1 : 1
  const offset = first + start
  const text = all.slice(start, end)
  return { attempt, offset, text, done: (ended || isFinal(status)) && offset + text.length === length }
}

export function infoOf(name: string, { status, attempt, length, ended }: Omit<StreamReading, 'from' | 'pieces'>): StreamInfo {
  return { name, attempt, length, done: ended || isFinal(status) }
}

/** In the order of their names, which are few. */
export function byName(streams: StreamInfo[]): StreamInfo[] {
  return streams.sort((a, b) => (a.name < b.name ? -1 : 1))
}

/** Whether a surrogate pair stands on both sides of this index. */
export function isCut(text: string, index: number): boolean {
  return isHighSurrogate(text.charCodeAt(index - 1)) && isLowSurrogate(text.charCodeAt(index))
}

export function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff
}

function isLowSurrogate(unit: number): boolean {
  return unit >= 0xdc00 && unit <= 0xdfff
}
