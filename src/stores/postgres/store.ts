/** The PostgreSQL store: which operation runs how. The statements are in the files beside it. */
import type { RecordOutcome, TransactionWrite } from '../../effects/record.js'
import type { Change, ClaimRequest, FencedSettlement, InsertOutcome, NewJob, Store } from '../../store.js'
import type { Transaction, Work } from '../../transactions/transaction.js'
import { claim, needsTransaction as settlesFirst, type ClaimAnswer } from './claim.js'
import { mayBeLastAttempt } from '../last-attempt.js'
import type { PgPool } from './connections.js'
import { Database, LONG_ANSWER_MS, type RunOptions } from './database.js'
import { dialect } from './dialect.js'
import { count, countAll, eventsOf, list } from './find.js'
import { Identity, stillOpen } from './identity.js'
import { insertAll, insertPlain, isPlain, needsTransaction as takesOver } from './insert.js'
import { isUniqueViolation } from './failure.js'
import { inspect } from './inspect.js'
import { join } from './join.js'
import { lend } from './lent.js'
import { migrate } from './migrate.js'
import { cancelAll, get, repairAll } from './people.js'
import { Places } from './places.js'
import { prune } from './prune.js'
import { scout } from './scout.js'
import { repeats, reportAll, reportFree, settleAll, settleFree } from './settle.js'
import { recordIn, recordStep, resolveStep, spoil, stepsOf } from './steps.js'
import { readStream, streamsOf } from './streams.js'
import { Watcher } from './watch.js'
import { addWorker, allWorkers, beat, lostClaims, removeWorker, touchWorker } from './workers.js'

export interface PostgresStoreOptions {
  /** A URL such as `postgres://user@host/database`, or a pool of the package `pg`, which stays its owner's to close. */
  connection: string | PgPool
  /** The schema that holds the tables; `public` by default. */
  schema?: string
  /** How long to wait for an answer of the database before the connection counts as broken. Milliseconds; 10,000 by default. */
  answerMs?: number
  /** Tests pass their own; otherwise the time is the database's. */
  clock?: { now(): number }
}

export function postgresStore({ connection, schema = 'public', answerMs, clock }: PostgresStoreOptions): Store {
  const database = new Database(connection, dialect(schema, clock), answerMs)
  const { text } = database.dialect
  const watcher = new Watcher(database)
  const identity = new Identity(database)
  const placesOf = new Map<string, Places>()

  const read = <T>(work: () => Work<T>): Promise<T> => database.run(work)
  const readMuch = <T>(work: () => Work<T>): Promise<T> => database.run(work, { much: true })
  const write = async <T>(work: () => Work<T>, change: Change, options: RunOptions<T> = {}): Promise<T> => {
    const answer = await database.run(work, options)
    watcher.changed(change)
    return answer
  }

  return {
    name: database.name,
    address: typeof connection === 'string' && clock === undefined ? { database: connection, options: { schema } } : undefined,
    parallel: true,
    migrate: () => migrate(database),

    close: async () => {
      // What is to be announced is on its way to the database before that closes.
      await Promise.all([watcher.close(), database.close()])
    },

    insert: async (jobs) => {
      if (jobs.length === 0) return []
      const quiet = !watcher.takesAnnouncement()
      const outcomes = await insert(database, jobs, quiet)
      const rows = outcomes.flatMap((outcome) => (outcome.type === 'inserted' ? [outcome.row] : []))
      for (const places of placesOf.values()) places.inserted(rows, performance.now())
      if (rows.length > 0) watcher[quiet ? 'changed' : 'announced']('due')
      return outcomes
    },
    // Not quiet: the trigger tells at the product's commit.
    insertIn: (transaction, jobs) => {
      const insertThere = (): Promise<InsertOutcome[]> =>
        join(database, transaction, () => insertAll(text, jobs, { quiet: false, identity: identity.known }))
      if (identity.known !== undefined || transaction.database !== 'postgres') return insertThere()
      return identity.ask().then(() => {
        stillOpen(transaction)
        return insertThere()
      })
    },

    get: (ids) => read(() => get(text, ids)),
    list: (filter, page) => readMuch(() => list(text, filter, page)),
    count: (filter) => readMuch(() => count(text, filter)),
    events: (jobId) => read(() => eventsOf(text, jobId)),
    overview: async () => ({ counts: await readMuch(() => countAll(text)), ...(await read(() => allWorkers(text))) }),
    workers: () => read(() => allWorkers(text)),

    claim: async (request, settlements = []) => {
      const places = placesFor(placesOf, request)
      const answer = await claimFrom(database, places, request, settlements)
      void sendScout(database, places, request)?.then((found) => found && watcher.announced('due'))
      const againInMs = Math.ceil(places.againInMs(request.queues, performance.now()))
      if (answer.jobs.length < request.limit && againInMs < (answer.nextDueInMs ?? Infinity)) answer.nextDueInMs = againInMs
      if (places.partial(request.queues)) answer.partial = true
      // It must not be taken back, or there would be one attempt too many.
      if (settlements.length === 0 && answer.jobs.some((row) => mayBeLastAttempt(request, row)))
        await read(() => touchWorker(text, request.workerId))
      if (settlements.some(({ settlement }) => settlement.status === 'retrying')) watcher.changed('due')
      else if (settlements.length > 0 || answer.jobs.length > 0) watcher.changed('state')
      return answer
    },
    settle: async (settlements) => {
      if (settlements.length === 0) return []
      const returns = settlements.some(({ settlement }) => settlement.status === 'retrying')
      const ifLocked = () => settleFree(text, settlements)
      const options = { transaction: repeats(settlements), ifLocked }
      return write(() => settleAll(text, settlements), returns ? 'due' : 'state', options)
    },
    report: async (reports) => {
      if (reports.length === 0) return []
      const ifLocked = () => reportFree(text, reports)
      return write(() => reportAll(text, reports), 'state', { transaction: true, ifLocked })
    },

    // Neither is news for anybody.
    register: (worker, leaseMs) => read(() => addWorker(text, worker, leaseMs)),
    heartbeat: (workerId, leaseMs) => read(() => beat(text, workerId, leaseMs)),
    retire: (workerId) => write(() => removeWorker(text, workerId), 'due'),
    lost: (limit, types) => read(() => lostClaims(text, limit, types)),

    cancel: async (ids, by) => (ids.length === 0 ? [] : write(() => cancelAll(text, ids, by), 'cancel', { transaction: true })),
    repair: async (ids, by) => (ids.length === 0 ? [] : write(() => repairAll(text, ids, by), 'due', { transaction: true })),
    prune: (retention, limit) => database.run(() => prune(text, retention, limit), { transaction: true }),

    steps: (jobId) => read(() => stepsOf(text, jobId)),
    recordStep: (fence, step) => read(() => recordStep(text, fence, step)),
    recordIn: (transaction, write) => recordOrSpoil(database, transaction, write),
    resolveStep: (failed, step, by) => write(() => resolveStep(text, failed, step, by), 'state'),
    transact: (work, signal) => lend(database, work, signal),

    streams: (jobId) => read(() => streamsOf(text, jobId)),
    readStream: (jobId, name, after, limit) => readMuch(() => readStream(text, jobId, name, after, limit)),

    watch: (listener) => watcher.add(listener),
    inspect: () => inspect(database, watcher),
  }
}

