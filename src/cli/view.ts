/**
 * A job as this program shows it: without secrets, and never so long that one odd row fills the screen or the pipe. The
 * shapes are documented in `docs/cli.md`, and change only by additions.
 */
import { maskPayload, maskSecrets } from '../mask.js'
import type { JobRow } from '../store.js'
import { iso } from './format.js'

/** Texts longer than this are cut. */
const LONGEST_TEXT = 4_000
/** So much of a text's end is dropped when it is cut: it may be half of a secret, which nothing would recognise. */
const UNSURE_END = 1_000
/** Members of one array or object, and values in all, that are shown. */
const MOST_MEMBERS = 200
const MOST_VALUES = 5_000

export interface JobJson {
  id: string
  type: string
  queue: string
  status: string
  held: boolean
  priority: number
  attempts: number
  maxAttempts: number | null
  waits: number
  runAfter: string | null
  createdAt: string | null
  updatedAt: string | null
  finishedAt: string | null
  lockedAt: string | null
  lockedBy: string | null
  cancelRequestedAt: string | null
  stage: string | null
  progress: number | null
  idempotencyKey: string | null
  supersededBy: string | null
  lastError: string | null
  userMessage: string | null
}

export function jobJson(row: JobRow): JobJson {
  return {
    id: row.id,
    type: row.type,
    queue: row.queue,
    status: row.status,
    held: row.held,
    priority: row.priority,
    attempts: row.attempts,
    maxAttempts: row.maxAttempts,
    waits: row.waits,
    runAfter: iso(row.runAfter),
    createdAt: iso(row.createdAt),
    updatedAt: iso(row.updatedAt),
    finishedAt: iso(row.finishedAt),
    lockedAt: iso(row.lockedAt),
    lockedBy: row.lockedBy,
    cancelRequestedAt: iso(row.cancelRequestedAt),
    stage: row.stage,
    progress: row.progress,
    idempotencyKey: row.idempotencyKey === null ? null : maskSecrets(row.idempotencyKey),
    supersededBy: row.supersededBy,
    lastError: row.lastError === null ? null : safeText(row.lastError),
    userMessage: row.userMessage === null ? null : safeText(row.userMessage),
  }
}

/** The text masked, and cut where it is too long. */
export function safeText(text: string): string {
  if (text.length <= LONGEST_TEXT + UNSURE_END) return maskSecrets(text)
  const start = maskSecrets(text.slice(0, LONGEST_TEXT + UNSURE_END)).slice(0, -UNSURE_END)
  return `${start.toWellFormed()}… (${text.length} characters in all)`
}

export interface SafeValue {
  value: unknown
  /** Whether a part of it was left out because of its size. */
  shortened: boolean
}

/** A stored JSON text as a value to show: masked, and shortened unless the whole of it is wanted. Never throws. */
export function safeJson(text: string, whole: boolean): SafeValue {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    value = text // Written by somebody who got round the table's checks.
  }
  if (whole) return { value: maskPayload(value), shortened: false }
  const budget = { values: MOST_VALUES, shortened: false }
  return { value: maskPayload(shorten(value, budget)), shortened: budget.shortened }
}

function shorten(value: unknown, budget: { values: number; shortened: boolean }): unknown {
  budget.values--
  if (typeof value === 'string') {
    if (value.length <= LONGEST_TEXT + UNSURE_END) return value
    budget.shortened = true
    return safeText(value)
  }
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value)
  const shown: [string, unknown][] = []
  for (const [name, member] of entries) {
    if (shown.length >= MOST_MEMBERS || budget.values <= 0) break
    shown.push([name, shorten(member, budget)])
  }
  const rest = entries.length - shown.length
  if (rest > 0) budget.shortened = true
  if (Array.isArray(value)) return [...shown.map(([, member]) => member), ...(rest > 0 ? [`… ${rest} more`] : [])]
  return Object.fromEntries(rest > 0 ? [...shown, ['…', `${rest} more`]] : shown)
}
