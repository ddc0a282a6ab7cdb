/**
 * What leaves the server about a job: these members and no others. Payload, error texts, stacks, history, claim and worker are for the
 * people who run the product, not for those who use it.
 */
import { fileOf } from '../files.js'
import type { PreparedType } from '../job-type.js'
import { readJson } from '../json.js'
import { LOCALES, textIn, userMessage, type Locale } from '../messages.js'
import type { JobRow } from '../store.js'
import { isFinal, type Status } from '../transition.js'
import { codeForUser } from '../worker/words.js'
import { fileOfJob } from './job-file.js'

/** A job as its end user may see it. Moments are ISO 8601 texts. */
export interface PublicJob {
  id: string
  type: string
  status: Status
  /** Whether it is over: `succeeded`, `failed` or `canceled`. A person's repair starts the latter two anew. */
  final: boolean
  /** Grows with every change: of two snapshots of a job, the one with the larger number is the newer. */
  rev: number
  stage: PublicStage | null
  /** From 0 to 1, or null where the handler reports none. */
  progress: number | null
  /** Runs started, without those that only waited or were handed back. */
  attempt: number
  /** Null where neither the row nor a type that this process knows says it. */
  maxAttempts: number | null
  /** When the next attempt is due, while the job is `retrying`. */
  retryAt: string | null
  /** Why it failed, in words for whoever ordered it. Null unless it has failed. */
  userMessage: string | null
  cancelRequested: boolean
  createdAt: string | null
  finishedAt: string | null
  /** What the handler returned, once the job has succeeded. Null for a file. */
  result: unknown
  file: PublicFile | null
  /** The names of the streams that there may be to read, as the type's `publicStreams` lists them. Their texts come on their own. */
  streams: readonly string[]
}

export interface PublicStage {
  /** As the handler names it. */
  key: string
  /** As the type's `stageLabels` name it in the reader's language; else the key. */
  label: string
  /** Its place in the type's `stages`, from 0. Null where it is none of them. */
  index: number | null
  /** How many stages the type has. */
  count: number
}

export interface PublicFile {
  name: string
  /** Bytes. */
  size: number
  contentType: string
  /** The path to download it from, on this server. It needs the action `download`. */
  url: string
}

export function publicJob(row: JobRow, type: PreparedType | undefined, locale: Locale, basePath: string): PublicJob {
  const result = row.status === 'succeeded' ? readJson(row.result) : undefined
  const file = fileOfJob(row)
  return {
    id: row.id,
    type: row.type,
    status: row.status,
    final: isFinal(row.status),
    rev: row.rev,
    stage: row.stage === null ? null : stageOf(row.stage, type, locale),
    progress: row.progress,
    attempt: row.attempts,
    maxAttempts: row.maxAttempts ?? type?.policy.maxAttempts ?? null,
    retryAt: row.status === 'retrying' ? moment(row.runAfter) : null,
    userMessage: row.status === 'failed' ? messageOf(row, type, locale) : null,
    cancelRequested: row.cancelRequestedAt !== null,
    createdAt: moment(row.createdAt),
    finishedAt: row.finishedAt === null ? null : moment(row.finishedAt),
    result: fileOf(result) ? null : (result ?? null),
    file: file && {
      name: file.name,
      size: file.size,
      contentType: file.contentType,
      url: `${basePath}/${encodeURIComponent(row.id)}/file`,
    },
    streams: type?.publicStreams ?? [],
  }
}

function stageOf(key: string, type: PreparedType | undefined, locale: Locale): PublicStage {
  const stages = type?.stages ?? []
  const labels = type?.stageLabels ?? {}
  const index = stages.indexOf(key)
  const label = Object.hasOwn(labels, key) ? textIn(labels[key], locale) : undefined
  return { key, label: label ?? key, index: index === -1 ? null : index, count: stages.length }
}

/** The row has it in the language of the worker's queue. Words that came with the error itself are in no other. */
function messageOf(row: JobRow, type: PreparedType | undefined, locale: Locale): string | null {
  const entry = row.history.at(-1)
  if (row.userMessage === null || !entry) return row.userMessage
  const inLocale = (each: Locale): string => userMessage(codeForUser(entry), each, type?.messages)
  return LOCALES.some((each) => inLocale(each) === row.userMessage) ? inLocale(locale) : row.userMessage
}

/** Null for a time that no calendar has, which only a row written by hand can hold. */
function moment(ms: number): string | null {
  const date = new Date(ms)
  return Number.isNaN(date.getTime()) ? null : date.toISOString()
}
