/**
 * What must be found out: each variant breaks one promise of the store, or one duty of the worker, and the simulation has to notice it.
 * Where the true one would do the same by chance, as a fence that nobody tries, it takes a few more runs.
 */
import { nextKey, type EffectOptions } from '../../src/effects/effect.js'
import { StoreLog } from '../../src/effects/log.js'
import { Steps } from '../../src/effects/steps.js'
import type { FencedSettlement, HeartbeatReply, JobRow, SettleOutcome, Store } from '../../src/store.js'
import { RULES, type Rules, type StoredJob } from '../../src/testing/model-rules.js'
import { isFinal, type Settlement } from '../../src/transition.js'
import { Waiters } from '../../src/waiters.js'
import { Attempt } from '../../src/worker/attempt.js'
import { Lease } from '../../src/worker/lease.js'
import { ClaimLoop } from '../../src/worker/loop.js'
import { Timers } from '../../src/timers.js'
import { AttemptStreams } from '../../src/worker/streams.js'
import type { World } from './world.js'

export interface Variant {
  /** Rules of the model store that are replaced. */
  rules?: Partial<Rules>
  /** Calls of the store that are answered in another way. */
  alter?(store: Store, world: World): Partial<Store>
  /** Changes the worker, and returns what takes that back. */
  patch?(): () => void
}

function patched(stored: StoredJob, columns: Partial<JobRow>): StoredJob {
  return { ...stored, row: { ...stored.row, ...columns } }
}

/** Replaces a method of a class. */
function method<Class extends object, Name extends keyof Class>(of: Class, name: Name, other: Class[Name]): () => () => void {
  return () => {
    const own = of[name]
    of[name] = other
    return () => void (of[name] = own)
  }
}

const noop = (): void => {}

const { abort } = Attempt.prototype
const { slotFreed } = ClaimLoop.prototype
const { holds } = Lease.prototype
const { effect } = Steps.prototype
const { load, record } = StoreLog.prototype

/** Changes what is written, whichever call brings it. */
function settling(
  store: Store,
  change: (write: FencedSettlement, row: JobRow | undefined) => FencedSettlement,
): Pick<Store, 'settle' | 'claim'> {
  const changed = async (writes: readonly FencedSettlement[]): Promise<FencedSettlement[]> => {
    const rows = await store.get(writes.map(({ id }) => id))
    return writes.map((write, i) => change(write, rows[i]))
  }
  return {
    settle: async (writes) => store.settle(await changed(writes)),
    claim: async (request, writes = []) => store.claim(request, await changed(writes)),
  }
}

function deciding(change: (settlement: Settlement, row: JobRow | undefined) => Settlement): (store: Store) => Partial<Store> {
  return (store) => settling(store, (write, row) => ({ ...write, settlement: change(write.settlement, row) }))
}

type Effect = EffectOptions<unknown, unknown>

/** Changes what a handler says of its effects. The steps are those of one attempt. */
function effects(change: (options: Effect, steps: Steps) => Effect): () => () => void {
  const other = function (this: Steps, name: string, options: Effect) {
    return effect.call(this, name, change(options, this))
  }
  return method(Steps.prototype, 'effect', other as Steps['effect'])
}

const isLoss = (settlement: Settlement): boolean => 'entry' in settlement && settlement.entry?.kind === 'lost'

async function claimsOf(store: Store, workerId: string): Promise<(HeartbeatReply & { alive: true })['claims']> {
  const rows = await store.list({ status: ['running'] }, { limit: 1_000 })
  return rows
    .filter(({ lockedBy }) => lockedBy === workerId)
    .map(({ id, claimToken, cancelRequestedAt }) => ({ id, token: claimToken!, cancelRequested: cancelRequestedAt !== null }))
}

async function holdsLease(store: Store, workerId: string): Promise<boolean> {
  const { now, workers } = await store.workers()
  return workers.some(({ id, leaseUntil }) => id === workerId && leaseUntil > now)
}

