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
import { jsonText, refusals } from './respond.js'

/** - `gone`: there is no such job, or not any more · `broken`: it cannot be followed, which the log explains · `closed`: the handler is */
export type End = 'gone' | 'broken' | 'closed'

export interface Viewer {
  changed(job: FollowedJob): void
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
  #row: JobRow | undefined

  constructor(id: string, project: (row: JobRow, locale: Locale) => string) {
    this.id = id
    this.#project = project
  }

  get known(): boolean {
    return this.#row !== undefined
  }
  get rev(): number {
    return this.#row!.rev
  }
  get final(): boolean {
    return isFinal(this.#row!.status)
  }

  /** The newest public snapshot, as JSON. */
  text(locale: Locale): string {
    return remembered(this.#texts, locale, () => this.#project(this.#row!, locale))
  }

  /** The same as an event of a stream, encoded once for all who read it. */
  event(locale: Locale): Uint8Array {
    return remembered(this.#events, locale, () => encoder.encode(`id: ${this.rev}\nevent: job\ndata: ${this.text(locale)}\n\n`))
  }

  /** Whether the row is news. What was read before what is known is none. */
  take(row: JobRow): boolean {
    if (this.#row && (row.rev < this.rev || !differs(this.#row, row))) return false
    this.#row = row
    this.#texts.clear()
    this.#events.clear()
    return true
  }
}

export class Hub {
  readonly #queue: Queue
  readonly #basePath: string
  readonly #jobs = new Map<string, { job: FollowedJob; unfollow: () => void }>()
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

  #take(job: FollowedJob, row: JobRow): void {
    if (job.take(row)) for (const viewer of [...job.viewers]) this.#show(job, viewer)
  }

  /** Never throws: one row that cannot be shown must not keep the others from their readers. */
  #show(job: FollowedJob, viewer: Viewer): void {
    try {
      viewer.changed(job)
    } catch (error) {
      this.#queue.logger.error({ err: error, jobId: job.id }, 'a job could not be shown')
      this.leave(job, viewer)
      viewer.ended(job, 'broken')
    }
  }

  #fail(job: FollowedJob, error: unknown): void {
    const code = error instanceof JobtableError ? error.code : undefined
    if (code === 'job_not_found') return this.#end(job, 'gone')
    if (code === 'queue_closed') return this.#end(job, 'closed')
    this.#queue.logger.error({ err: error, jobId: job.id }, 'a job could not be followed')
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

function remembered<Key, Value>(values: Map<Key, Value>, key: Key, make: () => Value): Value {
  let value = values.get(key)
  if (value === undefined) values.set(key, (value = make()))
  return value
}
