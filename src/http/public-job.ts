/**
 * What leaves the server about a job: these members and no others. Payload, error texts, stacks, history, claim and worker are for the
 * people who run the product, not for those who use it.
 */
import { fileOf } from '../files.js'
import type { PreparedType } from '../job-type.js'
import { readJson } from '../json.js'
import { LOCALES, textIn, userMessage, type Locale } from '../messages.js'
import type { JobRow } from '../store.js'
import { isFinal } from '../transition.js'
import { codeForUser } from '../worker/words.js'
import { fileOfJob } from './job-file.js'
import type { PublicJob, PublicStage } from './public.js'

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
    progress: row.status === 'succeeded' ? 1 : row.progress,
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
