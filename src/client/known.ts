/**
 * The newest that is known of each job, and who looks at it. Whatever comes, from a connection, another tab or an answer, passes through
 * here, and never goes back: a snapshot counts by its `rev`, a text by its attempt and its length.
 */
import type { PublicJob, PublicText } from '../http/public.js'
import type { JobsError } from './errors.js'

/** All of a stream's text so far. */
export interface StreamedText {
  /** The whole text, from its beginning. */
  text: string
  /** Where the news begins: what is before it was shown already. 0 when another attempt has begun, which replaces the text. */
  offset: number
  /** Which run of the handler has written it. 0 where there is no such stream. */
  attempt: number
  /** Nothing follows in this attempt. */
  done: boolean
  /** Nothing follows at all. */
  final: boolean
}

/** What a page, or another tab, wants to know of a job. */
export interface Want {
  id: string
  /** The names of its streams whose texts are wanted. */
  texts: string[]
}

/** What a connection or another tab tells. */
export type News = { job: PublicJob } | { text: PublicText & { id: string; name: string } }

export interface Watcher {
  /** Of the text with this name; of the job where there is none. */
  name: string | undefined
  show(value: PublicJob | StreamedText): void
  onError?: (error: JobsError) => void
  onConnection?: (isLive: boolean) => void
}

export class Known {
  readonly id: string
  readonly watchers = new Set<Watcher>()
  readonly texts = new Map<string, StreamedText>()
  job: PublicJob | undefined
  /**
   * How a tab that does not lead comes by it: from the one that does, once the server has let this one in itself; or, where the leader may
   * not read it, from the server. Until that is known it is from the server too.
   */
  source: 'leader' | 'server' | undefined

  constructor(id: string) {
    this.id = id
  }

  /** Whether it was news. */
  take(news: News): boolean {
    if ('text' in news) return this.#takeText(news.text)
    if (this.job && news.job.rev <= this.job.rev) return false
    this.job = news.job
    this.#show(undefined, news.job)
    return true
  }

  #takeText({ name, attempt, offset, text, done, final }: PublicText & { name: string }): boolean {
    const known = this.texts.get(name)
    const before = attempt === known?.attempt ? known.text : ''
    const now = { text: before.slice(0, offset) + text, offset: before.length, attempt, done, final }
    // A gap is of a tab that has come late, and is told the whole.
    if (known?.final || offset > before.length || (known && !isNewer(now, known))) return false
    this.texts.set(name, now)
    this.#show(name, now)
    return true
  }

  #show(name: string | undefined, value: PublicJob | StreamedText): void {
    for (const watcher of [...this.watchers]) {
      if (watcher.name !== name) continue
      try {
        watcher.show(value)
      } catch (error) {
        // What a page's own function throws is the page's to hear of, and no fault of the connection.
        queueMicrotask(() => {
          throw error
        })
      }
    }
  }

  /** What is still to come of what is wanted, or undefined. */
  missing(names: Iterable<string>): Want | undefined {
    const texts = [...new Set(names)].filter((name) => !this.texts.get(name)?.final)
    return texts.length > 0 || !this.job?.final ? { id: this.id, texts } : undefined
  }

  /** All of it, for whoever comes late. */
  *all(): Iterable<News> {
    if (this.job) yield { job: this.job }
    for (const [name, text] of this.texts) yield { text: { ...text, offset: 0, id: this.id, name } }
  }
}

function isNewer(now: StreamedText, known: StreamedText): boolean {
  const more = now.attempt - known.attempt || now.text.length - known.text.length
  return more > 0 || (more === 0 && (now.final || now.done !== known.done))
}