function recordOrSpoil(database: Database, transaction: Transaction, write: TransactionWrite): Promise<RecordOutcome> {
  const recorded = join(database, transaction, () => recordIn(database.dialect.text, write, transaction.tells === true))
  return recorded.then(async (outcome) => {
    // It fails, which is what it is for.
    if (outcome !== 'recorded') await join(database, transaction, () => spoil(outcome)).catch(() => {})
    return outcome
  })
}

async function insert(database: Database, jobs: readonly NewJob[], quiet: boolean): Promise<InsertOutcome[]> {
  const { text } = database.dialect
  if (isPlain(jobs)) {
    try {
      return await database.run(() => insertPlain(text, jobs, { quiet }))
    } catch (error) {
      if (!isUniqueViolation(error)) throw error
    }
  }
  return database.run(() => insertAll(text, jobs, { quiet }), { transaction: takesOver(jobs) })
}

/** What is known depends on the types that were looked for. */
function placesFor(all: Map<string, Places>, { types }: ClaimRequest): Places {
  const key = JSON.stringify(types.toSorted())
  let places = all.get(key)
  if (!places) all.set(key, (places = new Places()))
  return places
}

async function claimFrom(
  database: Database,
  places: Places,
  request: ClaimRequest,
  settlements: readonly FencedSettlement[],
): Promise<ClaimAnswer> {
  const { text } = database.dialect
  const since = performance.now()
  const from = places.choose(request, since)
  let waited = false
  const answer = await database.run(() => claim(text, request, settlements, { from }), {
    transaction: settlesFirst(settlements),
    ifLocked: () => {
      waited = true
      return claim(text, request, settlements, { from, ofFree: true })
    },
  })
  const now = performance.now()
  const { jobs } = answer
  const made = {
    queues: request.queues,
    exact: from === undefined,
    jobs,
    plenty: jobs.length >= request.limit,
    rows: jobs.length + settlements.length,
    tookMs: waited ? undefined : now - since,
  }
  if (places.learn(made, now)) database.planAnew()
  return answer
}

/** Answers whether it found anything, once it is back; undefined when none is to be sent. */
function sendScout(database: Database, places: Places, request: ClaimRequest): Promise<boolean> | undefined {
  const since = performance.now()
  if (!places.wantsScout(since)) return undefined
  return database
    .run(() => scout(database.dialect.text, request, places.known(request.queues)), { answerMs: LONG_ANSWER_MS })
    .then(
      (found) => {
        const now = performance.now()
        places.scouted(found, now - since, now)
        return found.length > 0
      },
      () => {
        // Whoever claims is told of an outage.
        places.scoutFailed(performance.now())
        return false
      },
    )
}
