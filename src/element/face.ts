/** What the element shows of a job, as data: no document is needed to say it. */
import type { JobsError, PublicJob } from '../client/index.js'
import type { Words } from './words.js'

export interface Face {
  /** For styles: the job's status, `loading` or `error`. */
  state: PublicJob['status'] | 'loading' | 'error'
  /** What happens now. */
  label: string
  /** From 0 to 1; null where it is not known. */
  progress: number | null
  /** More about it, or empty. */
  detail: string
  /** What is said aloud when it has changed: no number that ticks. */
  spoken: string
  cancelable: boolean
  /** The name of the file, where there is one. */
  file: string | null
  /** Whether the detail changes by itself, each second. */
  ticks: boolean
}

/** `now` is in milliseconds since 1970. */
export function faceOf(job: PublicJob | undefined, error: JobsError | undefined, words: Words, now: number): Face {
  if (error && !job?.final) return still('error', error.status === 404 ? words.gone : words.forbidden)
  if (!job) return { ...still('loading', words.loading), spoken: '' }
  if (job.final) return ended(job, words)
  if (job.cancelRequested) return { ...still(job.status, words.canceling), progress: progressOf(job) }
  const label = job.status === 'running' && job.stage ? job.stage.label : words[job.status]
  const step = job.status === 'running' ? stepOf(job, words) : ''
  const next = job.status === 'retrying' ? attemptOf(job, words) : ''
  return {
    state: job.status,
    label,
    progress: job.status === 'running' ? progressOf(job) : null,
    detail: join(step, next && waitOf(job, words, now), next),
    spoken: join(label, step, next),
    cancelable: true,
    file: null,
    ticks: job.retryAt !== null,
  }
}

function ended(job: PublicJob, words: Words): Face {
  const detail = job.status === 'failed' ? (job.userMessage ?? '') : ''
  return {
    ...still(job.status, words[job.status]),
    progress: job.status === 'succeeded' ? 1 : null,
    detail,
    spoken: join(words[job.status], detail),
    file: job.file?.name ?? null,
  }
}

function still(state: Face['state'], label: string): Face {
  return { state, label, progress: null, detail: '', spoken: label, cancelable: false, file: null, ticks: false }
}

/**
 * What the handler reports, or how many of the stages lie behind where that is more: a handler that goes through stages before it reports anything
 * does not go back then.
 */
function progressOf({ progress, stage }: PublicJob): number | null {
  const behind = stage && stage.index !== null ? stage.index / stage.count : null
  return progress === null ? behind : Math.min(1, Math.max(0, progress, behind ?? 0))
}

function stepOf({ stage }: PublicJob, words: Words): string {
  return stage && stage.index !== null && stage.count > 1 ? words.step(stage.index + 1, stage.count) : ''
}

function waitOf({ retryAt }: PublicJob, words: Words, now: number): string {
  return retryAt === null ? '' : words.next(Math.max(0, Math.ceil((Date.parse(retryAt) - now) / 1_000)))
}

/** The one that comes next. */
function attemptOf({ attempt, maxAttempts }: PublicJob, words: Words): string {
  return words.attempt(attempt + 1, maxAttempts)
}

function join(...parts: string[]): string {
  return parts.filter((part) => part !== '').join(' · ')
}
