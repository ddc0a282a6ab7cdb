/**
 * The crash injector: runs one job again and again, and lets its worker die at the first await of the verb, at the second, and so
 * on, until it has died at every one of them. Each time another worker recovers the job and goes on, and dies at the same await or
 * not at all; at the end the effects are counted.
 *
 *   a life: claim ──> attempt ──await 1──await 2── ... ──> settled
 *                                 └── dies here: nothing that it was about to do is done, its transactions are rolled back
 *
 * The attempts are those of a real worker, on a real database. What dies is everything that it asks of the store, of the provider
 * and of its own database: from that await on nothing is answered any more.
 */
import { uuidv7 } from 'uuidv7'
import type { JobContext, Store } from '../../src/index.js'
import { prepareType, type AnyTypeOptions, type PreparedType } from '../../src/job-type.js'
import type { JobRow } from '../../src/store.js'
import type { Outcome } from '../../src/transition.js'
import { newJob } from '../../src/testing/new-job.js'
import { Attempt } from '../../src/worker/attempt.js'
import { recoverLost, settlementOf } from '../../src/worker/maintenance.js'
import { Reports } from '../../src/worker/reports.js'
import { silent } from '../transactions/places.js'

/** Thrown where a death must be seen at once, inside of a transaction, so that this is rolled back. */
class Died extends Error {}

export class Life {
  /** The awaits that it came to, by name. */
  readonly passed: string[] = []
  readonly died: Promise<void>
  readonly #dieAt: number
  #die!: () => void
  #dead = false

