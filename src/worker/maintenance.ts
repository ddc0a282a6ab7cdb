/**
 * What every worker does on the side, without a leader: takes back lost claims, those of processes that are gone at once, and
 * deletes what is past its retention. Each pass returns its counts, and one row that cannot be handled does not hold up the others.
 */
import { describeError } from '../classify/describe.js'
import { fileOf, type FileStore } from '../files.js'
import { readJson } from '../json.js'
import { DEFAULT_POLICY, type PreparedType } from '../job-type.js'
import type { Logger } from '../logger.js'
import { userMessage } from '../messages.js'
import type { FencedSettlement, JobRow, PrunedJob, Retention, SettleOutcome, Store, WorkerRow } from '../store.js'
import { settle, type Outcome, type RetryPolicy } from '../transition.js'
import { isGone } from './process-identity.js'

const RECOVER_AT_ONCE = 100
const PRUNE_AT_ONCE = 500

/**
 * Ends the leases of workers whose process is gone, as far as this machine can tell, so that nobody waits for them to run out.
 * Returns these workers.
 */
export async function retireGone(store: Store): Promise<WorkerRow[]> {
  const gone = (await store.workers()).workers.filter(({ process }) => isGone(process))
  for (const { id } of gone) await store.retire(id)
  return gone
}

interface Claim {
  id: string
  token: string
}

/** A settlement, with the row that it is of, for whoever hears of its outcome. */
export interface ClaimSettlement extends FencedSettlement {
  row: JobRow
}

/** The settlement of a claim, by the state machine and the type's policy. */
export function settlementOf(
  row: JobRow,
  outcome: Outcome,
  type: PreparedType | undefined,
  cancelRequested: boolean,
): ClaimSettlement {
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

/** Whether the row is as this settlement leaves it, and as no recovery of a lost claim does. */
export function isLeftBy({ row, settlement }: ClaimSettlement, now: JobRow | undefined): boolean {
  const attempts = settlement.status === 'retrying' ? settlement.attempts : row.attempts
  const error = (settlement.status === 'succeeded' ? null : settlement.entry?.message) ?? row.lastError
  return now?.status === settlement.status && now.attempts === attempts && now.lastError === error
}

export interface Recovery {
  store: Store
  types: ReadonlyMap<string, PreparedType>
  locale: 'en' | 'zh'
  /** A lost claim was settled. */
  settled(claim: ClaimSettlement): void
  /** This one could not be. */
  failed(error: unknown, row: JobRow): void
}

/**
 * What is written in place of a settlement that the store refuses. That is a fault of ours or of the type, and its job says so
 * rather than stay running for ever.
 */
export function unwritable(
  claim: ClaimSettlement,
  error: unknown,
  { logger, locale }: { logger: Logger; locale: 'en' | 'zh' },
): ClaimSettlement {
  logger.error({ err: error, jobId: claim.id, type: claim.row.type }, 'the outcome of this job cannot be stored; the job fails')
  const message = `its outcome cannot be stored: ${describeError(error).message}`
  const entry = { attempt: claim.row.attempts, kind: 'permanent', code: 'result_invalid', blame: 'developer', message } as const
  return { ...claim, settlement: { status: 'failed', entry, userMessage: userMessage('result_invalid', locale) } }
}

/**
 * Takes back the claims of workers that are gone, of the types that are known here: only who knows a type knows its limits, and
 * nobody else could run the job. Returns how many.
 */
export async function recoverLost(recovery: Recovery): Promise<number> {
  const { store, types } = recovery
  let recovered = 0
  for (;;) {
    const rows = await store.lost(RECOVER_AT_ONCE, [...types.keys()])
    const claims = rows.flatMap((row) => tryLostSettlement(recovery, row))
    const outcomes = await settleEach(recovery, claims)
    const settled = claims.filter((_, i) => outcomes[i] === 'settled')
    for (const claim of settled) recovery.settled(claim)
    recovered += settled.length
    // Where nothing could be settled, asking again would give the same rows.
    if (rows.length < RECOVER_AT_ONCE || settled.length === 0) return recovered
  }
}

function tryLostSettlement({ types, locale, failed }: Recovery, row: JobRow): ClaimSettlement[] {
  try {
    return [lostSettlement(row, types.get(row.type), locale)]
  } catch (error) {
    failed(error, row)
    return []
  }
}

function lostSettlement(row: JobRow, type: PreparedType | undefined, locale: 'en' | 'zh'): ClaimSettlement {
  const outcome: Outcome = { type: 'lost', holder: row.lockedBy, userMessage: userMessage('worker_lost', locale, type?.messages) }
  return settlementOf(row, outcome, type, row.cancelRequestedAt !== null)
}

/** All in one commit; where that fails, one by one. */
async function settleEach(recovery: Recovery, claims: readonly ClaimSettlement[]): Promise<SettleOutcome[]> {
  if (claims.length === 0) return []
  try {
    return await recovery.store.settle(claims)
  } catch (error) {
    if (claims.length === 1) {
      recovery.failed(error, claims[0]!.row)
      return ['lost']
    }
  }
  const outcomes: SettleOutcome[] = []
  for (const claim of claims) outcomes.push(...(await settleEach(recovery, [claim])))
  return outcomes
}

/** Returns what a worker holds without knowing: claims whose answer was lost on the way. */
export async function handBackUnanswered(
  store: Store,
  loop: { unanswered(claims: readonly Claim[]): Claim[]; handBack(rows: readonly JobRow[]): void },
  claims: readonly Claim[],
): Promise<void> {
  const unanswered = loop.unanswered(claims)
  if (unanswered.length === 0) return
  const tokens = new Map(unanswered.map(({ id, token }) => [id, token]))
  const rows = await store.get([...tokens.keys()])
  loop.handBack(rows.filter((row) => row !== undefined).filter(({ id, claimToken }) => claimToken === tokens.get(id)))
}

/** The keys of the files that a job's attempts have stored, whether they returned them or not. */
function filesOf({ result, files }: PrunedJob): string[] {
  const returned = fileOf(readJson(result))
  return [...new Set([...files, ...(returned ? [returned.key] : [])])]
}

/** Deletes finished jobs past their retention, in small batches, and then their files. Returns how many jobs. */
export async function prune(store: Store, files: FileStore, retention: Retention, stop?: () => boolean): Promise<number> {
  let pruned = 0
  const problems: unknown[] = []
  for (;;) {
    const deleted = await store.prune(retention, PRUNE_AT_ONCE)
    pruned += deleted.length
    // The rows are gone, so that every file has but this one chance.
    for (const key of deleted.flatMap(filesOf)) await files.delete(key).catch((error: unknown) => problems.push(error))
    if (deleted.length < PRUNE_AT_ONCE || stop?.()) break
  }
  if (problems.length > 0) throw problems[0]
  return pruned
}
