import type { HeaderReader } from './headers.js'
import type { Facts } from './facts.js'
import { read, readList, readPath, readString } from './read.js'

/** How long the other side asks to wait, in whole milliseconds from now, never negative. It is not capped here. */
export function waitHint(facts: Facts): number | undefined {
  return fromRetryHeaders(facts.header) ?? fromBody(facts) ?? fromResetHeaders(facts.header) ?? fromMessage(facts.message)
}

function fromRetryHeaders(header: HeaderReader): number | undefined {
  return (
    milliseconds(header('retry-after-ms')) ?? secondsOrDate(header('retry-after')) ?? milliseconds(header('x-amz-retry-after'))
  )
}

function milliseconds(value: string | undefined): number | undefined {
  return value !== undefined && isNumber(value) ? whole(Number(value)) : undefined
}

function secondsOrDate(value: string | undefined): number | undefined {
  if (value === undefined || value === '') return undefined
  return isNumber(value) ? whole(Number(value) * 1_000) : date(value)
}

/** An HTTP date or an RFC 3339 date; a past one means "now". */
function date(value: string | undefined): number | undefined {
  // Date.parse takes much that is no date, '-5' for one, so a letter or a colon is asked for.
  if (value === undefined || !/[a-z:]/i.test(value)) return undefined
  const at = Date.parse(value)
  return Number.isNaN(at) ? undefined : whole(at - Date.now())
}

const isNumber = (value: string): boolean => /^-?\d+(?:\.\d+)?$/.test(value)

function whole(ms: number): number {
  return Math.min(Math.max(0, Math.ceil(ms)), Number.MAX_SAFE_INTEGER)
}

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/** The duration of a reset header: `6m0s`, `59ms`, `1h2m3.5s`. */
function duration(value: string | undefined): number | undefined {
  if (value === undefined || !/^(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+$/.test(value)) return undefined
  let ms = 0
  for (const [, amount, unit] of value.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h|d)/g)) ms += Number(amount) * (UNITS[unit ?? ''] ?? 0)
  return whole(ms)
}

/** A window that opens again: a duration, a date, seconds, or seconds since 1970. */
function reset(value: string | undefined): number | undefined {
  if (value === undefined || !isNumber(value)) return duration(value) ?? date(value)
  const seconds = Number(value)
  return whole(seconds > 1_000_000_000 ? seconds * 1_000 - Date.now() : seconds * 1_000)
}

const LIMITS: readonly (readonly [reset: string, remaining: string])[] = [
  ...['requests', 'tokens', 'input-tokens', 'output-tokens'].map(
    (what) => [`anthropic-ratelimit-${what}-reset`, `anthropic-ratelimit-${what}-remaining`] as const,
  ),
  ...['requests', 'tokens'].map((what) => [`x-ratelimit-reset-${what}`, `x-ratelimit-remaining-${what}`] as const),
  ['x-ratelimit-reset', 'x-ratelimit-remaining'],
  ['ratelimit-reset', 'ratelimit-remaining'],
]

/** The longest wait among the limits that are used up; where none says that it is, the longest of all. */
function fromResetHeaders(header: HeaderReader): number | undefined {
  const all: number[] = []
  const used: number[] = []
  for (const [resetName, remainingName] of LIMITS) {
    const wait = reset(header(resetName))
    if (wait === undefined) continue
    all.push(wait)
    if (header(remainingName) === '0') used.push(wait)
  }
  const waits = used.length > 0 ? used : all
  return waits.length > 0 ? Math.max(...waits) : undefined
}

/** Google's RetryInfo: `{ retryDelay: '34s' }` among the details of an error. */
function fromBody(facts: Facts): number | undefined {
  for (const body of facts.bodies) {
    for (const detail of readList(readPath(body, 'error', 'details') ?? read(body, 'details'), 10)) {
      const wait = duration(readString(detail, 'retryDelay'))
      if (wait !== undefined) return wait
    }
  }
  return undefined
}

/** "Please try again in 6m0s" and "Please retry in 12.5s", where no header says so. */
function fromMessage(message: string): number | undefined {
  return duration(/(?:try again|retry) in ((?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+)/i.exec(message)?.[1])
}