  constructor(dieAt: number) {
    this.#dieAt = dieAt
    this.died = new Promise((resolve) => (this.#die = resolve))
  }

  get dead(): boolean {
    return this.#dead
  }

  /** An await at which it may die; a promise that is never answered, if it does. */
  at(name: string): Promise<void> {
    return this.#comesTo(name) ? new Promise(() => {}) : Promise.resolve()
  }

  /** The same within a transaction: what throws there rolls it back, as the end of its connection would. */
  within(name: string): void {
    if (this.#comesTo(name)) throw new Died(name)
  }

  /** Hangs, if it has died within. */
  async survive<T>(work: Promise<T>): Promise<T> {
    try {
      return await work
    } catch (error) {
      if (!this.#dead) throw error
    }
    return new Promise<T>(() => {})
  }

  #comesTo(name: string): boolean {
    if (this.#dead) return true
    this.passed.push(name)
    if (this.passed.length !== this.#dieAt) return false
    this.#dead = true
    this.#die()
    return true
  }
}

/** What a scenario is given to act on, in one life. */
export interface Act {
  job: JobContext<unknown>
  life: Life
  /** Of this run: what stands in the product's rows and in the provider's books. */
  mark: string
  /** The product's own transaction, by a library of its own. */
  transaction<T>(work: (tx: never) => Promise<T>): Promise<T>
}

export interface Scenario {
  /** How many awaits there are at least, so that one that is forgotten is noticed. */
  leastAwaits: number
  run(act: Act): unknown
  /** The job is failed: what a person does. True when the job is to go on. */
  mend?(store: Store, row: JobRow, mark: string): Promise<boolean>
  /** What was promised and did not come true. `atDeath` has an entry for each death. */
  check(after: { row: JobRow; mark: string; deaths: readonly Death[] }): Promise<string[]> | string[]
}

export interface Death {
  await: string
  /** Names that were done when it died. */
  done: readonly string[]
  /** What the scenario counted by then. */
  count: number
}

export interface Stage {
  store: Store
  transaction(life: Life): Act['transaction']
}

export interface Exploration {
  /** The awaits at which it died. */
  awaits: string[]
  violations: string[]
}

const MOST_PASSES = 1_000
const MOST_LIVES = 12
let runs = 0

/** `alter` breaks the store that the attempts see. `count` is noted at each death. */
export async function explore(
  stage: Stage,
  scenario: Scenario,
  { alter = (store) => store, count = () => 0 }: { alter?: (store: Store) => Store; count?: (mark: string) => number } = {},
): Promise<Exploration> {
  const run = (dieAt: number, deaths: number) => new Run(stage, scenario, alter, count).play(dieAt, deaths)
  const { passed, violations } = await run(Infinity, 0)
  for (let dieAt = 1; dieAt <= passed.length; dieAt++) {
    for (const deaths of [1, 2]) violations.push(...(await run(dieAt, deaths)).violations)
  }
  return { awaits: passed, violations }
}

class Run {
  readonly #stage: Stage
  readonly #scenario: Scenario
  readonly #alter: (store: Store) => Store
  readonly #count: (mark: string) => number
  readonly #mark = `run-${++runs}`
  readonly #type: PreparedType
  #life = new Life(Infinity)

  constructor(stage: Stage, scenario: Scenario, alter: (store: Store) => Store, count: (mark: string) => number) {
    this.#stage = stage
    this.#scenario = scenario
    this.#alter = alter
    this.#count = count
    this.#type = prepareType(this.#mark, {
      payload: { '~standard': { version: 1, vendor: 'test', validate: (value: unknown) => ({ value }) } },
      idempotency: { none: 'a test' },
      retry: { backoff: () => 0, jitter: false, maxAttempts: MOST_LIVES },
      run: (job: JobContext<unknown>) => {
        const life = this.#life
        return scenario.run({ job, life, mark: this.#mark, transaction: stage.transaction(life) })
      },
    } as unknown as AnyTypeOptions)
  }

  /** Dies at this await in the first so many lives. */
  async play(dieAt: number, deathsWanted: number): Promise<{ passed: string[]; violations: string[] }> {
    const { store } = this.#stage
    const id = uuidv7()
    await store.insert([newJob({ id, type: this.#mark, maxAttempts: MOST_LIVES })])
    const deaths: Death[] = []
    const passed: string[] = []
    for (let lives = 0; lives < MOST_LIVES; lives++) {
      this.#life = new Life(deaths.length < deathsWanted ? dieAt : Infinity)
      await this.#live()
      passed.push(...this.#life.passed)
      if (this.#life.dead) {
        const done = (await store.steps(id)).filter(({ state }) => state === 'done').map(({ name }) => name)
        deaths.push({ await: this.#life.passed.at(-1)!, done, count: this.#count(this.#mark) })
      }
      const types = new Map([[this.#mark, this.#type]])
      const failed = (error: unknown): never => {
        throw error
      }
      let row: JobRow
      let passes = 0
      // A transaction that is still being rolled back has the row locked: it is recovered in a later pass, as by any worker.
      do {
        await recoverLost({ store, types, locale: 'en', settled() {}, failed })
        row = (await store.get([id]))[0]!
      } while (row.status === 'running' && ++passes < MOST_PASSES)
      if (row.status === 'failed' && (await this.#scenario.mend?.(store, row, this.#mark))) continue
      if (row.status === 'pending' || row.status === 'retrying') continue
      const found = await this.#scenario.check({ row, mark: this.#mark, deaths })
      const story = deaths.map((death) => death.await).join(', then ') || 'no death'
      return { passed, violations: found.map((problem) => `${problem} (died at ${story})`) }
    }
    return { passed, violations: [`the job did not come to an end (died ${deaths.length} times at await ${dieAt})`] }
  }

  /** One worker, from its claim to its death or the settlement. */
  async #live(): Promise<void> {
    const { store: real } = this.#stage
    const life = this.#life
    const store = mortal(this.#alter(real), life)
    const workerId = uuidv7()
    const about = { id: workerId, host: 'h', pid: 1, process: null, queues: ['default'], types: [this.#mark], concurrency: 1 }
    await real.register(about, 60_000)
    const request = { workerId, token: uuidv7(), queues: ['default'], types: [this.#mark], limit: 1 }
    const [row] = (await real.claim(request)).jobs
    if (row) await Promise.race([life.died, this.#attempt(row, store)])
    await real.retire(workerId)
  }

  async #attempt(row: JobRow, store: Store): Promise<void> {
    const reports = new Reports(store, () => {})
    const outcome = await new Promise<Outcome | null>((resolve) => {
      const attempt = new Attempt(row, this.#type, {
        ...{ store, reports, logger: silent, locale: 'en', lease: { holds: () => true, closed: false } },
        files: undefined as never, // No handler here stores one.
        ended: (_, ended) => resolve(ended),
        completed: () => resolve(null),
      })
      void attempt.run()
    })
    if (outcome) await store.settle([settlementOf(row, outcome, this.#type, false)])
  }
}

/** Each call of the store is an await before it and an await after it. */
function mortal(store: Store, life: Life): Store {
  const around = async <T>(name: string, work: () => Promise<T>): Promise<T> => {
    await life.at(`before ${name}`)
    const answer = await life.survive(work())
    await life.at(`after ${name}`)
    return answer
  }
  return {
    ...store,
    steps: (id) => around('steps', () => store.steps(id)),
    recordStep: (fence, step) => around(`${step.state} ${step.name}`, () => store.recordStep(fence, step)),
    get: (ids) => around('get', () => store.get(ids)),
    settle: (settlements) => around('settle', () => store.settle(settlements)),
    recordIn: (transaction, write) => {
      life.within('before recordIn')
      const outcome = store.recordIn(transaction, write)
      if (!(outcome instanceof Promise)) {
        life.within('after recordIn')
        return outcome
      }
      return outcome.then((answer) => (life.within('after recordIn'), answer))
    },
    transact: (work, signal) => around('transact', () => store.transact(work, signal)),
  }
}
