/**
 * Plays random steps on a store and on the model at once, with the same clock, and compares every answer and all that can
 * be read afterwards. What the contract leaves open (the wording of notes, the order of lists that promise none, the text
 * of JSON) is made alike first.
 */
import assert from 'node:assert/strict'
import { canonicalJson, type JsonValue } from '../../json.js'
import type { FencedSettlement, JobEvent, JobRow, NewJob, Overview, Store, WorkerInfo } from '../../store.js'
import { TRANSITIONS, isFinal, settle, type FinalStatus, type HistoryEntry, type Outcome, type Status } from '../../transition.js'
import type { JobSpec, SettleSpec, Step, Token } from './random-steps.js'
import type { TestClock } from './suite.js'

const TYPES = ['mail', 'export'] as const
const QUEUES = ['default', 'slow'] as const

/** The clock moves by multiples of 10 and these end in 5, so that no moment falls on the edge of a lease or a retention. */
const LEASE_MS = 105
const RETENTIONS_MS = [5, 5, 55, 100_005] as const

const ALL = 10_000

const POLICY = { maxAttempts: 3, maxRetryAfterMs: 40, backoff: () => 20, maxDelayMs: 40, jitter: true }
const FINAL: readonly FinalStatus[] = ['succeeded', 'failed', 'canceled']

function threw(kind: 'transient' | 'permanent' | 'rate_limited' | 'canceled'): Outcome {
  const error = { kind, code: kind, blame: 'provider' as const, retryAfterMs: 30 }
  return { type: 'threw', error, entry: { message: `it was ${kind}`, by: 'somebody' }, userMessage: 'Sorry.' }
}

const OUTCOMES: readonly Outcome[] = [
  { type: 'succeeded', result: '{"ok":[1,2.5,"é"]}' },
  { type: 'succeeded', result: null },
  threw('transient'),
  threw('permanent'),
  threw('rate_limited'),
  threw('canceled'),
  { type: 'snoozed', delayMs: 30 },
  { type: 'handed_back' },
]

export class Player {
  readonly #store: Store
  readonly #model: Store
  readonly #clock: TestClock
  readonly #ids: string[] = []
  readonly #claims: JobRow[] = []
  readonly #workers: string[] = []
  #statuses = new Map<string, Status>()
  /** How much text each claim has written. */
  readonly #written = new Map<string, number>()
  /** The streams that have ended. */
  readonly #ended = new Set<string>()
  #count = 0

  constructor(store: Store, model: Store, clock: TestClock) {
    this.#store = store
    this.#model = model
    this.#clock = clock
  }

  async play(step: Step): Promise<void> {
    await this.#do(step)
    await this.#compareTables()
  }

  async compareTimelines(): Promise<void> {
    for (const id of this.#ids) {
      await this.#both((store) => store.events(id), eventsAlike)
      await this.#both((store) => store.streams(id))
      await this.#both((store) => store.readStream(id, 'text', { attempt: 1, offset: 3 }, 5))
    }
  }

