/**
 * The jobs that somebody looks at now. Each is followed once and made into text once per change and language, however many look; a
 * job that nobody looks at is let go. A newcomer is shown what is known of a followed job, with no read of the database.
 */
import { JobtableError } from '../errors.js'
import { differs } from '../job.js'
import type { Locale } from '../messages.js'
import type { Queue } from '../queue.js'
import type { JobRow } from '../store.js'
import { isFinal } from '../transition.js'
import { publicJob } from './public-job.js'
import { remembered } from './remembered.js'
import { jsonText, refusals } from './respond.js'
import { FollowedText, isNews, type TextPiece, type TextPlace, type TextReader } from './text.js'

/** - `gone`: there is no such job, or not any more · `broken`: it cannot be followed, which the log explains · `closed`: the handler is */
export type End = 'gone' | 'broken' | 'closed'

export interface Viewer {
  /** There is another snapshot to be shown. */
  changed(job: FollowedJob): void
  /** The row has changed, or the job's streams have, whether that shows or not. */
  touched?(): void
  /** Nothing follows. */
  ended(job: FollowedJob, end: End): void
}

/** How long somebody who asks for a snapshot waits for the database. Milliseconds. */
const LONGEST_READ_MS = 5_000

const encoder = new TextEncoder()

export class FollowedJob {
  readonly id: string
  readonly viewers = new Set<Viewer>()
  readonly #project: (row: JobRow, locale: Locale) => string
  readonly #texts = new Map<Locale, string>()
  readonly #events = new Map<Locale, Uint8Array>()
  /** As it was read last, and as it is shown: what a row has that no end user sees makes no new snapshot. */
  #row: JobRow | undefined
  #shown: { row: JobRow; face: string } | undefined

  constructor(id: string, project: (row: JobRow, locale: Locale) => string) {
    this.id = id
    this.#project = project
  }

