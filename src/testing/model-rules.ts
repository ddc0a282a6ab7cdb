/**
 * The rules of the Store contract as pure functions of a row: who may write, what a write leaves, what comes first. The
 * model store applies them to its tables and adds nothing of its own, so a wrong store is this object with one rule
 * replaced; that is how the tests show that the conformance suite notices.
 */
import type { ClaimRequest, Fence, FencedSettlement, JobFilter, JobRow, NewJob, Report, Retention, WorkerRow } from '../store.js'
import { MAX_HISTORY, isFinal, type HistoryEntry, type Settlement } from '../transition.js'

/** A row and the one column that the contract keeps to the store. */
export interface StoredJob {
  row: JobRow
  /** The row is not pruned before this moment. */
  keepUntil: number | null
}

export type Workers = ReadonlyMap<string, WorkerRow>

/** The columns that a plain `INSERT INTO jobs (id, type, payload, status)` must give. */
export type RawColumns = Pick<JobRow, 'id' | 'type' | 'payload' | 'status'>

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

const written = (row: JobRow, now: number): Pick<JobRow, 'updatedAt' | 'rev'> => ({ updatedAt: now, rev: row.rev + 1 })

const FREE = { lockedAt: null, lockedBy: null, claimToken: null } as const

function raw(columns: RawColumns, now: number): StoredJob {
  const row: JobRow = {
    ...columns,
    ...FREE,
    queue: 'default',
    priority: 0,
    attempts: 0,
    maxAttempts: null,
    waits: 0,
    runAfter: now,
    cancelRequestedAt: null,
    idempotencyKey: null,
    fingerprint: null,
    supersededBy: null,
    stage: null,
    progress: null,
    result: null,
    history: [],
    lastError: null,
    userMessage: null,
    traceContext: null,
    createdAt: now,
    updatedAt: now,
    finishedAt: isFinal(columns.status) ? now : null,
    rev: 0,
    // A store tells from its steps, when the row is read.
    held: false,
  }
  return { row, keepUntil: null }
}

function inserted({ supersedes: _, runAfter, ...columns }: NewJob, now: number): StoredJob {
  const at = 'at' in runAfter ? runAfter.at : now + runAfter.delayMs
  const { row } = raw({ ...columns, status: 'pending' }, now)
  return { row: { ...row, ...columns, runAfter: at }, keepUntil: null }
}

/** Whether this row holds the key for its type. */
function holdsKey(row: JobRow, type: string, key: string): boolean {
  return row.type === type && row.idempotencyKey === key && row.supersededBy === null
}

function mayTakeOver(holder: JobRow, supersedes: NewJob['supersedes']): boolean {
  return supersedes !== null && holder.id === supersedes.id && holder.status === supersedes.status
}

function superseded({ row, keepUntil }: StoredJob, by: string, now: number): StoredJob {
  return { row: { ...row, supersededBy: by, ...written(row, now) }, keepUntil }
}

const waits = (row: JobRow): boolean => row.status === 'pending' || row.status === 'retrying'

function isDue(row: JobRow, now: number): boolean {
  return waits(row) && row.runAfter <= now
}

function claimOrder(a: JobRow, b: JobRow): number {
  return a.priority - b.priority || a.runAfter - b.runAfter || compare(a.id, b.id)
}

function claimed({ row, keepUntil }: StoredJob, request: ClaimRequest, now: number): StoredJob {
  const claim = { lockedAt: now, lockedBy: request.workerId, claimToken: request.token, stage: null, progress: null }
  return { row: { ...row, ...claim, status: 'running', attempts: row.attempts + 1, ...written(row, now) }, keepUntil }
}

/** Pending rows have no token either, so a null token alone says nothing: the row must be running too. */
function fenceHolds(row: JobRow, fence: Fence): boolean {
  return row.status === 'running' && row.claimToken === fence.token
}

/** Whoever settles must know of a request to cancel: a settlement that ignores it would run the job again, or fail it. */
function overlooksCancel(row: JobRow, { status }: Settlement): boolean {
  return row.cancelRequestedAt !== null && (status === 'retrying' || status === 'failed')
}

function remember(history: readonly HistoryEntry[], entry: HistoryEntry, now: number): HistoryEntry[] {
  return [...history, { ...entry, at: now }].slice(-MAX_HISTORY)
}

function noted(row: JobRow, entry: HistoryEntry | null, now: number): Pick<JobRow, 'history' | 'lastError'> {
  if (entry === null) return { history: row.history, lastError: row.lastError }
  return { history: remember(row.history, entry, now), lastError: entry.message }
}

