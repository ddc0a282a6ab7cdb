/**
 * What must hold at every moment, whatever happens. Each call that has taken effect is shown here with the tables as they are now; what
 * differs from the tables as they were must be something that this caller, at this time, was allowed to do. The rules are written down
 * anew, from the contract: neither `transition.ts` nor the rules of the model store are asked.
 */
import type {
  ClaimRequest,
  ClaimResult,
  FencedSettlement,
  JobRow,
  Report,
  ReportOutcome,
  Retention,
  SettleOutcome,
  WorkerRow,
} from '../../src/store.js'
import { holds, settlementsOf, type Method } from './connection.js'
import type { Status } from '../../src/transition.js'
import { EffectRules } from './effect-rules.js'
import type { Run } from './ledger.js'
import { Promptness } from './promptness.js'
import { SLOW_TYPE } from './plan.js'
import { checkSettlement } from './settlement-rules.js'
import type { Host } from './virtual-time.js'
import type { World } from './world.js'

export interface Observed {
  /** Null: a client that is no host. */
  host: Host | null
  method: Method
  args: readonly unknown[]
  answer: unknown
  /** In the order of `ids`. */
  rows: readonly (JobRow | undefined)[]
  workers: readonly WorkerRow[]
}

const FINAL: ReadonlySet<string> = new Set(['succeeded', 'failed', 'canceled'])

export class Invariants {
  /** Every id that anybody has ever tried to insert. */
  readonly ids: string[] = []
  /** When a row was last changed, in true time. */
  changedAt = 0
  readonly effects: EffectRules
  readonly #known = new Set<string>()
  readonly #acknowledged = new Set<string>()
  readonly #pruned = new Set<string>()
  readonly #tokens = new Set<string>()
  /** What claims have appended to their stream, and the store has taken. */
  readonly #texts = new Map<string, string>()
  /** Every status that a job has ever had. */
  readonly #statuses = new Set<string>()
  #rows = new Map<string, JobRow>()
  #workers = new Map<string, WorkerRow>()
  readonly #world: World
  readonly promptness: Promptness
  readonly #hosts: ReadonlyMap<string, Host>
  readonly #now: () => number

  constructor(world: World, hosts: ReadonlyMap<string, Host>, now: () => number) {
    this.#world = world
    this.#hosts = hosts
    this.promptness = new Promptness(world, hosts, (id, token) => holds(this.row(id), { id, token }))
    this.#now = now
    this.effects = new EffectRules(world, this)
  }

