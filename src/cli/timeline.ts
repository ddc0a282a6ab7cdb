/** What happened to a job, in order: its row, its history of attempts and its events, merged. */
import { maskPayload, maskSecrets } from '../mask.js'
import type { JobEvent, JobRow } from '../store.js'
import { iso } from './format.js'
import { safeText } from './view.js'

export interface TimelineEntry {
  /** ISO text; null where nothing says when. */
  at: string | null
  /** `created`, `claimed`, `error`, a final status, or the kind of an event: `stage`, `log`, `canceled`, `repaired` ... */
  kind: string
  attempt: number | null
  message: string
  /** For an error: its class and code, who can mend it, its name, stack and worker. For an event: its data. */
  details: unknown
}

type Entry = TimelineEntry & { order: number }

export function timelineOf(row: JobRow, events: readonly JobEvent[]): TimelineEntry[] {
  const entries: Entry[] = []
  // An entry without a time of its own stays behind the one before it.
  const add = (at: unknown, entry: Omit<TimelineEntry, 'at'>): void => {
    const time = iso(at as number)
    entries.push({ at: time, ...entry, order: time === null ? (entries.at(-1)?.order ?? 0) : (at as number) })
  }
  add(row.createdAt, { kind: 'created', attempt: null, message: 'enqueued', details: null })
  for (const { at, kind, attempt, message, data } of events)
    add(at, { kind, attempt, message: safeText(message), details: parse(data) })
  const told = new Set(events.map(({ at, kind }) => `${kind} ${at}`))
  for (const entry of row.history) {
    const { at, attempt, kind, message, ...details } = partsOf(entry)
    // A repair is in both, at the same moment.
    if (kind === 'repaired' && told.has(`repaired ${String(at)}`)) continue
    add(at, {
      kind: kind === 'repaired' ? kind : 'error',
      attempt: typeof attempt === 'number' ? attempt : null,
      message: safeText(typeof message === 'string' ? message : (JSON.stringify(entry) ?? '')),
      details: maskPayload({ kind, ...details }),
    })
  }
  if (row.status === 'running')
    add(row.lockedAt, {
      kind: 'claimed',
      attempt: row.attempts,
      message: `claimed by ${row.lockedBy ?? '(nobody)'}`,
      details: null,
    })
  const final = row.status === 'succeeded' || row.status === 'failed' || row.status === 'canceled'
  if (final && !told.has(`${row.status} ${row.finishedAt}`)) {
    add(row.finishedAt, {
      kind: row.status,
      attempt: row.attempts,
      message: row.status === 'canceled' ? 'the job was canceled' : `the job ${row.status}`,
      details: null,
    })
  }
  return entries.toSorted((a, b) => a.order - b.order).map(({ order: _, ...entry }) => entry)
}

/** Somebody may have written anything into the column. */
function partsOf(entry: unknown): Record<string, unknown> {
  return typeof entry === 'object' && entry !== null ? { ...entry } : {}
}

function parse(data: string | null): unknown {
  if (data === null) return null
  try {
    return maskPayload(JSON.parse(data))
  } catch {
    return maskSecrets(data)
  }
}
