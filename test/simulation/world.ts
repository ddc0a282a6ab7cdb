/** What all parts of one run share: its time, its chance, its plan, what has been met, the system elsewhere, and the first violation. */
import type { Coverage } from './coverage.js'
import { Ledger } from './ledger.js'
import { planOf, type Plan } from './plan.js'
import { Provider } from './provider.js'
import { Random } from './random.js'
import { VirtualTime, type Host } from './virtual-time.js'

export interface Violation {
  /** The invariant, by its name. */
  invariant: string
  detail: string
  /** True time, in milliseconds since the run began. */
  atMs: number
}

export class World {
  readonly random: Random
  readonly plan: Plan
  readonly time: VirtualTime
  readonly coverage: Coverage
  readonly ledger = new Ledger()
  readonly provider: Provider
  /** No fault is begun any more. */
  healthy = false
  violation: Violation | undefined
  readonly #trace: string[] | undefined
  readonly #names = new Map<string, string>()

  constructor(seed: number, coverage: Coverage, trace?: string[]) {
    this.random = new Random(seed)
    this.plan = planOf(this.random)
    this.time = new VirtualTime(this.random)
    this.time.uncaught = (error) => this.fail('nothing is thrown where nobody catches it', describe(error))
    this.coverage = coverage
    this.provider = new Provider(this)
    this.#trace = trace
  }

  /** The first violation counts; what follows may follow from it. */
  fail(invariant: string, detail: string): void {
    if (this.violation) return
    this.violation = { invariant, detail: this.#named(detail), atMs: this.time.now }
    this.note(null, () => `VIOLATION: ${invariant}: ${detail}`)
  }

  /** Adds a line to the trace, where there is one. */
  note(host: Host | null, line: () => string): void {
    this.#trace?.push(`${this.time.now.toFixed(2).padStart(10)} ${(host?.name ?? '').padEnd(9)} ${this.#named(line())}`)
  }

  /** Short names in place of ids, in the order in which they come up: an id differs from run to run, its name does not. */
  #named(text: string): string {
    return text.replaceAll(/[\da-f]{8}-[\da-f]{4}-7[\da-f]{3}-[\da-f]{4}-[\da-f]{12}/g, (id) => {
      let name = this.#names.get(id)
      if (name === undefined) this.#names.set(id, (name = `#${this.#names.size + 1}`))
      return name
    })
  }
}

export function describe(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error)
}
