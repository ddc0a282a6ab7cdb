/**
 * What every worker does on the side, without a leader: takes back lost claims, and deletes what is past its retention.
 * Each pass returns its counts, and one row that cannot be handled does not hold up the others.
 */
import { fileOf, type FileStore } from '../files.js'
import { readJson } from '../json.js'
import { DEFAULT_POLICY, type PreparedType } from '../job-type.js'
import { userMessage } from '../messages.js'
import type { FencedSettlement, JobRow, Retention, SettleOutcome, Store } from '../store.js'
import { settle, type Outcome, type RetryPolicy } from '../transition.js'

const RECOVER_AT_ONCE = 100
const PRUNE_AT_ONCE = 500

/** A settlement, with the row that it is of, for whoever hears of its outcome. */
export interface ClaimSettlement extends FencedSettlement {
  row: JobRow
}

/** The settlement of a claim, by the state machine and the type's policy. */
export function settlementOf(row: JobRow, outcome: Outcome, type: PreparedType | undefined, cancelRequested: boolean): ClaimSettlement {
  const policy: RetryPolicy = type?.policy ?? DEFAULT_POLICY
  const job = { attempts: row.attempts, maxAttempts: row.maxAttempts, waits: row.waits, history: row.history, cancelRequested }
  return {
    row,
    id: row.id,
    token: row.claimToken,
    settlement: settle(job, outcome, policy, Math.random()),
    maxAttempts: row.maxAttempts ?? policy.maxAttempts,
    keepForMs: type?.rule?.keepForMs ?? null,
  }
}

/** Takes back the claims of workers that are gone. Returns how many. */
export async function recoverLost(
  store: Store,
  types: ReadonlyMap<string, PreparedType>,
  locale: 'en' | 'zh',
  onError: (error: unknown, row: JobRow) => void,
): Promise<number> {
  let recovered = 0
  for (;;) {
    const rows = await store.lost(RECOVER_AT_ONCE)
    const settlements = rows.map((row) => recovery(row, types.get(row.type), locale))
    const outcomes = await settleEach(store, rows, settlements, onError)
    const settled = outcomes.filter((outcome) => outcome === 'settled').length
    recovered += settled
    // Where nothing could be settled, asking again would give the same rows.
    if (rows.length < RECOVER_AT_ONCE || settled === 0) return recovered
  }
}

function recovery(row: JobRow, type: PreparedType | undefined, locale: 'en' | 'zh'): FencedSettlement {
  const outcome: Outcome = { type: 'lost', holder: row.lockedBy, userMessage: userMessage('worker_lost', locale, type?.messages) }
  return settlementOf(row, outcome, type, row.cancelRequestedAt !== null)
}

/** All in one commit; where that fails, one by one. */
async function settleEach(
  store: Store,
  rows: readonly JobRow[],
  settlements: readonly FencedSettlement[],
  onError: (error: unknown, row: JobRow) => void,
): Promise<SettleOutcome[]> {
  if (rows.length === 0) return []
  try {
    return await store.settle(settlements)
  } catch (error) {
    if (rows.length === 1) onError(error, rows[0]!)
    if (rows.length === 1) return ['lost']
  }
  const outcomes: SettleOutcome[] = []
  for (const [i, row] of rows.entries()) outcomes.push(...(await settleEach(store, [row], [settlements[i]!], onError)))
  return outcomes
}

/** Deletes finished jobs past their retention, in small batches, and then their files. Returns how many jobs. */
export async function prune(store: Store, files: FileStore, retention: Retention, stop?: () => boolean): Promise<number> {
  let pruned = 0
  const problems: unknown[] = []
  for (;;) {
    const deleted = await store.prune(retention, PRUNE_AT_ONCE)
    pruned += deleted.length
    for (const { result } of deleted) {
      const file = fileOf(readJson(result))
      // The rows are gone, so that every file has but this one chance.
      if (file) await files.delete(file.key).catch((error: unknown) => problems.push(error))
    }
    if (deleted.length < PRUNE_AT_ONCE || stop?.()) break
  }
  if (problems.length > 0) throw problems[0]
  return pruned
}