  async #do(step: Step): Promise<void> {
    switch (step.do) {
      case 'insert':
        return this.#insert(step.jobs)
      case 'claim':
        return this.#claim(step)
      case 'settle': {
        const settlements = await this.#settlements(step.settlements)
        await this.#both((store) => store.settle(settlements))
        return
      }
      case 'report':
        return this.#report(step)
      case 'heartbeat': {
        const worker = at(this.#workers, step.worker)
        if (worker !== undefined) await this.#heartbeat(worker)
        return
      }
      case 'retire': {
        const [worker] = this.#workers.length > 0 ? this.#workers.splice(step.worker % this.#workers.length, 1) : []
        if (worker !== undefined) await this.#both((store) => store.retire(worker))
        return
      }
      case 'cancel': {
        const ids = step.jobs.map((job) => at(this.#ids, job) ?? 'nobody')
        await this.#both(
          (store) => store.cancel(ids, step.by),
          (rows) => rows.map((row) => row && rowAlike(row)),
        )
        return
      }
      case 'repair': {
        const ids = step.jobs.map((job) => at(this.#ids, job) ?? 'nobody')
        const alike = (answers: Awaited<ReturnType<Store['repair']>>): unknown =>
          answers.map((answer) => answer && { ...answer, row: rowAlike(answer.row) })
        await this.#both((store) => store.repair(ids, step.by), alike)
        return
      }
      case 'prune': {
        const ms = at(RETENTIONS_MS, step.retention)!
        const retention = { succeededMs: ms, failedMs: ms * 2, canceledMs: 0 }
        await this.#both(
          (store) => store.prune(retention, ALL),
          (gone) => byId(gone.map(({ id, result }) => ({ id, result: jsonAlike(result) }))),
        )
        return
      }
      case 'advance':
        return this.#clock.advance(step.ms)
      case 'recover':
        return this.#recover()
    }
  }

  async #insert(specs: readonly JobSpec[]): Promise<void> {
    const jobs: NewJob[] = []
    for (const spec of specs) jobs.push(await this.#job(spec))
    const outcomes = await this.#both(
      (store) => store.insert(jobs),
      (answers) =>
        answers.map((answer) => {
          if (answer.type === 'inserted') return { ...answer, row: rowAlike(answer.row) }
          return answer.type === 'held' ? { ...answer, holder: rowAlike(answer.holder) } : answer
        }),
    )
    outcomes.forEach((outcome, i) => outcome.type === 'inserted' && this.#ids.push(jobs[i]!.id))
  }

  async #job(spec: JobSpec): Promise<NewJob> {
    const taken = spec.takenId ? [...this.#statuses.keys()][0] : undefined
    const type = at(TYPES, spec.type)!
    const idempotencyKey = spec.key === null ? null : `key-${spec.key}`
    return {
      id: taken ?? `job-${String(++this.#count).padStart(6, '0')}`,
      type,
      queue: at(QUEUES, spec.queue)!,
      payload: '{"n":1}',
      priority: spec.priority,
      maxAttempts: spec.maxAttempts,
      runAfter: { delayMs: spec.delayMs },
      idempotencyKey,
      fingerprint: null,
      traceContext: null,
      supersedes: spec.takesOver && idempotencyKey !== null ? await this.#takeover(type, idempotencyKey) : null,
    }
  }

  async #takeover(type: string, idempotencyKey: string): Promise<NewJob['supersedes']> {
    const rows = await this.#model.list({ type: [type], idempotencyKey }, { limit: ALL })
    const holder = rows.find((row) => row.supersededBy === null)
    if (holder === undefined) return null
    return { id: holder.id, status: isFinal(holder.status) ? holder.status : at(FINAL, ++this.#count)! }
  }

  async #claim(step: Step & { do: 'claim' }): Promise<void> {
    const workerId = await this.#liveWorker(step.worker)
    const settlements = await this.#settlements(step.settlements)
    const request = {
      workerId,
      token: `token-${++this.#count}`,
      queues: step.queues.map((queue) => QUEUES[queue]!),
      types: step.types.map((type) => TYPES[type]!),
      limit: step.limit,
    }
    // A job of a type that was not asked for may be the next due, or not.
    const exact = request.types.length === TYPES.length && request.limit > 0
    const { jobs } = await this.#both(
      (store) => store.claim(request, settlements),
      ({ jobs, nextDueInMs, settled }) => ({ jobs: jobs.map(rowAlike), settled, nextDueInMs: exact ? nextDueInMs : null }),
    )
    this.#claims.push(...jobs)
  }

  /** A worker that may claim: one whose lease holds, or a new one. */
  async #liveWorker(pick: number): Promise<string> {
    const { workers, now } = await this.#model.workers()
    const known = at(this.#workers, pick)
    if (workers.some((worker) => worker.id === known && worker.leaseUntil > now)) return known!
    const fresh = `worker-${++this.#count}`
    this.#workers.push(fresh)
    const worker: WorkerInfo = {
      id: fresh,
      host: 'host',
      pid: 4711,
      process: null,
      queues: [...QUEUES],
      types: [...TYPES],
      concurrency: 4,
    }
    await this.#both((store) => store.register(worker, LEASE_MS))
    return fresh
  }

  async #heartbeat(id: string): Promise<void> {
    await this.#both(
      (store) => store.heartbeat(id, LEASE_MS),
      (reply) => (reply.alive ? { alive: true, claims: byId(reply.claims) } : reply),
    )
  }

  async #settlements(specs: readonly SettleSpec[]): Promise<FencedSettlement[]> {
    const settlements: FencedSettlement[] = []
    for (const spec of specs) {
      const claim = at(this.#claims, spec.claim)
      if (claim === undefined) continue
      const [now] = await this.#model.get([claim.id])
      const job = { ...claim, cancelRequested: !spec.overlooksCancel && (now?.cancelRequestedAt ?? null) !== null }
      settlements.push({
        id: claim.id,
        token: tokenOf(claim, spec.token),
        settlement: settle(job, at(OUTCOMES, spec.outcome)!, POLICY, 0.5),
        maxAttempts: POLICY.maxAttempts,
        keepForMs: spec.keepForMs,
      })
    }
    return settlements
  }

  async #report(step: Step & { do: 'report' }): Promise<void> {
    const claim = at(this.#claims, step.claim)
    if (claim === undefined) return
    const events = Array.from({ length: step.events }, () => {
      return { kind: 'log', attempt: claim.attempts, message: `line ${++this.#count}`, data: '{"n":1}' } as const
    })
    const stream = claim.claimToken + claim.id
    const written = this.#written.get(stream) ?? 0
    const done = step.progress === 1
    // Nothing comes after the end of a stream.
    const text = this.#ended.has(stream) ? '' : '🙂'.repeat(step.text)
    const report = {
      id: claim.id,
      token: tokenOf(claim, step.token),
      stage: step.stage,
      ...(step.progress !== null && { progress: step.progress }),
      events,
      ...(text !== '' && { streams: [{ name: 'text', offset: written, text, done }] }),
    }
    const [outcome] = await this.#both((store) => store.report([report]))
    if (outcome !== 'written' || text === '') return
    this.#written.set(stream, written + text.length)
    if (done) this.#ended.add(stream)
  }

  async #recover(): Promise<void> {
    const lost = await this.#both(
      (store) => store.lost(ALL),
      (rows) => {
        const times = rows.map((row) => row.lockedAt ?? 0)
        assert.deepEqual(
          times,
          times.toSorted((a, b) => a - b),
          'lost claims are not listed oldest first',
        )
        return byId(rows.map(rowAlike))
      },
    )
    const settlements = lost.map((row): FencedSettlement => {
      const job = { ...row, cancelRequested: row.cancelRequestedAt !== null }
      const settlement = settle(job, { type: 'lost', holder: row.lockedBy, userMessage: 'Sorry.' }, POLICY, 0.5)
      return { id: row.id, token: row.claimToken, settlement, maxAttempts: POLICY.maxAttempts, keepForMs: null }
    })
    const outcomes = await this.#both((store) => store.settle(settlements))
    assert.ok(outcomes.every((outcome) => outcome === 'settled'))
  }

  async #compareTables(): Promise<void> {
    const rows = await this.#both(
      (store) => store.list({}, { limit: ALL }),
      (rows) => rows.map(rowAlike),
    )
    await this.#both((store) => store.overview(), overviewAlike)
    const statuses = new Map(rows.map((row) => [row.id, row.status]))
    for (const [id, status] of statuses) {
      const before = this.#statuses.get(id)
      const legal = before === undefined ? status === 'pending' : before === status || TRANSITIONS[before].includes(status)
      assert.ok(legal, `${id} went from ${before ?? 'nothing'} to ${status}`)
    }
    this.#statuses = statuses
  }

  /** Makes one call on both and answers with what the store said, once the model has said the same. */
  async #both<Answer>(
    call: (store: Store) => Promise<Answer>,
    alike: (answer: Answer) => unknown = (answer) => answer,
  ): Promise<Answer> {
    const expected = await call(this.#model)
    const actual = await call(this.#store)
    assert.deepEqual(alike(actual), alike(expected))
    return actual
  }
}

function tokenOf(claim: JobRow, token: Token): string | null {
  return { own: claim.claimToken, wrong: 'wrong', none: null }[token]
}

function at<Item>(items: readonly Item[], pick: number): Item | undefined {
  return items.length === 0 ? undefined : items[pick % items.length]
}

function byId<Item extends { id: string }>(items: readonly Item[]): Item[] {
  return items.toSorted((a, b) => (a.id < b.id ? -1 : 1))
}

function jsonAlike(text: string | null): string | null {
  return text === null ? null : canonicalJson(JSON.parse(text) as JsonValue)
}

function entryAlike(entry: HistoryEntry): HistoryEntry {
  return entry.kind === 'repaired' ? { ...entry, message: '' } : entry
}

function rowAlike(row: JobRow): JobRow {
  const newest = row.history.at(-1)
  const lastError = newest?.kind === 'repaired' && row.lastError === newest.message ? '' : row.lastError
  return {
    ...row,
    payload: jsonAlike(row.payload)!,
    result: jsonAlike(row.result),
    history: row.history.map(entryAlike),
    lastError,
  }
}

function eventsAlike(events: readonly JobEvent[]): unknown {
  return events.map(({ message, data, ...event }) =>
    event.kind === 'log' ? { ...event, message, data: jsonAlike(data) } : event,
  )
}

function overviewAlike({ now, counts, workers }: Overview): unknown {
  return {
    now,
    workers: byId(workers),
    counts: byId(counts.map((count) => ({ ...count, id: JSON.stringify([count.type, count.queue, count.status]) }))),
  }
}
