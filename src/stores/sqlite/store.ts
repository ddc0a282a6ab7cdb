/** The SQLite store: which operation runs in which kind of transaction. The statements are in the files beside it. */
import { resolve } from 'node:path'
import type { Store, StoreAddress } from '../../store.js'
import { mayBeLastAttempt } from '../last-attempt.js'
import { peek, take } from './claim.js'
import { Database, WAL_BOUND_BYTES } from './database.js'
import type { Driver, DriverName } from './driver.js'
import { count, countAll, eventsOf, list } from './find.js'
import { insertAll } from './insert.js'
import { inspect } from './inspect.js'
import { join } from './join.js'
import { cancelOne, findJob, repairOne } from './people.js'
import { hasPast, prune } from './prune.js'
import { migrate } from './schema.js'
import { reportAll, settleAll } from './settle.js'
import { recordIn, recordStep, resolveStep, stepsOf } from './steps.js'
import { readStream, streamsOf } from './streams.js'
import { Watcher } from './watch.js'
import { runHere } from './work.js'
import {
  addWorker,
  allWorkers,
  beat,
  hasDeadWorkers,
  hasLease,
  lostClaims,
  removeDeadWorkers,
  removeWorker,
  touchWorker,
} from './workers.js'

export interface SqliteStoreOptions {
  /** The file, which is created by `migrate` when it does not exist; or `:memory:`, for one process's tests. */
  path: string
  /** Without it: node:sqlite where Node has it, else better-sqlite3. */
  driver?: DriverName
  /**
   * `full`, the default: what was acknowledged survives a power cut. `normal`: faster, and a power cut may take back the
   * last commits, but never damages the file; a crash of the process loses nothing either way.
   */
  synchronous?: 'full' | 'normal'
  /** How long to wait for another process's lock before rejecting with `store_busy`. Milliseconds; 10,000 by default. */
  busyTimeoutMs?: number
  /** The database's clock; tests pass their own. */
  clock?: { now(): number }
  /** @internal The size beyond which the write-ahead log is cut. */
  walBoundBytes?: number
  /** @internal Sees every connection right after it was opened. */
  onOpen?: (driver: Driver) => void
}

function addressOf({ path, driver, synchronous, clock }: SqliteStoreOptions): StoreAddress | undefined {
  if (path === ':memory:' || clock !== undefined) return undefined
  return {
    database: `sqlite:${resolve(path)}`,
    options: { durability: synchronous === 'normal' ? 'relaxed' : 'full', ...(driver && { driver }) },
  }
}

export function sqliteStore(options: SqliteStoreOptions): Store {
  const database = new Database({
    synchronous: 'full',
    busyTimeoutMs: 10_000,
    clock: Date,
    walBoundBytes: WAL_BOUND_BYTES,
    ...options,
  })
  const watcher = new Watcher(database)
  database.onCommit = () => watcher.changed()

  return {
    name: `sqlite:${options.path}`,
    address: addressOf(options),
    migrate: () => migrate(database),

    close: async () => {
      watcher.clear()
      database.close()
    },

    insert: async (jobs) => (jobs.length === 0 ? [] : database.write((sql) => runHere(sql, insertAll(sql.now, jobs)))),
    insertIn: (transaction, jobs) => join(database, transaction, (now) => insertAll(now, jobs)),
    get: (ids) => database.read((sql) => ids.map((id) => findJob(sql, id))),
    list: (filter, page) => list(database, filter, page),
    count: (filter) => count(database, filter),
    events: (jobId) => database.read((sql) => eventsOf(sql, jobId)),

    overview: async () => ({
      counts: await countAll(database),
      ...(await database.read(allWorkers)),
    }),
    workers: () => database.read(allWorkers),

    claim: async (request, settlements = []) => {
      if (settlements.length === 0) {
        const { alive, due, nextDueInMs } = await database.read((sql) => ({
          alive: hasLease(sql, request.workerId),
          ...peek(sql, request),
        }))
        if (!alive) return { alive, jobs: [], nextDueInMs: null, settled: [] }
        if (!due || request.limit <= 0) return { alive, jobs: [], nextDueInMs, settled: [] }
      }
      // A claim lost in a power cut is a job that is pending again, which its loss would have made it too...
      const fleeting = settlements.length === 0
      const answer = await database.write(
        (sql) => {
          const settled = settleAll(sql, settlements)
          return { ...take(sql, request), settled }
        },
        { fleeting },
      )
      // ...unless it was the last attempt, or may have been: that must not be taken back, or there would be one too many.
      if (fleeting && answer.jobs.some((row) => mayBeLastAttempt(request, row)))
        await database.write((sql) => touchWorker(sql, request.workerId), { quiet: true })
      return answer
    },

    settle: async (settlements) => (settlements.length === 0 ? [] : database.write((sql) => settleAll(sql, settlements))),
    report: async (reports) => (reports.length === 0 ? [] : database.write((sql) => reportAll(sql, reports), { fleeting: true })),

    // Neither is news for this process's listeners.
    register: (worker, leaseMs) => database.write((sql) => addWorker(sql, worker, leaseMs), { quiet: true, fleeting: true }),
    heartbeat: (workerId, leaseMs) => database.write((sql) => beat(sql, workerId, leaseMs), { quiet: true, fleeting: true }),
    retire: (workerId) => database.write((sql) => removeWorker(sql, workerId), { fleeting: true }),

    lost: async (limit, types) => {
      const { jobs, dead } = await database.read((sql) => ({ jobs: lostClaims(sql, limit, types), dead: hasDeadWorkers(sql) }))
      if (dead) await database.write(removeDeadWorkers)
      return jobs
    },

    cancel: async (ids, by) => (ids.length === 0 ? [] : database.write((sql) => ids.map((id) => cancelOne(sql, id, by)))),
    repair: async (ids, by) => (ids.length === 0 ? [] : database.write((sql) => ids.map((id) => repairOne(sql, id, by)))),

    prune: async (retention, limit) => {
      const some = limit > 0 && (await database.read((sql) => hasPast(sql, retention)))
      return some ? database.write((sql) => prune(sql, retention, limit)) : []
    },

    steps: (jobId) => database.read((sql) => stepsOf(sql, jobId)),
    // Not fleeting: an effect must not begin before its row is on the disk, nor its outcome be forgotten.
    recordStep: (fence, step) => database.write((sql) => runHere(sql, recordStep(sql.now, fence, step)), { quiet: true }),
    recordIn: (transaction, write) => join(database, transaction, (now) => recordIn(now, write)),
    resolveStep: (failed, step, by) => database.write((sql) => resolveStep(sql, failed, step, by)),
    transact: (work) => database.transact(work),

    streams: (jobId) => database.read((sql) => streamsOf(sql, jobId)),
    readStream: (jobId, name, after, limit) => database.read((sql) => readStream(sql, jobId, name, after, limit)),

    watch: (listener) => watcher.add(listener),
    inspect: () => inspect(database),
  }
}
