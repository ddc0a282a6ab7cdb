/** The conformance suite must fail on a wrong store: each variant here breaks one promise of the model. */
import assert from 'node:assert/strict'
import { beforeAll, describe, expect, it } from 'vitest'
import type { StepRow } from '../../src/effects/record.js'
import type { JobEvent, Store } from '../../src/store.js'
import type { StoreHarness } from '../../src/testing/index.js'
import { RULES, type Rules, type StoredJob } from '../../src/testing/model-rules.js'
import { collect, failuresOf, modelHarness, type Alter } from './collect.js'

/** Changes the row that a rule gives. */
function patched(stored: StoredJob, columns: Partial<StoredJob['row']>): StoredJob {
  return { ...stored, row: { ...stored.row, ...columns } }
}

const WRONG_RULES: Record<string, Partial<Rules>> = {
  'the token is ignored': { fenceHolds: (row) => row.status === 'running' },
  'the status is ignored by the fence': { fenceHolds: (row, fence) => row.claimToken === fence.token },
  'the fence is ignored': { fenceHolds: () => true },
  'a null token fences any claim': {
    fenceHolds: (row, fence) => row.status === 'running' && (fence.token ?? row.claimToken) === row.claimToken,
  },
  'the token survives its claim': {
    settled: (stored, write, now) => patched(RULES.settled(stored, write, now), { claimToken: stored.row.claimToken }),
  },
  'the owner survives its claim': {
    settled: (stored, write, now) => patched(RULES.settled(stored, write, now), { lockedBy: stored.row.lockedBy }),
  },
  'a finished job has no end': {
    settled: (stored, write, now) => patched(RULES.settled(stored, write, now), { finishedAt: null }),
  },
  'a request to cancel is overlooked': { overlooksCancel: () => false },
  'a request to cancel stops success': { overlooksCancel: (row) => row.cancelRequestedAt !== null },
  'history is unbounded': {
    settled(stored, write, now) {
      const { settlement } = write
      if (settlement.status === 'succeeded' || settlement.entry === null) return RULES.settled(stored, write, now)
      return patched(RULES.settled(stored, write, now), { history: [...stored.row.history, { ...settlement.entry, at: now }] })
    },
  },
  'history keeps the oldest entries': {
    settled(stored, write, now) {
      const after = RULES.settled(stored, write, now)
      return stored.row.history.length < 20 ? after : patched(after, { history: stored.row.history })
    },
  },
  'a settlement does not count the given attempts': {
    settled: (stored, write, now) => patched(RULES.settled(stored, write, now), { attempts: stored.row.attempts }),
  },
  'waits are not kept': { settled: (stored, write, now) => patched(RULES.settled(stored, write, now), { waits: 0 }) },
  'a delay counts from the claim': {
    settled(stored, write, now) {
      const after = RULES.settled(stored, write, now)
      return write.settlement.status === 'retrying'
        ? patched(after, { runAfter: (stored.row.lockedAt ?? now) + (write.settlement.delayMs ?? 0) })
        : after
    },
  },
  'the attempt limit is overwritten': {
    settled: (stored, write, now) => patched(RULES.settled(stored, write, now), { maxAttempts: write.maxAttempts }),
  },
  'keepFor is forgotten': { settled: (stored, write, now) => ({ ...RULES.settled(stored, write, now), keepUntil: null }) },
  'takeover is unguarded': { mayTakeOver: (_, supersedes) => supersedes !== null },
  'takeover ignores the status': { mayTakeOver: (holder, supersedes) => holder.id === supersedes?.id },
  'takeover never happens': { mayTakeOver: () => false },
  'a superseded job keeps no pointer': {
    superseded: (stored) => stored,
    holdsKey: (row, type, key) => RULES.holdsKey(row, type, key) && row.status === 'pending',
  },
  'keys are shared by all types': { holdsKey: (row, _, key) => RULES.holdsKey(row, row.type, key) },
  'keys are compared in lower case': {
    holdsKey: (row, type, key) =>
      RULES.holdsKey({ ...row, idempotencyKey: row.idempotencyKey?.toLowerCase() ?? null }, type, key.toLowerCase()),
  },
  'keys are trimmed': {
    holdsKey: (row, type, key) =>
      RULES.holdsKey({ ...row, idempotencyKey: row.idempotencyKey?.trim() ?? null }, type, key.trim()),
  },
  'keys are normalised': {
    holdsKey: (row, type, key) =>
      RULES.holdsKey({ ...row, idempotencyKey: row.idempotencyKey?.normalize() ?? null }, type, key.normalize()),
  },
  'a finished job gives its key up': { holdsKey: (row, type, key) => RULES.holdsKey(row, type, key) && row.finishedAt === null },
  'claims ignore priority': { claimOrder: (a, b) => RULES.claimOrder({ ...a, priority: 0 }, { ...b, priority: 0 }) },
  'a higher number runs first': {
    claimOrder: (a, b) => RULES.claimOrder({ ...a, priority: -a.priority }, { ...b, priority: -b.priority }),
  },
  'claims ignore when a job was due': { claimOrder: (a, b) => RULES.claimOrder({ ...a, runAfter: 0 }, { ...b, runAfter: 0 }) },
  'the newest runs first': { claimOrder: (a, b) => RULES.claimOrder({ ...a, id: b.id }, { ...b, id: a.id }) },
  'claims take what is not due': { isDue: (row) => RULES.waits(row) },
  'claims are late by one millisecond': { isDue: (row, now) => RULES.isDue(row, now - 1) },
  'claims forget retrying jobs': { isDue: (row, now) => RULES.isDue(row, now) && row.status !== 'retrying' },
  'a claim counts no attempt': {
    claimed: (stored, request, now) => patched(RULES.claimed(stored, request, now), { attempts: stored.row.attempts }),
  },
  'a claim leaves the old token': {
    claimed: (stored, request, now) => patched(RULES.claimed(stored, request, now), { claimToken: 'fixed' }),
  },
  'lost lists live claims': { isLost: (row) => row.status === 'running' },
  'lost overlooks retired workers': {
    isLost: (row, workers, now) => RULES.isLost(row, workers, now) && workers.has(row.lockedBy ?? ''),
  },
  'lost overlooks rows without a worker': {
    isLost: (row, workers, now) => RULES.isLost(row, workers, now) && row.lockedBy !== null,
  },
  'lost lists finished jobs': { isLost: (row, workers, now) => RULES.isLost({ ...row, status: 'running' }, workers, now) },
  'a lease never runs out': { leaseHolds: () => true },
  'reports move no time': {
    reported: (stored, report, now) => patched(RULES.reported(stored, report, now), { updatedAt: stored.row.updatedAt }),
  },
  'a report clears what it leaves out': {
    reported: (stored, { stage = null, progress = null }, now) => patched(stored, { stage, progress, updatedAt: now }),
  },
  'progress of 0 is no progress': {
    reported: (stored, report, now) =>
      patched(RULES.reported(stored, report, now), { progress: report.progress || stored.row.progress }),
  },
  'cancel stops running jobs at once': {
    canceled: (stored, now) =>
      RULES.canceled(stored.row.status === 'running' ? patched(stored, { status: 'pending' }) : stored, now),
  },
  'cancel changes finished jobs': {
    canceled: (stored, now) =>
      RULES.canceled(stored.row.status === 'failed' ? patched(stored, { status: 'pending' }) : stored, now),
  },
  'cancel leaves retrying jobs': {
    canceled: (stored, now) => (stored.row.status === 'retrying' ? stored : RULES.canceled(stored, now)),
  },
  'asking again moves the request': {
    canceled: (stored, now) => RULES.canceled(patched(stored, { cancelRequestedAt: null }), now),
  },
  'repair changes what succeeded': {
    mayRepair: (row) => RULES.mayRepair({ ...row, status: row.status === 'succeeded' ? 'failed' : row.status }),
  },
  'repair revives superseded jobs': { mayRepair: (row) => RULES.mayRepair({ ...row, supersededBy: null }) },
  'repair leaves canceled jobs': { mayRepair: (row) => row.status === 'failed' && RULES.mayRepair(row) },
  'repair keeps the attempts': {
    repaired: (stored, by, now) => patched(RULES.repaired(stored, by, now), { attempts: stored.row.attempts }),
  },
  'repair keeps the request to cancel': {
    repaired: (stored, by, now) => patched(RULES.repaired(stored, by, now), { cancelRequestedAt: stored.row.cancelRequestedAt }),
  },
  'repair leaves no history': {
    repaired: (stored, by, now) => patched(RULES.repaired(stored, by, now), { history: stored.row.history }),
  },
  'prune deletes unfinished jobs': { mayPrune: ({ row, keepUntil }, _, now) => row.createdAt <= now && (keepUntil ?? 0) <= now },
  'prune ignores keepFor': {
    mayPrune: (stored, retention, now) => RULES.mayPrune({ ...stored, keepUntil: null }, retention, now),
  },
  'prune lets keepFor shorten retention': {
    mayPrune: (stored, retention, now) =>
      RULES.mayPrune(stored, stored.keepUntil === null ? retention : { succeededMs: 0, failedMs: 0, canceledMs: 0 }, now),
  },
  'prune counts from creation': {
    mayPrune: (stored, retention, now) =>
      RULES.mayPrune(
        stored.row.finishedAt === null ? stored : patched(stored, { finishedAt: stored.row.createdAt }),
        retention,
        now,
      ),
  },
  'error text is a pattern': {
    matches(row, { errorContains, ...filter }, now) {
      const pattern = errorContains
        ?.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')
        .replaceAll('%', '.*')
        .replaceAll('_', '.')
      return RULES.matches(row, filter, now) && (pattern === undefined || new RegExp(pattern, 'i').test(row.lastError ?? '\0'))
    },
  },
  'error text is compared with case': {
    matches: (row, { errorContains, ...filter }, now) =>
      RULES.matches(row, filter, now) && (errorContains === undefined || (row.lastError ?? '').includes(errorContains)),
  },
  'an empty filter list matches all': {
    matches: (row, filter, now) => RULES.matches(row, filter.ids?.length === 0 ? {} : filter, now),
  },
  'age filters are swapped': {
    matches: (row, { olderThanMs, youngerThanMs, ...filter }, now) =>
      RULES.matches(
        row,
        {
          ...filter,
          ...(olderThanMs !== undefined && { youngerThanMs: olderThanMs }),
          ...(youngerThanMs !== undefined && { olderThanMs: youngerThanMs }),
        },
        now,
      ),
  },
  'the oldest is listed first': { newestFirst: (a, b) => RULES.newestFirst(b, a) },
  'pages are cut by time alone': { newestFirst: (a, b) => b.createdAt - a.createdAt },
  'a moment is rounded to seconds': {
    inserted: (job, now) =>
      ((stored) => patched(stored, { runAfter: Math.floor(stored.row.runAfter / 1_000) * 1_000 }))(RULES.inserted(job, now)),
  },
  'text is normalised': {
    inserted: (job, now) => ((stored) => patched(stored, { payload: stored.row.payload.normalize() }))(RULES.inserted(job, now)),
  },
  'a payload goes through an object': {
    inserted: (job, now) =>
      ((stored) => patched(stored, { payload: JSON.stringify(Object.assign({}, JSON.parse(stored.row.payload))) }))(
        RULES.inserted(job, now),
      ),
  },
  'raw rows wait in a nameless queue': { raw: (columns, now) => patched(RULES.raw(columns, now), { queue: '' }) },
}

