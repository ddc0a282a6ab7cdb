/** What an attempt remembers: its steps, effects and transactions, and whether one of these has completed its job. */
import { classify } from '../classify/index.js'
import { StoreLog, claimLost, patiently, type StepLog } from '../effects/log.js'
import { Steps } from '../effects/steps.js'
import { Transactions } from '../effects/transactions.js'
import { JobtableError, type Classification } from '../errors.js'
import type { PreparedType } from '../job-type.js'
import type { JobRow, Store } from '../store.js'
import type { StreamAppend } from '../streams/record.js'
import type { JobTransaction } from '../transactions/own.js'
import type { JobContext } from './context.js'
import type { ClaimSettlement } from './maintenance.js'

export interface AttemptStepsEnv {
  job: Pick<JobContext<unknown>, 'id' | 'type' | 'attempt' | 'idempotencyKey' | 'signal'>
  store: Store
  row: JobRow
  type: PreparedType
  encodeResult(result: unknown): string | null
  flush(): Promise<void>
  /** What its streams got and the store has not. */
  lastOfStreams(): StreamAppend[]
  /** The attempt is over. */
  ended(): boolean
  leaseLost(): void
  /** Its worker has stopped. */
  stopped(): boolean
  /** Whether the claim is still held, as far as this process can tell. */
  holds(): boolean
  /** The type's own word on an error, where it has one. */
  classify(error: unknown): Classification | undefined
  warn(message: string): void
}

type Verbs = Pick<JobContext<unknown>, 'step' | 'effect' | 'recorded' | 'transaction' | 'checkpoint' | 'complete'>

export class AttemptSteps implements Verbs {
  readonly log: StepLog
  readonly #env: AttemptStepsEnv
  readonly #steps: Steps
  readonly #transactions: Transactions

  constructor(env: AttemptStepsEnv) {
    const { job, store, row, type } = env
    this.#env = env
    this.log = new StoreLog({
      store,
      fence: { id: row.id, token: row.claimToken },
      ended: env.ended,
      leaseLost: env.leaseLost,
      holds: env.holds,
    })
    this.#steps = new Steps({ job, log: this.log, classify: (error) => env.classify(error) ?? classify(error), warn: env.warn })
    this.#transactions = new Transactions({
      store,
      row,
      type,
      steps: this.#steps,
      signal: () => job.signal,
      encodeResult: env.encodeResult,
      flush: env.flush,
      lastOfStreams: env.lastOfStreams,
      checkRunning: (verb) => {
        if (env.ended()) throw claimLost(`job.${verb} was called after the attempt had ended`)
      },
    })
  }

  readonly step: Verbs['step'] = (name, fn) => this.#steps.step(name, fn)

  readonly effect: Verbs['effect'] = (name, options) => this.#steps.effect(name, options)

  readonly recorded: Verbs['recorded'] = (name) => this.#steps.recorded(name)

  readonly checkpoint: Verbs['checkpoint'] = (tx, name, value) => this.#transactions.checkpoint(tx, name, value)

  readonly complete: Verbs['complete'] = (tx, result) => this.#transactions.complete(tx, result)

  readonly transaction: Verbs['transaction'] = <Value>(
    ...[first, fn]: [name: string, fn: (tx: JobTransaction) => Value] | [fn: (tx: JobTransaction) => Value]
  ) =>
    typeof first === 'function' ? this.#transactions.completingTransaction(first) : this.#transactions.transaction(first, fn!)

  /** See `InFlight`. */
  handlerReturned(): Promise<void> {
    return this.#steps.handlerReturned()
  }

  handlerThrew(): Promise<void> {
    return this.#steps.inFlight.handlerThrew()
  }

  /** Whether a transaction was asked to complete the job. */
  get completing(): boolean {
    return this.#transactions.completing
  }

  /**
   * The completion, if its transaction was committed. The token is gone then; the number of the attempt tells that no other
   * attempt has completed the job, for a claim that was lost is counted. Waits for a database that is away.
   */
  finallyCompleted(): Promise<ClaimSettlement | undefined> {
    return patiently(
      () => this.completed(),
      () => (this.#env.stopped() ? claimLost('its worker has stopped') : undefined),
    )
  }

  /** As far as it can be told at once: a handler whose claim is lost must hear of it soon. */
  async completed(): Promise<ClaimSettlement | undefined> {
    const [now] = await this.#env.store.get([this.#env.row.id])
    const mine = now?.status === 'succeeded' && now.attempts === this.#env.row.attempts
    return mine ? this.#transactions.completion : undefined
  }
}

/** For a handler that returned although its transaction to complete the job was not committed. */
export function uncommitted(): JobtableError {
  return new JobtableError(
    'transaction_uncommitted',
    'the transaction in which the job was completed had not been committed when the handler returned: await it, and let its errors through',
  )
}
