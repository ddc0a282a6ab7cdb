/** The streams of the model store: the whole text of each, by job and name. */
import {
  byName,
  infoOf,
  textOf,
  type StreamAppend,
  type StreamInfo,
  type StreamPlace,
  type StreamText,
} from '../streams/record.js'
import type { JobRow } from '../store.js'

interface Stream {
  attempt: number
  token: string | null
  text: string
  ended: boolean
}

export class ModelStreams {
  readonly #jobs = new Map<string, Map<string, Stream>>()

  /** For a row whose claim is held. */
  append(row: JobRow, { name, offset, text, done }: StreamAppend): void {
    const streams = this.#jobs.get(row.id) ?? new Map<string, Stream>()
    this.#jobs.set(row.id, streams)
    const before = streams.get(name)
    const mine = before?.token === row.claimToken ? before : this.#begin(row, before)
    streams.set(name, mine)
    // What is there already was appended before, by a call whose answer was lost.
    if (offset < mine.text.length) return
    mine.text += text
    mine.ended ||= done
  }

  #begin({ attempts, claimToken }: JobRow, before: Stream | undefined): Stream {
    return { attempt: Math.max(attempts, (before?.attempt ?? 0) + 1), token: claimToken, text: '', ended: false }
  }

  of(row: JobRow | undefined): StreamInfo[] {
    if (row === undefined) return []
    const { status } = row
    const streams = [...(this.#jobs.get(row.id) ?? [])]
    return byName(
      streams.map(([name, { attempt, text, ended }]) => infoOf(name, { status, attempt, length: text.length, ended })),
    )
  }

  read(row: JobRow | undefined, name: string, after: StreamPlace | null, limit: number | null): StreamText | undefined {
    const stream = row && this.#jobs.get(row.id)?.get(name)
    if (!stream) return undefined
    const { attempt, text, ended } = stream
    const from = after?.attempt === attempt && after.offset <= text.length ? after.offset : 0
    const pieces = [{ offset: 0, text }]
    return textOf({ status: row.status, attempt, length: text.length, ended, from, pieces }, limit)
  }

  forget(jobId: string): void {
    this.#jobs.delete(jobId)
  }
}