const WRONG_CALLS: Record<string, Alter> = {
  'a dead worker extends its lease': (store) => ({
    heartbeat: async (workerId, leaseMs) => {
      const worker = (await store.overview()).workers.find(({ id }) => id === workerId)
      if (worker !== undefined) await store.register(worker, leaseMs)
      return store.heartbeat(workerId, leaseMs)
    },
  }),
  'settle is all or nothing': (store) => ({
    settle: async (settlements) => {
      const rows = await store.get(settlements.map(({ id }) => id))
      const whole = settlements.every(({ token }, i) => rows[i]?.claimToken === token)
      return whole ? store.settle(settlements) : settlements.map(() => 'lost')
    },
  }),
  'settle answers that all is well': (store) => ({
    settle: async (settlements) => (await store.settle(settlements)).map(() => 'settled'),
  }),
  'claim forgets its settlements': (store) => ({ claim: async (request) => store.claim(request) }),
  'claim looks before it settles': (store) => ({
    claim: async (request, settlements = []) => {
      const result = await store.claim(request)
      return { ...result, settled: await store.settle(settlements) }
    },
  }),
  'claim mixes the queues': (store) => ({
    claim: async (request, settlements) => store.claim({ ...request, queues: request.queues.toSorted() }, settlements),
  }),
  'claim takes every type': (store) => ({
    claim: async (request, settlements) => store.claim({ ...request, types: [...request.types, 'unknown'] }, settlements),
  }),
  'claim takes one too many': (store) => ({
    claim: async (request, settlements) => store.claim({ ...request, limit: request.limit + 1 }, settlements),
  }),
  'claim never says what is due next': (store) => ({
    claim: async (request, settlements) => ({ ...(await store.claim(request, settlements)), nextDueInMs: null }),
  }),
  'lost ignores its limit': (store) => ({ lost: async () => store.lost(1_000) }),
  'lost lists the newest first': (store) => ({ lost: async (limit) => (await store.lost(limit)).reverse() }),
  'prune ignores its limit': (store) => ({ prune: async (retention) => store.prune(retention, 1_000) }),
  'prune leaves the timeline': (store) => {
    const kept = new Map<string, JobEvent[]>()
    return {
      report: async (reports) => {
        const held = await store.report(reports)
        for (const { id } of reports) kept.set(id, await store.events(id))
        return held
      },
      events: async (id) => {
        const events = await store.events(id)
        return events.length > 0 ? events : (kept.get(id) ?? [])
      },
    }
  },
  'get answers only what exists': (store) => ({ get: async (ids) => (await store.get(ids)).filter((row) => row !== undefined) }),
  'count counts pages': (store) => ({ count: async (filter) => Math.min(10, await store.count(filter)) }),
  'cancel notes nothing': (store) => ({
    events: async (id) => (await store.events(id)).filter(({ kind }) => kind !== 'canceled'),
  }),
  'insert tells everyone its own id': (store) => ({
    insert: async (jobs) =>
      (await store.insert(jobs)).map((outcome, i) =>
        outcome.type === 'held' ? { ...outcome, holder: { ...outcome.holder, id: jobs[i]!.id } } : outcome,
      ),
  }),
  'steps are not fenced': (store) => ({
    recordStep: async ({ id }, step) => {
      const [row] = await store.get([id])
      return store.recordStep({ id, token: row?.claimToken ?? null }, step)
    },
  }),
  'a step is recorded anew': (store) => {
    const later = new Map<string, string | null>()
    return {
      recordStep: async (fence, step) => {
        const outcome = await store.recordStep(fence, step)
        if (outcome === 'taken') later.set(`${fence.id} ${step.name}`, step.value)
        return outcome
      },
      steps: async (id) => (await store.steps(id)).map((row) => ({ ...row, value: later.get(`${id} ${row.name}`) ?? row.value })),
    }
  },
  'steps come by their names': (store) => ({
    steps: async (id) => (await store.steps(id)).toSorted((a, b) => (a.name < b.name ? -1 : 1)),
  }),
  'a value goes through an object': (store) => ({
    steps: async (id) =>
      (await store.steps(id)).map((row) => ({ ...row, value: row.value && JSON.stringify(JSON.parse(row.value)) })),
  }),
  'a resolution is not noted': (store) => ({
    events: async (id) => (await store.events(id)).filter(({ kind }) => kind !== 'resolved'),
  }),
  'a resolution answers that all is well': (store) => ({
    resolveStep: async (...given) => (await store.resolveStep(...given), true),
  }),
  'a resolution is taken whenever the job had failed': (store) => ({
    resolveStep: async (failed, ...given) => store.resolveStep((await store.get([failed.id]))[0] ?? failed, ...given),
  }),
  'prune leaves the steps': (store) => {
    const kept = new Map<string, StepRow[]>()
    return {
      recordStep: async (fence, step) => {
        const outcome = await store.recordStep(fence, step)
        kept.set(fence.id, await store.steps(fence.id))
        return outcome
      },
      steps: async (id) => {
        const steps = await store.steps(id)
        return steps.length > 0 ? steps : (kept.get(id) ?? [])
      },
    }
  },
  'rev stands still while a stream grows': (store) => ({
    get: async (ids) =>
      (await store.get(ids)).map((row) => row && { ...row, rev: row.stage === null ? Math.min(row.rev, 1) : row.rev }),
  }),
  'streams are not fenced': (store) => ({
    report: async (reports) => {
      const rows = await store.get(reports.map(({ id }) => id))
      return store.report(
        reports.map((report, i) => (report.streams ? { ...report, token: rows[i]?.claimToken ?? null } : report)),
      )
    },
  }),
  "a stream's attempt is the job's": (store) => ({
    readStream: async (id, name, after, limit) => {
      const [row] = await store.get([id])
      const found = await store.readStream(id, name, after, limit)
      return found && { ...found, attempt: row!.attempts }
    },
  }),
  'a piece that is sent again is there twice': (store) => {
    const lengths = new Map<string, number>()
    return {
      report: async (reports) => {
        const again = reports.map((report) => {
          if (!report.streams) return report
          const streams = report.streams.map((piece) => {
            const key = `${report.id} ${report.token} ${piece.name}`
            const offset = lengths.get(key) ?? 0
            lengths.set(key, offset + piece.text.length)
            return { ...piece, offset }
          })
          return { ...report, streams }
        })
        return store.report(again)
      },
    }
  },
  'a stream goes on where the attempt before it ended': (store) => ({
    readStream: async (id, name, after, limit) => {
      const found = await store.readStream(id, name, after, limit)
      const whole = await store.readStream(id, name, null, null)
      return found && (after ? { ...found, offset: after.offset, text: whole!.text.slice(after.offset) } : found)
    },
  }),
  'a limit cuts surrogate pairs': (store) => ({
    readStream: async (id, name, after, limit) => {
      const found = await store.readStream(id, name, after, null)
      return found && limit !== null
        ? { ...found, text: found.text.slice(0, limit), done: found.done && found.text.length <= limit }
        : found
    },
  }),
  'a stream is not done when its job is over': (store) => ({
    streams: async (id) => (await store.streams(id)).map((stream) => ({ ...stream, done: false })),
  }),
  'a stream is done before its last text': (store) => ({
    readStream: async (id, name, after, limit) => {
      const found = await store.readStream(id, name, after, limit)
      return found && { ...found, done: (await store.readStream(id, name, null, null))!.done }
    },
  }),
  'prune leaves the streams': (store) => {
    const kept = new Map<string, Awaited<ReturnType<Store['streams']>>>()
    return {
      streams: async (id) => {
        const streams = await store.streams(id)
        return streams.length > 0 ? streams : (kept.get(id) ?? [])
      },
      report: async (reports) => {
        const held = await store.report(reports)
        for (const { id } of reports) kept.set(id, await store.streams(id))
        return held
      },
    }
  },
  'retire does nothing': () => ({ retire: async () => {} }),
  'watchers hear nothing': () => ({ watch: () => () => {} }),
  'watchers cannot be ended': (store) => ({ watch: (listener) => (store.watch(listener), () => {}) }),
  'a closed store goes on': () => ({ close: async () => {} }),
  'migration is optional': (store) => ({ get: async (ids) => (await store.migrate(), store.get(ids)) }),
}