  get known(): boolean {
    return this.#row !== undefined
  }
  get rev(): number {
    return this.#shown!.row.rev
  }
  get final(): boolean {
    return isFinal(this.#row!.status)
  }
  get type(): string {
    return this.#row!.type
  }

  /** The newest public snapshot, as JSON. */
  text(locale: Locale): string {
    return remembered(this.#texts, locale, () => this.#project(this.#shown!.row, locale))
  }

  /** The same as an event of a stream, encoded once for all who read it. */
  event(locale: Locale): Uint8Array {
    return remembered(this.#events, locale, () => encoder.encode(`id: ${this.rev}\nevent: job\ndata: ${this.text(locale)}\n\n`))
  }

  /** Whether the row is news, and whether it shows. What was read before what is known is none. */
  take(row: JobRow): 'shows' | 'touched' | 'known' {
    if (this.#row && (row.rev < this.#row.rev || !differs(this.#row, row))) return 'known'
    this.#row = row
    // What differs in one language differs in the other.
    const face = this.#project({ ...row, rev: 0 }, 'en')
    if (face === this.#shown?.face) return 'touched'
    this.#shown = { row, face }
    this.#texts.clear()
    this.#events.clear()
    return 'shows'
  }
}

export class Hub {
  readonly #queue: Queue
  readonly #basePath: string
  readonly #jobs = new Map<string, { job: FollowedJob; unfollow: () => void }>()
  readonly #texts = new Map<string, FollowedText>()
  #closed = false

  constructor(queue: Queue, basePath: string) {
    this.#queue = queue
    this.#basePath = basePath
  }

  /** The viewer is shown the job as soon as it is known, which may be before this returns, and after each change. */
  follow(id: string, viewer: Viewer): FollowedJob {
    const job = this.#jobs.get(id)?.job ?? this.#begin(id)
    job.viewers.add(viewer)
    if (this.#closed) queueMicrotask(() => this.#end(job, 'closed'))
    else if (job.known) this.#show(job, viewer)
    return job
  }

  leave(job: FollowedJob, viewer: Viewer): void {
    if (job.viewers.delete(viewer) && job.viewers.size === 0) this.#forget(job)
  }

  /** The reader asks the text for what follows, and is told when to ask again. */
  followText(id: string, name: string, reader: TextReader): FollowedText {
    const key = JSON.stringify([id, name])
    let text = this.#texts.get(key)
    if (!text) {
      this.#texts.set(key, (text = new FollowedText(this.#queue, this, id, name)))
      text.begin()
    }
    text.readers.add(reader)
    return text
  }

  leaveText(text: FollowedText, reader: TextReader): void {
    if (!text.readers.delete(reader) || text.readers.size > 0) return
    this.#texts.delete(JSON.stringify([text.id, text.name]))
    text.end()
  }

  /** Shows a row that was read elsewhere, such as the one that a cancellation answers with. */
  saw(row: JobRow): void {
    const job = this.#jobs.get(row.id)?.job
    if (job) this.#take(job, row)
  }

  /** The snapshot of a row that was read elsewhere. */
  textOf(row: JobRow, locale: Locale): string {
    return jsonText(publicJob(row, this.#queue.types.get(row.type), locale, this.#basePath))
  }

  /** The job once it is known; throws a refusal. */
  async known(id: string): Promise<FollowedJob> {
    const job = await this.wait(id, () => true, LONGEST_READ_MS)
    if (job) return job
    throw refusals.unavailable()
  }

  /** The job once `until` says so of it; undefined when the time is up, the signal aborts or the handler is closed. */
  wait(id: string, until: (job: FollowedJob) => boolean, ms: number, signal?: AbortSignal): Promise<FollowedJob | undefined> {
    return new Promise((resolve, reject) => {
      const finish = (settle: () => void): void => {
        clearTimeout(timer)
        signal?.removeEventListener('abort', giveUp)
        settle()
        // The job may have been shown before `follow` could return it.
        queueMicrotask(() => this.leave(job, viewer))
      }
      const giveUp = (): void => finish(() => resolve(undefined))
      const viewer: Viewer = {
        changed: (news) => {
          if (until(news)) finish(() => resolve(news))
        },
        ended: (_, end) => {
          if (end === 'closed') giveUp()
          else finish(() => reject(end === 'gone' ? refusals.noJob() : refusals.internal()))
        },
      }
      const timer = setTimeout(giveUp, ms)
      signal?.addEventListener('abort', giveUp)
      const job = this.follow(id, viewer)
      if (signal?.aborted) giveUp()
    })
  }

  /**
   * What follows upon a place in a text; undefined when nothing does within the time, the signal aborts or the handler is closed. Throws a
   * refusal.
   */
  textAfter({ id, name, place, done }: TextPlace, ms: number, signal: AbortSignal): Promise<TextPiece | undefined> {
    return new Promise((resolve, reject) => {
      const until = performance.now() + ms
      let isKnown = false
      const finish = (settle: () => void): void => {
        clearTimeout(timer)
        signal.removeEventListener('abort', giveUp)
        this.leaveText(text, reader)
        settle()
      }
      const giveUp = (): void => finish(() => resolve(undefined))
      const timeUp = (): void => (isKnown ? giveUp() : finish(() => reject(refusals.unavailable())))
      const look = (): void => void text.after(place).then(looked, failed)
      const looked = (answer: TextPiece | 'none' | undefined): void => {
        isKnown ||= answer !== undefined
        if (answer && answer !== 'none' && isNews(answer, place, done)) finish(() => resolve(answer))
        else if (answer && performance.now() >= until) giveUp()
      }
      const failed = (cause: unknown): void =>
        finish(() => reject(cause instanceof Error ? cause : new Error('the text could not be read', { cause })))
      const reader: TextReader = {
        grown: look,
        textEnded: (_, end) => {
          if (end === 'closed') giveUp()
          else finish(() => reject(end === 'gone' ? refusals.noJob() : refusals.internal()))
        },
      }
      // However little they want to wait, the database is read once.
      const timer = setTimeout(timeUp, ms || LONGEST_READ_MS)
      signal.addEventListener('abort', giveUp)
      const text = this.followText(id, name, reader)
      look()
      if (signal.aborted) giveUp()
    })
  }

  log(error: unknown, jobId: string, message: string): void {
    this.#queue.logger.error({ err: error, jobId }, message)
  }

  close(): void {
    this.#closed = true
    for (const { job } of [...this.#jobs.values()]) this.#end(job, 'closed')
  }

  #begin(id: string): FollowedJob {
    const job = new FollowedJob(id, (row, locale) => this.textOf(row, locale))
    const entry = { job, unfollow: () => {} }
    this.#jobs.set(id, entry)
    const follower = { seen: (row: JobRow) => this.#take(job, row), failed: (error: unknown) => this.#fail(job, error) }
    if (!this.#closed) {
      this.#queue.follow(id, follower).then(
        (unfollow) => {
          if (this.#jobs.get(id) === entry) entry.unfollow = unfollow
          else unfollow() // Everybody left meanwhile.
        },
        (error: unknown) => this.#fail(job, error),
      )
    }
    return job
  }

  /** Never throws, as below. */
  #take(job: FollowedJob, row: JobRow): void {
    const news = this.#newsOf(job, row)
    if (news === 'known') return
    for (const viewer of [...job.viewers]) viewer.touched?.()
    if (news === 'shows') for (const viewer of [...job.viewers]) this.#show(job, viewer)
  }

  #newsOf(job: FollowedJob, row: JobRow): ReturnType<FollowedJob['take']> {
    try {
      return job.take(row)
    } catch (error) {
      this.log(error, job.id, 'a job could not be shown')
      this.#end(job, 'broken')
      return 'known'
    }
  }

  /** Never throws: one row that cannot be shown must not keep the others from their readers. */
  #show(job: FollowedJob, viewer: Viewer): void {
    try {
      viewer.changed(job)
    } catch (error) {
      this.log(error, job.id, 'a job could not be shown')
      this.leave(job, viewer)
      viewer.ended(job, 'broken')
    }
  }

  #fail(job: FollowedJob, error: unknown): void {
    const code = error instanceof JobtableError ? error.code : undefined
    if (code === 'job_not_found') return this.#end(job, 'gone')
    if (code === 'queue_closed') return this.#end(job, 'closed')
    this.log(error, job.id, 'a job could not be followed')
    this.#end(job, 'broken')
  }

  #end(job: FollowedJob, end: End): void {
    this.#forget(job)
    const viewers = [...job.viewers]
    job.viewers.clear()
    for (const viewer of viewers) viewer.ended(job, end)
  }

  #forget(job: FollowedJob): void {
    const entry = this.#jobs.get(job.id)
    if (entry?.job !== job) return
    this.#jobs.delete(job.id)
    entry.unfollow()
  }
}
