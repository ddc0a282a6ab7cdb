/** Option values that several commands share, checked as they are read. */
import { InvalidArgumentError, type Command } from 'commander'
import { parseDuration, type Duration } from '../duration.js'
import { messageOf } from './failure.js'
import { encodeKey, type KeyPart, type OnDuplicate } from '../idempotency.js'
import type { JobFilter } from '../store.js'
import { STATUSES, type Status } from '../transition.js'

export const ON_DUPLICATE: readonly OnDuplicate[] = ['return_existing_file', 'return_previous_result', 'ignore_duplicate']

/** Commander puts "argument is invalid" and the option's name before the message. */
function refuse(message: string): never {
  throw new InvalidArgumentError(message)
}

export function duration(text: string): Duration {
  try {
    parseDuration(text as Duration)
    return text as Duration
  } catch (error) {
    return refuse(`${messageOf(error)}.`)
  }
}

export function wholeNumber(least: number, most: number): (text: string) => number {
  return (text) => {
    const value = Number(text)
    if (/^-?\d+$/.test(text) && value >= least && value <= most) return value
    return refuse(`Give a whole number from ${least} to ${most}.`)
  }
}

export function time(text: string): Date {
  const date = new Date(text)
  // Date also takes years such as "1" and words in English.
  if (/^\d{4}-\d{2}-\d{2}(?:[T ][\d:.]+(?:Z|[+-]\d{2}:?\d{2})?)?$/.test(text) && !Number.isNaN(date.getTime())) return date
  return refuse('Give a time such as 2030-01-31T09:00:00Z; without a zone it is local time.')
}

/** Collects a repeatable option. */
export function each(text: string, before: readonly string[] = []): string[] {
  return [...before, text]
}

function eachStatus(allowed: readonly Status[] = STATUSES): (text: string, before?: readonly Status[]) => Status[] {
  return (text, before = []) => {
    const statuses = text.split(',').map((status) => status.trim())
    const unknown = statuses.find((status) => !(allowed as readonly string[]).includes(status))
    if (unknown !== undefined) refuse(`Statuses are ${allowed.join(', ')}.`)
    return [...before, ...(statuses as Status[])]
  }
}

/** A part of a key as the payload would hold it: `42` and `true` are no texts, `"42"` is one. */
export function keyPart(text: string): KeyPart {
  if (text === 'true' || text === 'false') return text === 'true'
  if (String(Number(text)) === text && Number.isFinite(Number(text))) return Number(text)
  const quoted = /^"(?:true|false|-?[\d.e+]+)"$/.test(text)
  return quoted ? text.slice(1, -1) : text
}

/** The key as it is stored. A single part that looks like a stored key is taken as one. */
function storedKey(parts: readonly string[]): string {
  const [only = ''] = parts
  if (parts.length === 1 && (/^\[.+\]$/.test(only) || /^sha256:[0-9a-f]{64}$/.test(only))) return only
  return encodeKey(
    '--key',
    parts.map((part, i) => [`part ${i + 1}`, keyPart(part)]),
  )
}

export interface FilterOptions {
  status?: Status[]
  type?: string[]
  queue?: string[]
  olderThan?: Duration
  youngerThan?: Duration
  error?: string
  key?: string[]
}

export function addFilterOptions(command: Command, statuses?: readonly Status[]): Command {
  return command
    .option(
      '-s, --status <status>',
      `${(statuses ?? STATUSES).join(', ')}; repeatable, or separated by commas`,
      eachStatus(statuses),
    )
    .option('-t, --type <type>', 'only jobs of this type; repeatable', each)
    .option('-q, --queue <queue>', 'only jobs of this queue; repeatable', each)
    .option('--older-than <duration>', 'only jobs enqueued at least this long ago, such as 30m, 2h or 7d', duration)
    .option('--younger-than <duration>', 'only jobs enqueued at most this long ago', duration)
    .option('--error <text>', 'only jobs whose newest error contains this text, in any case of letters')
    .option('--key <part>', 'only jobs with this idempotency key; repeat it for each part', each)
}

export function toFilter(options: FilterOptions): JobFilter {
  const { status, type, queue, olderThan, youngerThan, error, key } = options
  return {
    ...(status && { status }),
    ...(type && { type }),
    ...(queue && { queue }),
    ...(olderThan && { olderThanMs: parseDuration(olderThan) }),
    ...(youngerThan && { youngerThanMs: parseDuration(youngerThan) }),
    ...(error !== undefined && { errorContains: error }),
    ...(key && { idempotencyKey: storedKey(key) }),
  }
}