const FENCES: Record<string, Variant> = {
  'the token is ignored': { rules: { fenceHolds: (row) => row.status === 'running' } },
  'settlements are fenced by the id alone': {
    alter: (store) => settling(store, (write, row) => ({ ...write, token: row?.claimToken ?? write.token })),
  },
  'reports are fenced by the id alone': {
    alter: (store) => ({
      report: async (reports) => {
        const rows = await store.get(reports.map(({ id }) => id))
        return store.report(reports.map((report, i) => ({ ...report, token: rows[i]?.claimToken ?? report.token })))
      },
    }),
  },
  'text is let go while the database is away': {
    patch: method(AttemptStreams.prototype, 'failed', function (this: AttemptStreams) {
      this.stored(this.unsent())
      return false
    }),
  },
  'a recovery is not fenced': {
    alter: (store) =>
      settling(store, (write, row) => (isLoss(write.settlement) ? { ...write, token: row?.claimToken ?? write.token } : write)),
  },
  'the claim outlives its settlement': {
    rules: { settled: (stored, write, now) => patched(RULES.settled(stored, write, now), { claimToken: stored.row.claimToken }) },
  },
  'a settlement that waits for a lock is called lost': {
    alter: (store) => {
      const told = (outcomes: SettleOutcome[]) => outcomes.map((outcome) => (outcome === 'locked' ? 'lost' : outcome))
      return {
        settle: async (writes) => told(await store.settle(writes)),
        claim: async (request, writes) => {
          const answer = await store.claim(request, writes)
          return { ...answer, settled: told(answer.settled) }
        },
      }
    },
  },
  'a report that waits for a lock is called written': {
    alter: (store) => ({
      report: async (reports) => (await store.report(reports)).map((outcome) => (outcome === 'locked' ? 'written' : outcome)),
    }),
  },
  'a settlement is answered and not written': {
    alter: (store) => ({
      settle: async (writes) => {
        const outcomes = await store.settle(writes.slice(0, -1))
        return [...outcomes, 'settled' as const].slice(0, writes.length)
      },
    }),
  },
}

const CLAIMS: Record<string, Variant> = {
  'a claim does not look at the status': { rules: { isDue: (row, now) => !isFinal(row.status) && row.runAfter <= now } },
  'a claim takes what is not due': { rules: { isDue: (row) => RULES.waits(row) } },
  'a claim counts no attempt': {
    rules: { claimed: (stored, request, now) => patched(RULES.claimed(stored, request, now), { attempts: stored.row.attempts }) },
  },
  'all claims have one token': {
    rules: { claimed: (stored, request, now) => patched(RULES.claimed(stored, request, now), { claimToken: 'fixed' }) },
  },
  'a claim revives a lease': {
    alter: (store) => ({
      claim: async (request, writes) => {
        const worker = (await store.workers()).workers.find(({ id }) => id === request.workerId)
        if (worker) await store.register(worker, 1_000)
        return store.claim(request, writes)
      },
    }),
  },
  'a claim keeps to itself what it has claimed': {
    alter: (store, { random }) => ({
      claim: async (request, writes) => {
        const answer = await store.claim(request, writes)
        return random.chance(0.2) ? { ...answer, jobs: [] } : answer
      },
    }),
  },
  'claims whose answer was lost are kept': { patch: method(ClaimLoop.prototype, 'unanswered', () => []) },
  'a claim is started without a look at the lease': { patch: method(Lease.prototype, 'holds', () => true) },
}

const LEASES: Record<string, Variant> = {
  'nobody extends the lease': {
    alter: (store) => ({
      heartbeat: async (workerId) =>
        (await holdsLease(store, workerId)) ? { alive: true, claims: await claimsOf(store, workerId) } : { alive: false },
    }),
  },
  'a lease that has run out is extended': {
    alter: (store) => ({
      heartbeat: async (workerId, leaseMs) => {
        const worker = (await store.workers()).workers.find(({ id }) => id === workerId)
        if (worker) await store.register(worker, leaseMs)
        return store.heartbeat(workerId, leaseMs)
      },
    }),
  },
  'a worker goes on after a refused heartbeat': {
    alter: (store) => ({
      heartbeat: async (workerId, leaseMs) => {
        const reply = await store.heartbeat(workerId, leaseMs)
        return reply.alive ? reply : { alive: true, claims: await claimsOf(store, workerId) }
      },
    }),
  },
  'a handler is not told that its claim is lost': { patch: method(Attempt.prototype, 'leaseLost', noop) },
  'every running job is called lost': { rules: { isLost: (row) => row.status === 'running' } },
  'no job is called lost': { rules: { isLost: () => false } },
  'jobs of workers without a row are not called lost': {
    rules: { isLost: (row, workers, now) => RULES.isLost(row, workers, now) && workers.has(row.lockedBy ?? '') },
  },
  'a lease never runs out': { rules: { leaseHolds: () => true } },
  'a worker leaves its timers behind': { patch: method(Timers.prototype, 'close', noop) },
}

