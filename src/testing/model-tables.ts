/** What the model store keeps, and how it says that it cannot. */
import { JobtableError } from '../errors.js'
import type { Change, JobEvent, WorkerRow } from '../store.js'
import type { StoredJob } from './model-rules.js'
import { ModelSteps } from './model-steps.js'

export interface Tables {
  /** 0 before `migrate`. */
  version: number
  jobs: Map<string, StoredJob>
  events: Map<string, JobEvent[]>
  workers: Map<string, WorkerRow>
  steps: ModelSteps
  watchers: Set<Watcher>
}

interface Watcher {
  listener: (change: Change) => void
  owner: object
}

export function emptyTables(): Tables {
  return { version: 0, jobs: new Map(), events: new Map(), workers: new Map(), steps: new ModelSteps(), watchers: new Set() }
}

export function noTransactions(): JobtableError {
  return new JobtableError('config_invalid', 'the model store is in no database whose transactions a product could have')
}

export function closed(): JobtableError {
  return new JobtableError('store_unavailable', 'the model store is closed: open another')
}
