/**
 * One attempt at one job, as a pipeline: payload read and checked, handler run, outcome named. It ends exactly once, in
 * `#end`: by the handler, or cut off because the handler did not stop when it was told to.
 *
 *   run ──> handler returned ─────────────────────────> succeeded
 *    │  └─> handler threw ──> classified ─────────────> threw | snoozed | handed_back
 *    └──> aborted (timeout, canceled, shutdown) ──grace──> cut off: threw | handed_back
 *         aborted (lease_lost) ─────────────────────────> abandoned: nothing is written
 */
import { classify } from '../classify/index.js'
import { describeError } from '../classify/describe.js'
import { isInstance } from '../classify/read.js'
import { JobAborted, JobtableError, type AbortCause, type Classification } from '../errors.js'
import { storeFile, type FileContent, type FileStore, type JobFile } from '../files.js'
import { RetryAfter } from '../handler-errors.js'
import type { PreparedType } from '../job-type.js'
import type { Logger } from '../logger.js'
import { userMessage } from '../messages.js'
import type { StepLog } from '../effects/log.js'
import type { JobRow, NewEvent, Store } from '../store.js'
import type { Outcome } from '../transition.js'
import type { JobContext, JobLog, Stopped } from './context.js'
import type { Lease } from './lease.js'
import type { ClaimSettlement } from './maintenance.js'
import type { Reporter, Reports } from './reports.js'
import { encodeResult } from './result.js'
import { AttemptSteps, uncommitted } from './steps.js'
import { within } from '../timers.js'
import { AttemptStreams } from './streams.js'
import { ABORT_MESSAGES, checkStage, codeForUser, lineOf, logEvent, logOf, ownUserMessage, ownVerdict } from './words.js'

/** How long a handler may go on after its signal was aborted, before it is cut off. Milliseconds. */
export const CUT_OFF_GRACE_MS = 2_000
/** How long the end of a handler that runs elsewhere is waited for, when it is ended by force. Milliseconds. */
const STOPPED_WITHIN_MS = 1_000

/** Log lines kept in the timeline per attempt; more go to the logger only. */
const MOST_LOG_LINES = 500

/** Changes of stage kept in the timeline per attempt. */
const MOST_STAGES = 500

export interface AttemptEnv {
  store: Store
  files: FileStore
  logger: Logger
  locale: 'en' | 'zh'
  reports: Reports
  lease: Pick<Lease, 'holds' | 'closed'>
  /** The attempt is over; null when it was abandoned. */
  ended(attempt: Attempt, outcome: Outcome | null): void
  /** The attempt is over, and a transaction of the product's has settled its job. */
  completed(attempt: Attempt, claim: ClaimSettlement): void
}

export class Attempt implements JobContext<unknown>, Reporter, Stopped {
  readonly row: JobRow
  readonly type: string
  readonly preparedType: PreparedType
  /** On the clock of `performance.now()`; Infinity for no limit. */
  readonly deadline: number
  payload: unknown
  readonly #env: AttemptEnv
  #controller: AbortController | undefined
  #aborted: JobAborted | undefined
  #abortedAt: number | undefined
  #ended = false
  #handlerReturned = false
  /** The handler has thrown, and something that it began is waited for. */
  #thrown: Outcome | undefined
  #progress = -1
  #logLines = 0
  #stages = 0
  #stepsUsed: AttemptSteps | undefined
  /** For the reports, which write them. */
  streams: AttemptStreams | undefined
  #stopHandler: (() => Promise<void>) | undefined

  constructor(row: JobRow, type: PreparedType, env: AttemptEnv) {
    this.row = row
    this.type = row.type
    this.preparedType = type
    this.#env = env
    this.deadline = type.timeoutMs === null ? Infinity : performance.now() + type.timeoutMs
  }