const STOPS: Record<string, Variant> = {
  'a stop goes on claiming': { patch: method(ClaimLoop.prototype, 'stopClaiming', noop) },
  'a stop does not ask what else is held': {
    patch: () => {
      const own = Object.getOwnPropertyDescriptor(ClaimLoop.prototype, 'doubts')!
      Object.defineProperty(ClaimLoop.prototype, 'doubts', { ...own, get: () => false })
      return () => void Object.defineProperty(ClaimLoop.prototype, 'doubts', own)
    },
  },
  'a handler that does not stop is never cut off': { patch: method(Attempt.prototype, 'cutOff', noop) },
  'a handler is not told of its timeout': {
    patch: method(Attempt.prototype, 'abort', function (this: Attempt, reason) {
      if (reason !== 'timeout') abort.call(this, reason)
    }),
  },
  'a slot is freed twice': {
    patch: method(ClaimLoop.prototype, 'slotFreed', function (this: ClaimLoop, settlement) {
      slotFreed.call(this, settlement)
      slotFreed.call(this, null)
    }),
  },
  'nobody looks for processes that are gone': {
    alter: (store) => ({ workers: async () => ({ ...(await store.workers()), workers: [] }) }),
  },
  'who waits for a result gets no answer': { patch: method(Waiters.prototype, 'wait', () => new Promise(noop)) },
}

const DECISIONS: Record<string, Variant> = {
  'a recovery does not spend the attempt': {
    alter: deciding((settlement) =>
      settlement.status === 'retrying' && isLoss(settlement) ? { ...settlement, attempts: settlement.attempts - 1 } : settlement,
    ),
  },
  'a lost job fails at once': {
    alter: deciding((settlement) =>
      settlement.status === 'retrying' && isLoss(settlement) && settlement.entry
        ? { status: 'failed', entry: settlement.entry, userMessage: '' }
        : settlement,
    ),
  },
  'a hand-back spends the attempt': {
    alter: deciding((settlement) =>
      settlement.status === 'retrying' && settlement.entry === null
        ? { ...settlement, attempts: settlement.attempts + 1 }
        : settlement,
    ),
  },
  'a wait for a rate limit spends the attempt': {
    alter: deciding((settlement) =>
      settlement.status === 'retrying' && settlement.entry?.kind === 'rate_limited'
        ? { ...settlement, attempts: settlement.attempts + 1 }
        : settlement,
    ),
  },
  'an error spends no attempt': {
    alter: deciding((settlement) =>
      settlement.status === 'retrying' && settlement.entry?.kind === 'transient'
        ? { ...settlement, attempts: settlement.attempts - 1 }
        : settlement,
    ),
  },
  'a retry does not look at maxAttempts': {
    alter: deciding((settlement, row) =>
      settlement.status === 'failed' && settlement.entry.kind !== 'permanent' && row
        ? { status: 'retrying', attempts: row.attempts, waits: 0, delayMs: 100, entry: settlement.entry }
        : settlement,
    ),
  },
  'a permanent error is tried again': {
    alter: deciding((settlement, row) =>
      settlement.status === 'failed' && settlement.entry.kind === 'permanent' && row
        ? { status: 'retrying', attempts: row.attempts, waits: 0, delayMs: 100, entry: settlement.entry }
        : settlement,
    ),
  },
  'an error that is worth a retry fails the job': {
    alter: deciding((settlement) =>
      settlement.status === 'retrying' && settlement.entry?.kind === 'transient'
        ? { status: 'failed', entry: settlement.entry, userMessage: '' }
        : settlement,
    ),
  },
  'a failed attempt is called a success': {
    alter: deciding((settlement) => (settlement.status === 'failed' ? { status: 'succeeded', result: null } : settlement)),
  },
  'a success is tried again': {
    alter: deciding((settlement, row) =>
      settlement.status === 'succeeded' && row
        ? { status: 'retrying', attempts: row.attempts - 1, waits: 0, delayMs: 0, entry: null }
        : settlement,
    ),
  },
}