function settled({ row, keepUntil }: StoredJob, write: FencedSettlement, now: number): StoredJob {
  const { settlement, keepForMs } = write
  const released: JobRow = { ...row, ...FREE, maxAttempts: row.maxAttempts ?? write.maxAttempts, ...written(row, now) }
  if (settlement.status === 'retrying') {
    const { status, attempts, waits, delayMs, entry } = settlement
    const runAfter = delayMs === null ? row.runAfter : now + delayMs
    return { row: { ...released, ...noted(row, entry, now), status, attempts, waits, runAfter }, keepUntil }
  }
  const finished = { ...released, ...outcome(row, settlement, now), status: settlement.status, finishedAt: now }
  return { row: finished, keepUntil: keepForMs === null || settlement.status === 'canceled' ? null : now + keepForMs }
}

function outcome(row: JobRow, settlement: Exclude<Settlement, { status: 'retrying' }>, now: number): Partial<JobRow> {
  switch (settlement.status) {
    case 'succeeded':
      return { result: settlement.result }
    case 'failed':
      return { ...noted(row, settlement.entry, now), userMessage: settlement.userMessage }
    case 'canceled':
      return noted(row, settlement.entry, now)
  }
}

function reported({ row, keepUntil }: StoredJob, { stage, progress, streams = [] }: Report, now: number): StoredJob {
  if (stage === undefined && progress === undefined && !(streams.length > 0)) return { row, keepUntil }
  return { row: { ...row, stage: stage ?? row.stage, progress: progress ?? row.progress, ...written(row, now) }, keepUntil }
}

function leaseHolds(worker: WorkerRow, now: number): boolean {
  return worker.leaseUntil > now
}

function isLost(row: JobRow, workers: Workers, now: number): boolean {
  if (row.status !== 'running') return false
  const worker = row.lockedBy === null ? undefined : workers.get(row.lockedBy)
  return worker === undefined || !leaseHolds(worker, now)
}

/** The row after somebody asked to cancel it; the same object when that changes nothing. */
function canceled(stored: StoredJob, now: number): StoredJob {
  const { row, keepUntil } = stored
  if (waits(row)) return { row: { ...row, ...FREE, status: 'canceled', finishedAt: now, ...written(row, now) }, keepUntil }
  if (row.status !== 'running' || row.cancelRequestedAt !== null) return stored
  return { row: { ...row, cancelRequestedAt: now, ...written(row, now) }, keepUntil }
}

function mayRepair(row: JobRow): boolean {
  return (row.status === 'failed' || row.status === 'canceled') && row.supersededBy === null
}

function repaired({ row }: StoredJob, by: string | null, now: number): StoredJob {
  const entry: HistoryEntry = {
    attempt: row.attempts,
    kind: 'repaired',
    code: 'repaired',
    message: by === null ? 'retried by hand' : `retried by ${by}`,
    ...(by !== null && { by }),
  }
  const fresh = {
    attempts: 0,
    waits: 0,
    cancelRequestedAt: null,
    userMessage: null,
    stage: null,
    progress: null,
    finishedAt: null,
  }
  return {
    row: { ...row, ...fresh, ...noted(row, entry, now), status: 'pending', runAfter: now, ...written(row, now) },
    keepUntil: null,
  }
}

function mayPrune({ row, keepUntil }: StoredJob, retention: Retention, now: number): boolean {
  if (!isFinal(row.status) || row.finishedAt === null) return false
  return row.finishedAt + retention[`${row.status}Ms`] <= now && (keepUntil ?? 0) <= now
}

function matches(row: JobRow, filter: JobFilter, now: number): boolean {
  const { ids, status, type, queue, idempotencyKey, held, errorContains, olderThanMs, youngerThanMs } = filter
  const age = now - row.createdAt
  return (
    (ids?.includes(row.id) ?? true) &&
    (status?.includes(row.status) ?? true) &&
    (type?.includes(row.type) ?? true) &&
    (queue?.includes(row.queue) ?? true) &&
    (idempotencyKey === undefined || row.idempotencyKey === idempotencyKey) &&
    (held === undefined || row.held === held) &&
    (errorContains === undefined || (row.lastError?.toLowerCase().includes(errorContains.toLowerCase()) ?? false)) &&
    (olderThanMs === undefined || age >= olderThanMs) &&
    (youngerThanMs === undefined || age <= youngerThanMs)
  )
}

function newestFirst(a: JobRow, b: JobRow): number {
  return b.createdAt - a.createdAt || compare(b.id, a.id)
}

export const RULES = {
  raw,
  inserted,
  holdsKey,
  mayTakeOver,
  superseded,
  waits,
  isDue,
  claimOrder,
  claimed,
  fenceHolds,
  overlooksCancel,
  settled,
  reported,
  leaseHolds,
  isLost,
  canceled,
  mayRepair,
  repaired,
  mayPrune,
  matches,
  newestFirst,
}

export type Rules = typeof RULES
