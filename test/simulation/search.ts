/** Runs one seed after the other, until an invariant is broken. */
import type { Coverage } from './coverage.js'
import { simulate } from './run.js'
import type { Variant } from './variants.js'
import type { Violation } from './world.js'

const PROGRESS_EVERY = 2_000

export interface Search {
  /** The last seed that was run: the one with the violation, if there is any. */
  seed: number
  runs: number
  steps: number
  virtualMs: number
  violation: Violation | undefined
}

export interface SearchOptions {
  /** The first one. */
  seed: number
  runs: number
  variant?: Variant | undefined
  coverage?: Coverage
  progress?(runs: number): void
}

export async function search({ seed, runs, variant, coverage, progress }: SearchOptions): Promise<Search> {
  const sum: Search = { seed, runs: 0, steps: 0, virtualMs: 0, violation: undefined }
  while (sum.runs < runs && !sum.violation) {
    sum.seed = seed + sum.runs
    const result = await simulate({ seed: sum.seed, variant, ...(coverage && { coverage }) })
    sum.runs++
    sum.steps += result.steps
    sum.virtualMs += result.virtualMs
    sum.violation = result.violation
    if (sum.runs % PROGRESS_EVERY === 0) progress?.(sum.runs)
    // A run is one turn of the event loop; whoever runs this needs one between two of them.
    await new Promise(setImmediate)
  }
  return sum
}