describe('the conformance suite', () => {
  const RANDOM = 'any sequence of operations'

  /** How long each test takes on the model: with the quick ones first, a variant is found out soon. */
  const costs = new Map<string, number>()

  beforeAll(async () => {
    for (const { name, body } of collect({ ...modelHarness(), randomSeed: 1 }).tests) {
      const start = performance.now()
      await body()
      costs.set(name, performance.now() - start)
    }
  })

  async function firstFailure(harness: Omit<StoreHarness, 'runner'>, random: boolean): Promise<string | undefined> {
    const { tests } = collect({ ...harness, watchTimeoutMs: 50, randomSeed: 1, randomRuns: 100 })
    const chosen = tests.filter(({ name }) => name.startsWith(RANDOM) === random)
    assert.ok(chosen.length > 0)
    chosen.sort((a, b) => costs.get(a.name)! - costs.get(b.name)!)
    return (await failuresOf(chosen, 1))[0]?.name
  }

  it('passes on the model, where nothing is broken', async () => {
    expect(
      await firstFailure(
        modelHarness({}, () => ({})),
        false,
      ),
    ).toBeUndefined()
  })

  for (const [name, rules] of Object.entries(WRONG_RULES)) {
    it(`fails when ${name}`, async () => {
      expect(await firstFailure(modelHarness(rules), false)).toBeDefined()
    })
  }

  for (const [name, alter] of Object.entries(WRONG_CALLS)) {
    it(`fails when ${name}`, async () => {
      expect(await firstFailure(modelHarness({}, alter), false)).toBeDefined()
    })
  }

  const FOUND_AT_RANDOM = [
    'the token is ignored',
    'the status is ignored by the fence',
    'a request to cancel is overlooked',
    'waits are not kept',
    'takeover ignores the status',
    'claims ignore priority',
    'claims take what is not due',
    'lost lists live claims',
    'a lease never runs out',
    'asking again moves the request',
    'repair revives superseded jobs',
    'repair keeps the request to cancel',
    'prune ignores keepFor',
  ]
  for (const name of FOUND_AT_RANDOM) {
    it(`finds by random sequences alone that ${name}`, async () => {
      expect(await firstFailure(modelHarness(WRONG_RULES[name]), true)).toBeDefined()
    })
  }

  it('fails on a skip that names no test or gives no reason', async () => {
    const { tests } = collect({ ...modelHarness(), skip: { 'no such promise': 'because' } })
    expect((await failuresOf(tests.slice(0, 1), 1))[0]?.error).toMatchObject({
      message: expect.stringContaining('no such promise'),
    })
    const known = tests.at(-1)!.name
    const silent = collect({ ...modelHarness(), skip: { [known]: ' ' } })
    expect((await failuresOf(silent.tests.slice(0, 1), 1))[0]?.error).toMatchObject({
      message: expect.stringContaining('no reason'),
    })
  })

  it('reports a skipped test with its reason, and does not run it', () => {
    const known = collect(modelHarness()).tests.at(-1)!.name
    const { tests, skipped } = collect({ ...modelHarness(), skip: { [known]: 'too slow here' } })
    expect(skipped).toContain(`${known} (skipped: too slow here)`)
    expect(tests.map(({ name }) => name)).not.toContain(known)
  })

  it('fails, and says what to do, when the harness lacks a part and gives no reason', async () => {
    const { open } = modelHarness()
    const { tests } = collect({ open: async () => ({ ...(await open({ migrated: false })), another: undefined! }) })
    const errors = (
      await failuresOf(tests.filter(({ name }) => /several handles repairing|8 processes that insert/.test(name)))
    ).map(({ error }) => String(error))
    expect(errors.join()).toContain('without.another')
    expect(errors.join()).toContain('without.processes')
  })
})