  /** A row with this id may come into being. */
  expect(id: string): void {
    if (this.#known.has(id)) return
    this.#known.add(id)
    this.ids.push(id)
  }

  /** A producer was told that this job is stored. */
  acknowledged(id: string): void {
    this.#acknowledged.add(id)
  }

  /** Whether the job has ever been in this status. */
  endedAs(id: string, status: Status | undefined): boolean {
    return status !== undefined && this.#statuses.has(`${id} ${status}`)
  }

  row(id: string): JobRow | undefined {
    return this.#rows.get(id)
  }

  get rows(): Iterable<JobRow> {
    return this.#rows.values()
  }

  /** Failed jobs that have an effect in doubt. */
  get held(): string[] {
    return [...this.#rows.values()]
      .filter(({ id, status }) => status === 'failed' && this.effects.inDoubt(id))
      .map(({ id }) => id)
  }

  get allOver(): boolean {
    for (const { status } of this.#rows.values()) if (!FINAL.has(status)) return false
    return true
  }

  /** Whether this claim is in force, by the tables and the database's clock. */
  isLive(row: JobRow | undefined, token: string | null): boolean {
    if (row?.status !== 'running' || row.claimToken !== token) return false
    const worker = row.lockedBy === null ? undefined : this.#workers.get(row.lockedBy)
    return worker !== undefined && worker.leaseUntil > this.#now()
  }

  /** Compares the tables with what they were; returns the rows that changed. */
  observe(seen: Observed): JobRow[] {
    const changed: JobRow[] = []
    const before = this.#rows
    // Most calls change nothing.
    let after = before
    this.ids.forEach((id, i) => {
      const row = seen.rows[i]
      if (row === before.get(id)) return
      if (after === before) after = new Map(before)
      if (row === undefined) after.delete(id)
      else after.set(id, row)
      if (row !== undefined) changed.push(row)
      this.#changed(before.get(id), row, seen)
    })
    this.#checkAnswer(seen, before, after)
    this.#rows = after
    this.#checkWorkers(seen)
    for (const row of changed) this.#checkKey(row)
    for (const { id, status } of changed) this.#statuses.add(`${id} ${status}`)
    if (changed.length > 0) this.changedAt = this.#world.time.now
    if (seen.method === 'claim') this.#tokens.add((seen.args[0] as ClaimRequest).token)
    return changed
  }

  #changed(before: JobRow | undefined, after: JobRow | undefined, seen: Observed): void {
    if (before === undefined && after !== undefined) this.#inserted(after, seen)
    else if (before !== undefined && after === undefined) this.#deleted(before, seen)
    else if (before !== undefined && after !== undefined) this.#updated(before, after, seen)
  }

  #inserted(row: JobRow, seen: Observed): void {
    this.#world.note(seen.host, () => `${row.id} (${row.type}) is inserted`)
    this.#count('none', row.status, 'insert')
    const free = row.lockedBy === null && row.claimToken === null
    if (seen.method !== 'insert' || row.status !== 'pending' || row.attempts !== 0 || !free)
      this.#fail('only legal transitions', `${row.id} came into being as ${row.status} by ${seen.method}`)
  }

  #deleted(row: JobRow, seen: Observed): void {
    this.#count(row.status, 'none', seen.method)
    this.#pruned.add(row.id)
    this.#world.ledger.forget(row.id)
    this.effects.forget(row.id)
    if (seen.method !== 'prune' || !FINAL.has(row.status))
      return this.#fail('no job is lost', `${row.id} was deleted while it was ${row.status}, by ${seen.method}`)
    const retention = (seen.args[0] as Retention)[`${row.status as 'succeeded' | 'failed' | 'canceled'}Ms`]
    if (row.finishedAt === null || row.finishedAt + retention > this.#now())
      this.#fail('no job is lost', `${row.id} was deleted before its retention was over`)
  }

  #updated(before: JobRow, after: JobRow, seen: Observed): void {
    const settlement = settlementsOf(seen.method, seen.args).find((each) => holds(before, each))
    const claimedAnew = after.status === 'running' && after.claimToken !== before.claimToken && before.status === 'running'
    if (claimedAnew && settlement?.settlement.status === 'retrying') {
      // Settled and claimed again in one commit.
      const { attempts, waits, delayMs } = settlement.settlement
      const runAfter = delayMs === null ? before.runAfter : this.#now() + delayMs
      const free = { lockedAt: null, lockedBy: null, claimToken: null }
      const between: JobRow = { ...before, ...free, status: 'retrying', attempts, waits, runAfter, history: after.history }
      this.#transition(before, between, seen, settlement)
      return this.#transition(between, after, seen, undefined)
    }
    if (before.status === after.status) return this.#unmoved(before, after, seen)
    this.#transition(before, after, seen, settlement)
  }