  get id(): string {
    return this.row.id
  }
  get token(): string {
    return this.row.claimToken!
  }
  get queue(): string {
    return this.row.queue
  }
  get attempt(): number {
    return this.row.attempts
  }
  get maxAttempts(): number {
    return this.row.maxAttempts ?? this.preparedType.policy.maxAttempts
  }
  get idempotencyKey(): string | null {
    return this.row.idempotencyKey
  }
  get traceContext(): string | null {
    return this.row.traceContext
  }
  get createdAt(): Date {
    return new Date(this.row.createdAt)
  }
  get ended(): boolean {
    return this.#ended
  }
  /** On the clock of `performance.now()`. */
  get abortedAt(): number | undefined {
    return this.#abortedAt
  }
  get abortedFor(): AbortCause | undefined {
    return this.#aborted?.reason
  }

  /** Made when it is first asked for: most short handlers never look. */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController()
    if (this.#aborted && !this.#controller.signal.aborted) this.#controller.abort(this.#aborted)
    return this.#controller.signal
  }

  /** Runs the handler to its end. Never rejects. */
  async run(): Promise<void> {
    let outcome: Outcome
    try {
      this.payload = await this.#readPayload()
      // A schema may take its time, and what was told to stop meanwhile need not start.
      if (this.#ended) return
      if (this.#aborted) throw this.#aborted
      // The last look before the effect: the process may have been stalled since the claim was made.
      if (!this.#env.lease.holds(this.row)) return this.#close({ type: 'handed_back' })
      const returned = await this.preparedType.handler!(this)
      await this.#stepsUsed?.handlerReturned()
      if (!this.#stepsUsed?.completing) await this.streams?.finish()
      this.#handlerReturned = true
      const result = await this.preparedType.validateResult(returned)
      outcome = { type: 'succeeded', result: encodeResult(result, this.type, this.#folder) }
    } catch (error) {
      outcome = this.#thrown = this.#outcomeOf(error)
      await this.#stepsUsed?.handlerThrew()
    }
    if (this.#ended) this.#warn('the handler ended after its job was taken from it; what it returned or threw is not recorded')
    else this.#end(this.#aborted?.reason === 'lease_lost' ? null : outcome)
  }

  /** Tells the handler to stop. The first reason stays, but for a lost lease, which overrules all. */
  abort(reason: AbortCause): void {
    if (this.#ended || (this.#aborted && reason !== 'lease_lost')) return
    this.#aborted = new JobAborted(reason, ABORT_MESSAGES[reason])
    this.#abortedAt ??= performance.now()
    if (this.#controller && !this.#controller.signal.aborted) this.#controller.abort(this.#aborted)
    if (reason === 'lease_lost') this.#end(null)
  }

  leaseLost(): void {
    if (this.#stepsUsed?.completing) void this.#known('completed').then((claim) => claim ?? this.#loseLease())
    else this.#loseLease()
  }

  #loseLease(): void {
    if (this.#ended) return
    this.#warn('the claim on this job was lost: another worker may be running it now')
    this.abort('lease_lost')
  }

  /** Ends the attempt although its handler still runs: its slot is free, and nothing that it does later is written. */
  cutOff(): void {
    if (this.#ended) return
    const fate = this.#stopHandler ? 'killed' : 'cut off, and may go on unseen until it ends'
    this.#warn(`the handler did not stop when its signal was aborted; it was ${fate}`)
    this.#end(this.#thrown ?? this.#outcomeOf(this.#aborted ?? new JobAborted('shutdown', ABORT_MESSAGES.shutdown)))
  }

  /** Leaves the job to be found lost, which spends its attempt. */
  abandon(): void {
    if (this.#ended) return
    this.abort('shutdown')
    this.#end(null)
  }

  // The verbs are getters, so that a handler may take its job apart: `({ payload, stage, file }) => ...`.

  get stage(): (stage: string) => Promise<void> {
    return (stage) => this.#enterStage(stage)
  }

  get progress(): (fraction: number) => void {
    return (fraction) => this.#makeProgress(fraction)
  }

  get file(): JobContext<unknown>['file'] {
    return (name, content, options) => this.#storeFile(name, content, options)
  }

  get stream(): JobContext<unknown>['stream'] {
    this.streams ??= new AttemptStreams(this, this.#env.reports, () => this.#ended || this.#stepsUsed?.completing === true)
    return this.streams.open
  }

  get step(): JobContext<unknown>['step'] {
    return this.#steps.step
  }

  get effect(): JobContext<unknown>['effect'] {
    return this.#steps.effect
  }

  get transaction(): JobContext<unknown>['transaction'] {
    return this.#steps.transaction
  }

  get checkpoint(): JobContext<unknown>['checkpoint'] {
    return this.#steps.checkpoint
  }

  get recorded(): JobContext<unknown>['recorded'] {
    return this.#steps.recorded
  }

  get complete(): JobContext<unknown>['complete'] {
    return this.#steps.complete
  }

  /** For a handler in a process or thread of its own. */
  get stepLog(): StepLog {
    return this.#steps.log
  }

  stopWith(stop: (() => Promise<void>) | undefined): void {
    this.#stopHandler = stop
  }

  /** Made when it is first asked for: most jobs use none. */
  get #steps(): AttemptSteps {
    this.#stepsUsed ??= new AttemptSteps({
      job: this,
      store: this.#env.store,
      row: this.row,
      type: this.preparedType,
      encodeResult: (result) => encodeResult(result, this.type, this.#folder),
      flush: () => this.#env.reports.flush(this),
      lastOfStreams: () => this.streams?.last() ?? [],
      ended: () => this.#ended,
      leaseLost: () => this.leaseLost(),
      stopped: () => this.#env.lease.closed,
      holds: () => this.#env.lease.holds(this.row),
      classify: (error) => ownVerdict(this.preparedType, error, this.#warn),
      warn: this.#warn,
    })
    return this.#stepsUsed
  }

  async #enterStage(stage: string): Promise<void> {
    if (this.#late('stage')) return
    const text = checkStage(stage, this.type, this.preparedType.stages)
    const event: NewEvent = { kind: 'stage', attempt: this.attempt, message: text, data: null }
    // The row has every stage; the timeline has the first ones.
    this.#env.reports.add(this, { stage: text, ...(++this.#stages <= MOST_STAGES && { event }) })
    await this.#env.reports.flush(this)
  }

  #makeProgress(fraction: number): void {
    if (this.#late('progress') || typeof fraction !== 'number' || Number.isNaN(fraction)) return
    const value = Math.min(1, Math.max(0, fraction))
    if (value <= this.#progress) return
    this.#progress = value
    this.#env.reports.add(this, { progress: value })
  }

  get log(): JobLog {
    return logOf((level, ...said) => this.#logLine(level, ...said))
  }

  async #storeFile(name: string, content: FileContent, { contentType }: { contentType?: string } = {}): Promise<JobFile> {
    // Noted before it is there, so that it can be found and deleted whatever becomes of the attempt.
    const note = async (key: string): Promise<void> => {
      const event: NewEvent = { kind: 'file', attempt: this.attempt, message: key, data: null }
      if (this.#late('file') || !(await this.#env.reports.note(this, event, this.signal)))
        throw new JobtableError('lease_lost', `the attempt has ended, or its job is completed, so ${key} is not stored`)
    }
    const options = { ...(contentType !== undefined && { contentType }), signal: this.signal, note }
    return storeFile(this.#env.files, this.#folder, name, content, options)
  }

  /** Where the files of this attempt are, and of no other. */
  get #folder(): string {
    return `${this.id.replaceAll(':', '_')}/${this.attempt}-${this.token.slice(-8)}`
  }

  async #readPayload(): Promise<unknown> {
    let stored: unknown
    try {
      stored = JSON.parse(this.row.payload)
    } catch (cause) {
      throw new JobtableError('payload_invalid', `the payload of this ${this.type} row is no JSON`, { cause })
    }
    return this.preparedType.validate(stored)
  }

  #outcomeOf(error: unknown): Outcome {
    const reason = this.#aborted?.reason
    if (reason === 'shutdown') return { type: 'handed_back' }
    if (isInstance(error, RetryAfter)) return { type: 'snoozed', delayMs: error.delayMs }
    const said = reason === 'canceled' || reason === 'timeout' ? classify(this.#aborted) : this.#classify(error)
    // Not by a lost claim: whoever has lost it writes nothing, whatever is decided here.
    const notLost = said.code === 'lease_lost' && reason === undefined
    const classification: Classification = notLost ? { kind: 'permanent', code: 'misconfigured', blame: 'developer' } : said
    const own = ownUserMessage(error)
    return {
      type: 'threw',
      error: classification,
      entry: { ...describeError(error), ...(this.row.lockedBy !== null && { by: this.row.lockedBy }) },
      userMessage: own ?? userMessage(codeForUser(classification), this.#env.locale, this.preparedType.messages),
    }
  }

  #classify(error: unknown): Classification {
    // Its effect is done: whatever is wrong with what it returned, another run would repeat the effect.
    if (this.#handlerReturned) return { kind: 'permanent', code: 'result_invalid', blame: 'developer' }
    const own = ownVerdict(this.preparedType, error, this.#warn)
    if (own) return own
    // Before the handler runs, only jobtable itself throws: what it says is about the data, not the weather.
    if (isInstance(error, JobtableError) && error.code === 'payload_invalid') {
      return { kind: 'permanent', code: error.code, blame: 'developer' }
    }
    return classify(error, this.#controller ? { signal: this.#controller.signal } : {})
  }

  #logLine(level: keyof JobLog, ...args: [string, object?]): void {
    const { message, facts } = lineOf(...args)
    this.#env.logger[level]({ ...facts, jobId: this.id, type: this.type, attempt: this.attempt }, message)
    if (this.#late('log') || ++this.#logLines > MOST_LOG_LINES) return
    const text =
      this.#logLines === MOST_LOG_LINES ? 'further log lines of this attempt are only in the log' : message.slice(0, 4_000)
    this.#env.reports.add(this, { event: logEvent(this.attempt, level, text, facts) })
  }

  /**
   * Whether it is too late to report. Once the attempt is over that is a mistake to warn about. Once a transaction was asked to complete the
   * job, a report would be for nothing, and on PostgreSQL wait for the transaction, which may wait for it.
   */
  #late(verb: string): boolean {
    if (this.#ended) this.#warn(`job.${verb} was called after the attempt had ended, and is ignored`)
    return this.#ended || this.#stepsUsed?.completing === true
  }

  #end(outcome: Outcome | null): void {
    if (outcome?.type === 'handed_back') {
      const message = 'the worker shut down; the attempt is not spent'
      this.#env.reports.add(this, { event: { kind: 'handed_back', attempt: this.attempt, message, data: null } })
    }
    this.#close(outcome)
  }

  #close(outcome: Outcome | null): void {
    this.#ended = true
    const stopped = this.#stopHandler?.()
    if (!stopped) return this.#over(outcome)
    const late = (): void => this.#warn('the handler was killed, and does not end: it may run beside the next attempt')
    void within(STOPPED_WITHIN_MS, stopped)
      .catch(late)
      .then(() => this.#over(outcome))
  }

  #over(outcome: Outcome | null): void {
    if (this.#stepsUsed?.completing) void this.#closeCompleting(outcome)
    else this.#env.ended(this, outcome)
  }

  /** The job may be settled already, by a transaction of which only the database can tell whether it was committed. */
  async #closeCompleting(outcome: Outcome | null): Promise<void> {
    const claim = await this.#known('finallyCompleted')
    if (claim && outcome?.type === 'threw') this.#warn('the handler threw after its job was completed; that is not recorded')
    if (claim) return this.#env.completed(this, claim)
    this.#handlerReturned = false
    this.#env.ended(this, outcome?.type === 'succeeded' ? this.#outcomeOf(uncommitted()) : outcome)
  }

  /** Where the database does not tell, it is settled anew: that is fenced. */
  #known(ask: 'completed' | 'finallyCompleted'): Promise<ClaimSettlement | undefined> {
    return this.#stepsUsed![ask]().catch((error: unknown) => {
      this.#warn('it could not be read whether the job is completed', { err: error })
      return undefined
    })
  }

  readonly #warn = (message: string, facts: object = {}): void => {
    this.#env.logger.warn({ ...facts, jobId: this.id, type: this.type, attempt: this.attempt }, message)
  }
}