const PEOPLE: Record<string, Variant> = {
  'a request to cancel is overlooked': { rules: { overlooksCancel: () => false } },
  'a request to cancel a running job is dropped': {
    rules: { canceled: (stored, now) => (stored.row.status === 'running' ? stored : RULES.canceled(stored, now)) },
  },
  'a running job is canceled over the head of its holder': {
    rules: {
      canceled: (stored, now) =>
        stored.row.status === 'running'
          ? patched(stored, { status: 'canceled', finishedAt: now, claimToken: null, lockedBy: null })
          : RULES.canceled(stored, now),
    },
  },
  'a request to cancel undoes a success': {
    alter: deciding((settlement, row) =>
      settlement.status === 'succeeded' && row && row.cancelRequestedAt !== null
        ? { status: 'canceled', entry: null }
        : settlement,
    ),
  },
  'no worker hears of a cancellation': {
    alter: (store) => ({
      heartbeat: async (workerId, leaseMs) => {
        const reply = await store.heartbeat(workerId, leaseMs)
        return reply.alive ? { alive: true, claims: reply.claims.map((claim) => ({ ...claim, cancelRequested: false })) } : reply
      },
      get: async (ids) => (await store.get(ids)).map((row) => row && { ...row, cancelRequestedAt: null }),
    }),
  },
  'a succeeded job is repaired': { rules: { mayRepair: (row) => isFinal(row.status) } },
  'a repair keeps the attempts': {
    rules: { repaired: (stored, by, now) => patched(RULES.repaired(stored, by, now), { attempts: stored.row.attempts }) },
  },
  'an enqueue is answered, and its commit is lost': {
    alter: (store, { random }) => ({
      insert: async (jobs) =>
        random.chance(0.1) ? jobs.map((job) => ({ type: 'inserted', row: RULES.inserted(job, 0).row })) : store.insert(jobs),
    }),
  },
  'an insert does not look at the key': { rules: { holdsKey: () => false } },
  'every enqueue takes the key over': { rules: { mayTakeOver: () => true } },
  'pruning does not look at the status': {
    rules: { mayPrune: ({ row }, retention, now) => row.createdAt + retention.succeededMs <= now },
  },
  'pruning does not look at the retention': { rules: { mayPrune: ({ row }) => isFinal(row.status) } },
}

const STEPS: Record<string, Variant> = {
  'steps are recorded by the id alone': {
    alter: (store) => ({
      recordStep: async (fence, step) => {
        const [row] = await store.get([fence.id])
        return store.recordStep({ ...fence, token: row?.claimToken ?? fence.token }, step)
      },
    }),
  },
  'a step is answered and not written': {
    alter: (store, { random }) => ({
      recordStep: async (fence, step) => {
        const [row] = await store.get([fence.id])
        const held = row?.status === 'running' && row.claimToken === fence.token
        return held && random.chance(0.2) ? 'recorded' : store.recordStep(fence, step)
      },
    }),
  },
  'the steps of earlier attempts are forgotten': {
    alter: (store) => ({
      steps: async (jobId) => {
        const [row] = await store.get([jobId])
        return (await store.steps(jobId)).filter(({ attempt }) => attempt === row?.attempts)
      },
    }),
  },
  'a repair deletes the steps': {
    alter: (store) => {
      const deleted = new Set<string>()
      const rowOf = (jobId: string, name: string): string => JSON.stringify([jobId, name])
      return {
        repair: async (ids, by) => {
          const answers = await store.repair(ids, by)
          for (const answer of answers) {
            if (!answer?.changed) continue
            for (const { name } of await store.steps(answer.row.id)) deleted.add(rowOf(answer.row.id, name))
          }
          return answers
        },
        recordStep: async (fence, step) => {
          const outcome = await store.recordStep(fence, step)
          if (outcome === 'recorded') deleted.delete(rowOf(fence.id, step.name))
          return outcome
        },
        steps: async (jobId) => (await store.steps(jobId)).filter(({ name }) => !deleted.has(rowOf(jobId, name))),
      }
    },
  },
  'what is recorded is not read': { patch: method(StoreLog.prototype, 'load', () => Promise.resolve([])) },
  'a word on an effect is taken whatever its job is': {
    alter: (store) => ({
      resolveStep: async (failed, ...given) => {
        const [row] = await store.get([failed.id])
        return row?.status === 'failed' ? store.resolveStep(failed, ...given) : row !== undefined
      },
    }),
  },
  'a word on an effect is taken though its job has run again': {
    alter: (store) => ({
      resolveStep: async (failed, ...given) => store.resolveStep((await store.get([failed.id]))[0] ?? failed, ...given),
    }),
  },
  'a word on an effect is answered and not written': { alter: () => ({ resolveStep: () => Promise.resolve(true) }) },
}

