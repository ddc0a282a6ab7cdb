/** When a worker does its share of the maintenance, which needs no leader. What is done is in `maintenance.ts`. */
import type { FileStore } from '../files.js'
import type { PreparedType } from '../job-type.js'
import type { Logger } from '../logger.js'
import type { Retention, Store } from '../store.js'
import { prune, recoverLost, retireGone, type ClaimSettlement } from './maintenance.js'
import type { Timers } from '../timers.js'

/** How often a worker looks whether others on its machine are gone. Milliseconds. */
const GONE_CHECK_MS = 2_000
/** Lost claims are looked for at least this often. Milliseconds. */
const RECOVER_EVERY_MS = 5_000
const FIRST_PRUNE_MS = 3_000
const PRUNE_EVERY_MS = 600_000

export interface UpkeepEnv {
  store: Store
  types: ReadonlyMap<string, PreparedType>
  files: FileStore
  retention: Retention
  logger: Logger
  locale: 'en' | 'zh'
  leaseMs: number
  timers: Timers
  stopping(): boolean
  /** A lost claim was settled. */
  settled(claim: ClaimSettlement): void
  failed(error: unknown, problem: string): void
}

/** Starts the passes, which end with the timers. */
export function startUpkeep(env: UpkeepEnv): void {
  const every = (ms: number, problem: string, pass: () => Promise<void>): void =>
    env.timers.every(ms, pass, (error) => env.failed(error, problem))
  const once = (problem: string, pass: () => Promise<void>): Promise<void> =>
    pass().catch((error: unknown) => env.failed(error, problem))

  // Whoever is started again after a crash finds the jobs of its predecessor.
  const gone = 'workers that are gone could not be looked for'
  void once(gone, () => takeOver(env))
  every(GONE_CHECK_MS, gone, () => takeOver(env))

  every(Math.min(RECOVER_EVERY_MS, env.leaseMs / 4), 'lost jobs could not be taken back', () => recover(env))

  // Soon after the start, for workers that do not live long, and then every now and again.
  const unpruned = 'finished jobs could not be pruned'
  void env.timers.sleep(FIRST_PRUNE_MS).then(async () => {
    if (env.stopping()) return
    every(PRUNE_EVERY_MS, unpruned, () => pruneAll(env))
    await once(unpruned, () => pruneAll(env))
  })
}

async function takeOver(env: UpkeepEnv): Promise<void> {
  const gone = await retireGone(env.store)
  if (gone.length === 0) return
  for (const { id, pid } of gone) env.logger.warn({ workerId: id, pid }, 'the process of a worker on this machine is gone')
  await recover(env)
}

async function recover({ store, types, locale, logger, settled }: UpkeepEnv): Promise<void> {
  const recovered = await recoverLost({
    store,
    types,
    locale,
    settled,
    failed: (err, row) => logger.error({ err, jobId: row.id }, 'a lost job could not be taken back'),
  })
  if (recovered > 0) logger.warn({ recovered }, 'jobs of lost workers were taken back')
}

async function pruneAll({ store, files, retention, logger, stopping }: UpkeepEnv): Promise<void> {
  const pruned = await prune(store, files, retention, stopping)
  if (pruned > 0) logger.info({ pruned }, 'finished jobs past their retention were deleted')
}
