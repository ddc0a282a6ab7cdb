/**
 * `npm run simulate`: runs the true worker and store under many seeds, and then every broken variant until it is found out. Exits with 1
 * when the true one breaks an invariant, a variant is not found out, or something that should be met never was.
 *
 *   --runs N          how many seeds (default 2000)
 *   --seed N          the first seed; without --runs the only one
 *   --variant NAME    this broken variant instead of the true one
 *   --trace           every line of what happened, for one seed
 */
import { parseArgs } from 'node:util'
import { Coverage } from './coverage.js'
import { search, type Search } from './search.js'
import { simulate } from './run.js'
import { VARIANTS, type Variant } from './variants.js'

const DEFAULT_RUNS = 2_000
/** No variant has needed more than a third of it. */
const RUNS_PER_VARIANT = 2_000
/** Fewer runs than this need not meet everything. */
const RUNS_THAT_MEET_ALL = 1_000
const LINES_BEFORE_A_VIOLATION = 60

const { values } = parseArgs({
  options: { runs: { type: 'string' }, seed: { type: 'string' }, variant: { type: 'string' }, trace: { type: 'boolean' } },
})
const seed = whole('seed', values.seed ?? '1')
const runs = whole('runs', values.runs ?? (values.seed === undefined ? String(DEFAULT_RUNS) : '1'))

function whole(name: string, text: string): number {
  if (/^\d+$/.test(text)) return Number(text)
  console.error(`--${name} must be a whole number, not ${text}`)
  process.exit(2)
}

function variantOf(name: string): Variant {
  const variant = VARIANTS[name]
  if (variant) return variant
  console.error(`there is no variant ${JSON.stringify(name)}; there are:\n  ${Object.keys(VARIANTS).join('\n  ')}`)
  process.exit(2)
}

/** Plays the seed once more, and says what happened. The names in the trace are those of this very run. */
async function show(of: number, name: string | undefined, lines: number): Promise<void> {
  const trace: string[] = []
  const { violation } = await simulate({ seed: of, variant: name === undefined ? undefined : variantOf(name), trace })
  console.log(trace.slice(-lines).join('\n'))
  if (!violation) return
  console.log(`\nVIOLATION with seed ${of}: ${violation.invariant}: ${violation.detail}`)
  console.log(`all of it: npm run simulate -- --seed ${of}${name === undefined ? '' : ` --variant '${name}'`} --trace`)
}

async function one(name: string | undefined): Promise<boolean> {
  const {
    seed: last,
    violation,
    ...sum
  } = await search({ seed, runs, variant: name === undefined ? undefined : variantOf(name) })
  if (violation || values.trace) await show(last, name, values.trace ? Infinity : LINES_BEFORE_A_VIOLATION)
  console.log(`${sum.runs} runs, ${sum.steps} steps: ${violation ? 'a violation' : 'no violation'}`)
  return violation === undefined
}

function report(coverage: Coverage, found: Search, seconds: number): void {
  for (const [what, count] of [...coverage.counts].sort(([a], [b]) => (a < b ? -1 : 1)))
    console.log(`  ${String(count).padStart(9)}  ${what}`)
  const hours = (found.virtualMs / 3_600_000).toFixed(1)
  console.log(`${found.runs} runs, ${found.steps} steps, ${hours} h of virtual time in ${seconds.toFixed(1)} s`)
}

async function all(): Promise<boolean> {
  const began = performance.now()
  const coverage = new Coverage()
  const progress = (done: number): void => console.log(`${done} runs`)
  const found = await search({ seed, runs, coverage, progress })
  report(coverage, found, (performance.now() - began) / 1_000)
  if (found.violation) {
    await show(found.seed, undefined, LINES_BEFORE_A_VIOLATION)
    return false
  }
  const missing = found.runs >= RUNS_THAT_MEET_ALL ? coverage.missing : []
  for (const what of missing) console.log(`NEVER MET: ${what}`)
  const variantsBegan = performance.now()
  let unseen = 0
  for (const [name, variant] of Object.entries(VARIANTS)) {
    const { violation, runs } = await search({ seed: 1, runs: RUNS_PER_VARIANT, variant })
    if (!violation) unseen++
    console.log(
      violation
        ? `  found in run ${String(runs).padStart(4)}: ${name}: ${violation.invariant}`
        : `  NOT FOUND in ${runs} runs: ${name}`,
    )
  }
  const count = Object.keys(VARIANTS).length
  console.log(
    `${count - unseen} of ${count} broken variants found in ${((performance.now() - variantsBegan) / 1_000).toFixed(1)} s`,
  )
  const passed = unseen === 0 && missing.length === 0
  const seconds = ((performance.now() - began) / 1_000).toFixed(1)
  console.log(
    `${passed ? 'PASSED' : 'FAILED'}: violations 0 in ${found.runs} runs, variants not found ${unseen}, never met ${missing.length}, ${seconds} s`,
  )
  return passed
}

const passed = values.variant !== undefined || values.trace || runs === 1 ? await one(values.variant) : await all()
process.exitCode = passed ? 0 : 1