const ofAttempt = new WeakMap<Steps, number>()
const lookedAt = new WeakSet<JobRow>()

const EFFECTS: Record<string, Variant> = {
  'an effect is recorded as started while it is called': {
    patch: method(StoreLog.prototype, 'record', function (this: StoreLog, step) {
      const recorded = record.call(this, step)
      if (step.state !== 'started') return recorded
      recorded.catch(noop)
      return Promise.resolve()
    }),
  },
  'the key of an effect is made of the attempt': {
    patch: effects((options, steps) => {
      const { run } = options
      const attempt = ofAttempt.get(steps) ?? Math.random()
      ofAttempt.set(steps, attempt)
      return { ...options, run: (body, call) => run(body, { ...call, key: `${call.key}-${attempt}` }) }
    }),
  },
  'a refusal for good keeps the key': {
    patch: method(StoreLog.prototype, 'record', function (this: StoreLog, step) {
      return record.call(this, step.state === 'refused' ? { ...step, key: step.key!.replace(/-\d+$/, '') } : step)
    }),
  },
  'what may have happened is called with the next key': {
    patch: method(StoreLog.prototype, 'load', async function (this: StoreLog) {
      const rows = await load.call(this)
      return rows.map((row) => (row.state === 'started' ? { ...row, key: nextKey(row.key!) } : row))
    }),
  },
  'the request of an effect is made anew for each call': {
    patch: effects((options) => {
      const { run, request } = options
      return { ...options, run: (body, call) => run(typeof request === 'function' ? (request as () => unknown)() : body, call) }
    }),
  },
  'an effect in doubt is called again without a word': {
    patch: effects(({ request, run, onUnknown, ...rest }) =>
      onUnknown === 'hold' ? { request, run, onUnknown: 'same_key' } : ({ request, run, onUnknown, ...rest } as Effect),
    ),
  },
  'what a provider cannot tell is taken for not done': {
    patch: effects((options) => {
      if (options.onUnknown !== 'reconcile') return options
      const { reconcile } = options
      return {
        ...options,
        reconcile: async (body, call) => {
          const answer = await reconcile(body, call)
          return answer === 'unknown' ? 'not_done' : answer
        },
      }
    }),
  },
  'a provider is not asked': {
    patch: effects((options) => (options.onUnknown === 'reconcile' ? { ...options, reconcile: () => 'not_done' } : options)),
  },
  'every error of a call is taken for a refusal': {
    patch: effects((options) => {
      const { run } = options
      const refused = (): never => {
        throw Object.assign(new Error('too many requests'), { status: 429 })
      }
      return { ...options, run: async (body, call) => Promise.resolve(run(body, call)).catch(refused) }
    }),
  },
  'an effect is called without a look at the lease': {
    patch: method(Lease.prototype, 'holds', function (this: Lease, row) {
      if (lookedAt.has(row)) return true
      lookedAt.add(row)
      return holds.call(this, row)
    }),
  },
  'a held job is tried again': {
    alter: deciding((settlement, row) =>
      settlement.status === 'failed' && settlement.entry.code === 'effect_unknown' && row
        ? { status: 'retrying', attempts: row.attempts, waits: 0, delayMs: 100, entry: settlement.entry }
        : settlement,
    ),
  },
}

export const VARIANTS: Readonly<Record<string, Variant>> = {
  ...FENCES,
  ...CLAIMS,
  ...LEASES,
  ...STOPS,
  ...DECISIONS,
  ...PEOPLE,
  ...STEPS,
  ...EFFECTS,
}