  #transition(before: JobRow, after: JobRow, seen: Observed, settlement: FencedSettlement | undefined): void {
    const { id } = before
    const waited = before.status === 'pending' || before.status === 'retrying'
    const { method } = seen
    this.#world.note(
      seen.host,
      () =>
        `${id} ${before.status} > ${after.status} by ${method}, attempts ${after.attempts}, token ${before.claimToken ?? after.claimToken}`,
    )
    if (waited && after.status === 'running' && method === 'claim')
      return this.#claimed(before, after, seen.args[0] as ClaimRequest)
    if (waited && after.status === 'canceled' && method === 'cancel') return this.#count(before.status, after.status, method)
    if ((before.status === 'failed' || before.status === 'canceled') && after.status === 'pending' && method === 'repair') {
      this.#count(before.status, after.status, method)
      if (after.attempts !== 0 || after.cancelRequestedAt !== null || before.supersededBy !== null)
        this.#fail('only legal transitions', `${id} was repaired into a row that is not fresh`)
      return
    }
    if (before.status === 'running' && (method === 'settle' || method === 'claim'))
      return this.#settled(before, after, seen, settlement)
    this.#fail('only legal transitions', `${id} went from ${before.status} to ${after.status} by ${method}`)
  }

  #claimed(before: JobRow, after: JobRow, request: ClaimRequest): void {
    const { id } = before
    this.#count(before.status, 'running', 'claim')
    const worker = this.#workers.get(request.workerId)
    if (after.claimToken !== request.token || after.lockedBy !== request.workerId)
      this.#fail('one live holder', `${id} was claimed under another name or token than was asked for`)
    if (this.#tokens.has(request.token)) this.#fail('one live holder', `${id} was claimed under a token that was used before`)
    if (!worker || worker.leaseUntil <= this.#now())
      this.#fail('leases tell the truth', `${id} was claimed by a worker without a lease`)
    const host = this.#hosts.get(request.workerId)
    const { ledger } = this.#world
    if (host) this.promptness.starts(host, after, () => ledger.of(id, request.token) !== undefined)
    if (before.runAfter > this.#now()) this.#fail('jobs run when they are due', `${id} was claimed before it was due`)
    if (before.cancelRequestedAt !== null)
      this.#fail('cancellation is honoured', `${id} was claimed after its cancellation was asked for`)
    if (after.attempts !== before.attempts + 1) this.#fail('attempts are bounded', `the claim of ${id} did not count its attempt`)
    const limit = this.#limit(after)
    if (after.attempts > limit) this.#fail('attempts are bounded', `attempt ${after.attempts} of ${limit} of ${id} began`)
  }

  #settled(before: JobRow, after: JobRow, seen: Observed, settlement: FencedSettlement | undefined): void {
    const { id } = before
    if (!settlement)
      return this.#fail('every write is fenced', `${id} was settled as ${after.status} without the token of its claim`)
    if (after.claimToken !== null || after.lockedBy !== null || after.lockedAt !== null)
      this.#fail('one live holder', `${id} is ${after.status} and still under a claim`)
    const holder = before.lockedBy === null ? undefined : this.#hosts.get(before.lockedBy)
    const entry = 'entry' in settlement.settlement ? settlement.settlement.entry : null
    const recovery = entry?.kind === 'lost' || holder !== seen.host
    this.#count('running', after.status, recovery ? 'recovery' : 'holder')
    if (recovery) this.#recovered(before, holder)
    const run = this.#world.ledger.of(id, before.claimToken)
    if (!recovery && !run) this.#world.coverage.count('claim: handed back unstarted')
    const problem = checkSettlement({
      before,
      after,
      recovery,
      run,
      holder,
      entry,
      limit: this.#limit(before),
      plan: this.#world.plan,
      now: this.#world.time.now,
    })
    if (problem) this.#fail(problem.invariant, `${id}: ${problem.detail}`)
  }

  /** A claim that others may take back is one whose worker has lost its lease. */
  #recovered(before: JobRow, holder: Host | undefined): void {
    const { plan, time } = this.#world
    // A database whose clock is set back may find a lease in force again that it called lost a moment ago.
    if (plan.clocks) return
    if (this.isLive(before, before.claimToken))
      this.#fail('one live holder', `${before.id} was taken from a worker whose lease holds`)
    const healthy = holder?.alive && !holder.frozen && !holder.stopping && time.now - holder.troubledAt > 2 * plan.leaseMs
    const run = this.#world.ledger.of(before.id, before.claimToken)
    if (run)
      this.promptness.aborts(run, 'leases tell the truth', `${run.host.name} goes on with ${before.id}, whose claim it has lost`)
    if (healthy) this.#fail('leases tell the truth', `${before.id} was lost by ${holder.name}, with which nothing was wrong`)
  }

  #unmoved(before: JobRow, after: JobRow, seen: Observed): void {
    const { id, status } = before
    if (before.claimToken !== after.claimToken || before.lockedBy !== after.lockedBy)
      return this.#fail('one live holder', `the claim of ${id}, which is ${status}, was changed by ${seen.method}`)
    if (before.attempts !== after.attempts)
      return this.#fail('attempts are bounded', `the attempts of ${id} were changed by ${seen.method}`)
    if (status === 'running' && seen.method === 'cancel') {
      const run = this.#world.ledger.of(id, before.claimToken)
      const detail = `the handler of ${id} goes on as if nobody had asked for its cancellation`
      if (run) this.promptness.aborts(run, 'cancellation is honoured', detail)
      return
    }
    if (status === 'running' && seen.method === 'report') {
      if (!(seen.args[0] as readonly Report[]).some((report) => holds(before, report)))
        this.#fail('every write is fenced', `${id} was reported on without the token of its claim`)
      return
    }
    if (FINAL.has(status) && seen.method === 'insert') return this.#superseded(before, after)
    // A person's word on the last effect in doubt.
    if (seen.method === 'resolveStep' && before.held && !after.held) return
    this.#fail('only legal transitions', `${id} was changed by ${seen.method} while it was ${status}`)
  }

  #superseded(before: JobRow, after: JobRow): void {
    this.#world.coverage.count('enqueue: took a key over')
    const keeps = before.status === 'succeeded' || (before.status === 'failed' && before.type === 'notify')
    if (keeps || before.supersededBy !== null || after.supersededBy === null)
      this.#fail('one job holds a key', `the key of ${before.id}, which is ${before.status}, was taken over`)
  }

  #checkKey({ id, type, idempotencyKey, supersededBy }: JobRow): void {
    if (idempotencyKey === null || supersededBy !== null) return
    for (const other of this.#rows.values()) {
      if (other.id === id || other.type !== type || other.idempotencyKey !== idempotencyKey || other.supersededBy !== null)
        continue
      this.#fail('one job holds a key', `${id} and ${other.id} hold the key ${idempotencyKey} of ${type}`)
    }
  }

  /** What the store says must be what it did. */
  #checkAnswer(
    { method, args, answer }: Observed,
    before: ReadonlyMap<string, JobRow>,
    after: ReadonlyMap<string, JobRow>,
  ): void {
    const { coverage } = this.#world
    const settled =
      method === 'settle'
        ? (answer as SettleOutcome[])
        : method === 'claim'
          ? (answer as { settled: SettleOutcome[] }).settled
          : []
    settlementsOf(method, args).forEach((settlement, i) => this.#checkSettled(settlement, settled[i]!, before, after))
    if (method === 'claim') this.#checkClaimed(args[0] as ClaimRequest, answer as ClaimResult, after)
    if (method === 'cancel') for (const id of args[0] as string[]) this.#checkCanceled(id, before, after)
    if (method === 'heartbeat' && !(answer as { alive: boolean }).alive) coverage.count('answer: heartbeat refused')
    if (method === 'report') {
      ;(args[0] as readonly Report[]).forEach((report, i) => {
        const outcome = (answer as ReportOutcome[])[i]!
        const written = outcome === 'written'
        if (!written) coverage.count(`answer: report ${outcome}`)
        if (written && !holds(before.get(report.id), report))
          this.#fail('every write is fenced', `a report on ${report.id} was taken without its token`)
        if (written && report.stage !== undefined && after.get(report.id)?.stage !== report.stage)
          this.#fail('no report is lost', `the stage ${report.stage} of ${report.id} was taken and not written`)
        if (written) this.#appended(report)
      })
    }
  }

  /** A piece begins where the one before it ended, or is one that was taken before, to the letter. */
  #appended({ id, token, streams = [] }: Report): void {
    for (const { offset, text } of streams) {
      const claim = `${id} ${token}`
      const before = this.#texts.get(claim) ?? ''
      if (offset === before.length) this.#texts.set(claim, before + text)
      else if (before.slice(offset, offset + text.length) !== text || offset > before.length)
        this.#fail('streams have no gap', `${id} got ${JSON.stringify(text)} at ${offset}, after ${before.length} characters`)
      else this.#world.coverage.count('stream: a piece was sent again')
    }
  }

  #checkSettled(
    write: FencedSettlement,
    outcome: SettleOutcome,
    before: ReadonlyMap<string, JobRow>,
    after: ReadonlyMap<string, JobRow>,
  ): void {
    const { id, settlement } = write
    if (outcome !== 'settled') return this.#world.coverage.count(`answer: settlement ${outcome}`)
    if (!holds(before.get(id), write))
      return this.#fail('every write is fenced', `a settlement of ${id} was taken without its token`)
    if (settlement.status !== 'retrying' && after.get(id)?.status !== settlement.status)
      this.#fail('no job is lost', `a settlement of ${id} as ${settlement.status} was taken and not written`)
    if (settlement.status !== 'succeeded') return
    this.#effect(id)
    this.effects.succeeded(before.get(id)!)
    this.#checkText(write)
  }

  #checkText({ id, token }: FencedSettlement): void {
    const written = this.#world.ledger.of(id, token)?.written ?? ''
    if (written !== '') this.#world.coverage.count('stream: written by a job that succeeded')
    if ((this.#texts.get(`${id} ${token}`) ?? '') !== written)
      this.#fail('streams have no gap', `${id} has succeeded without all of the text that its handler wrote`)
  }

  /** What a job does in the database it does in the commit of its success. */
  #effect(id: string): void {
    const { ledger, coverage } = this.#world
    ledger.effect(id)
    coverage.count('effect: committed')
    if (ledger.effects.get(id) !== 1) this.#fail('effects happen once', `the effect of ${id} happened twice`)
  }

  #checkClaimed(request: ClaimRequest, { alive, jobs }: ClaimResult, after: ReadonlyMap<string, JobRow>): void {
    if (!alive) this.#world.coverage.count('answer: claim refused')
    if (jobs.length > request.limit)
      this.#fail('one live holder', `${jobs.length} jobs were claimed where ${request.limit} were asked for`)
    for (const { id } of jobs) {
      if (!holds(after.get(id), { id, token: request.token }))
        this.#fail('one live holder', `${id} was given to a worker that has not claimed it`)
    }
  }

  #checkCanceled(id: string, before: ReadonlyMap<string, JobRow>, after: ReadonlyMap<string, JobRow>): void {
    const was = before.get(id)?.status
    const row = after.get(id)
    if ((was === 'pending' || was === 'retrying') && row?.status !== 'canceled')
      this.#fail('cancellation is honoured', `${id} waited when it was canceled, and is ${row?.status}`)
    if (was === 'running' && row?.cancelRequestedAt === null)
      this.#fail('cancellation is honoured', `the request to cancel ${id} was dropped`)
  }

  #checkWorkers({ method, args, workers }: Observed): void {
    const before = this.#workers
    if (workers.length === before.size && workers.every((worker) => before.get(worker.id) === worker)) return
    this.#workers = new Map(workers.map((worker) => [worker.id, worker]))
    for (const worker of workers) {
      const was = before.get(worker.id)
      if (was === worker) continue
      const extended = was !== undefined && worker.leaseUntil > was.leaseUntil
      if (was === undefined && method !== 'register')
        this.#fail('leases tell the truth', `worker ${worker.id} came from ${method}`)
      if (extended && was.leaseUntil <= this.#now())
        this.#fail('leases tell the truth', `the lease of ${worker.id} had run out, and was extended`)
    }
    for (const [id, worker] of before) {
      if (this.#workers.has(id)) continue
      const allowed = (method === 'retire' && args[0] === id) || (method === 'lost' && worker.leaseUntil <= this.#now())
      if (!allowed) this.#fail('leases tell the truth', `worker ${id} was removed by ${method} while its lease held`)
    }
  }

  /** A handler starts. Where clocks can be trusted, its claim is in force at that moment, and no other. */
  started(run: Run): void {
    const { ledger, coverage, plan } = this.#world
    const { attempt, host } = run
    for (const other of ledger.runs) {
      if (other === run || other.attempt.id !== attempt.id || other.end !== 'running' || !other.host.alive) continue
      coverage.count('claim: two handlers at once, one of them stale')
      if (!plan.clocks && this.isLive(this.row(attempt.id), other.attempt.token))
        this.#fail('one live holder', `${attempt.id} was started by ${host.name} while ${other.host.name} held it`)
    }
    this.promptness.times(run)
    const atOnce = ledger.runs.filter((other) => other.host === host && other.end === 'running' && !other.attempt.ended).length
    if (atOnce > plan.concurrency)
      this.#fail('slots are kept', `${host.name} runs ${atOnce} jobs at once, and may run ${plan.concurrency}`)
    // Of a slow type the attempt may have begun before.
    if (host.toldToStop && attempt.type !== SLOW_TYPE)
      this.#fail('a stop starts nothing', `${attempt.id} was started by ${host.name}`)
    if (!plan.clocks && !this.isLive(this.row(attempt.id), attempt.token))
      this.#fail('one live holder', `${attempt.id} was started by ${host.name} without a claim in force`)
  }

  /** A process is gone. */
  gone(host: Host): void {
    this.promptness.recovers(host, this.#claimsOf(host))
  }

  /** A process has been told to stop at that moment, and has stopped. What it lost before, under another id, is for others to find. */
  stopped(host: Host, toldAt: number): void {
    const left = this.#claimsOf(host).find(({ lockedBy }) => lockedBy === host.workerId)
    if (left && host.troubledAt < toldAt && host.lateUntil < toldAt)
      this.#fail('a stop hands back', `${left.id} is still held by ${host.name}, which has stopped`)
  }

  #claimsOf(host: Host): JobRow[] {
    return [...this.#rows.values()].filter(
      ({ status, lockedBy }) => status === 'running' && this.#hosts.get(lockedBy ?? '') === host,
    )
  }

  /** The faults have been over for long: whoever lost a claim knows it. */
  settledDown(): void {
    for (const { attempt, host, end } of this.#world.ledger.runs) {
      if (end !== 'running' || !host.alive || attempt.signal.aborted) continue
      const row = this.row(attempt.id)
      if (!this.isLive(row, attempt.token))
        this.#fail('leases tell the truth', `${host.name} still runs ${attempt.id}, whose claim it has lost`)
    }
  }

  /** The end of a run: everything is over, and nothing was lost on the way. */
  ended(): void {
    for (const id of this.#acknowledged) {
      if (!this.#rows.has(id) && !this.#pruned.has(id)) this.#fail('no job is lost', `${id} was acknowledged, and is not there`)
    }
    for (const { id, status, lockedBy } of this.#rows.values()) {
      if (!FINAL.has(status)) this.#fail('nothing runs for ever', `${id} is still ${status}, held by ${lockedBy ?? 'nobody'}`)
      const effects = this.#world.ledger.effects.get(id) ?? 0
      if (effects !== (status === 'succeeded' ? 1 : 0))
        this.#fail('effects happen once', `${id} is ${status}, and its effect happened ${effects} times`)
    }
  }

  #limit(row: JobRow): number {
    return row.maxAttempts ?? this.#world.plan.maxAttempts
  }

  #count(from: string, to: string, who: string): void {
    this.#world.coverage.count(`transition: ${from} > ${to} (${who})`)
  }

  #fail(invariant: string, detail: string): void {
    this.#world.fail(invariant, detail)
  }
}
