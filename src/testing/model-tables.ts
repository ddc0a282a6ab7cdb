/** What the model store keeps, and how it says that it cannot. */
import { JobtableError } from '../errors.js'
import type { Change, CountRow, JobEvent, JobRow, WorkerRow } from '../store.js'
import type { StoredJob } from './model-rules.js'
import { ModelSteps } from './model-steps.js'
import { ModelStreams } from './model-streams.js'

export interface Tables {
  /** 0 before `migrate`. */
  version: number
  jobs: Map<string, StoredJob>
  events: Map<string, JobEvent[]>
  workers: Map<string, WorkerRow>
  steps: ModelSteps
  streams: ModelStreams
  watchers: Set<Watcher>
}

interface Watcher {
  listener: (change: Change) => void
  owner: object
}

export function emptyTables(): Tables {
  return {
    version: 0,
    jobs: new Map(),
    events: new Map(),
    workers: new Map(),
    steps: new ModelSteps(),
    streams: new ModelStreams(),
    watchers: new Set(),
  }
}

/** So that a row which nobody has changed is the same object. */
const held = new WeakMap<JobRow, JobRow>()

/** A row with what its steps say of it. */
export function rowOf({ jobs, steps }: Tables, id: string): JobRow | undefined {
  const row = jobs.get(id)?.row
  if (row?.status !== 'failed' || row.supersededBy !== null || !steps.inDoubt(id)) return row
  const so = held.get(row) ?? { ...row, held: true }
  held.set(row, so)
  return so
}

export function noTransactions(): JobtableError {
  return new JobtableError('config_invalid', 'the model store is in no database whose transactions a product could have')
}

export function closed(): JobtableError {
  return new JobtableError('store_unavailable', 'the model store is closed: open another')
}

export function countRows(rows: readonly JobRow[], isDue: (row: JobRow) => boolean): CountRow[] {
  const counts = new Map<string, CountRow>()
  for (const row of rows) {
    const { type, queue, status, runAfter } = row
    const group = JSON.stringify([type, queue, status])
    const so = counts.get(group) ?? { type, queue, status, count: 0, due: 0, oldestRunAfter: Infinity }
    const due = so.due + (isDue(row) ? 1 : 0)
    counts.set(group, { ...so, count: so.count + 1, due, oldestRunAfter: Math.min(so.oldestRunAfter, runAfter) })
  }
  return [...counts.values()]
}
