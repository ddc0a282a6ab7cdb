/**
 * npm run bench -- <suite> [--reps 3] [--quick] [--only drain,pickup] [--targets jobtable,pg-boss] [--json file] [--from file]
 *   [--plot file.svg] and the options of the suite, which README.md lists.
 *
 * Progress goes to stderr, the table to stdout, the raw figures to bench/results/ or the file that `--json` names.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { loadavg } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { Child, HERE, ROOT, log } from './lib.mjs'
import { judge, machine, report } from './report.mjs'

const OPTIONS = {
  reps: { type: 'string' },
  quick: { type: 'boolean', default: false },
  only: { type: 'string' },
  targets: { type: 'string' },
  json: { type: 'string' },
  from: { type: 'string' },
  plot: { type: 'string' },
}

const suites = readdirSync(join(HERE, 'suites')).map((file) => file.replace(/\.mjs$/, ''))
const name = process.argv[2]?.startsWith('--') ? 'sqlite' : (process.argv[2] ?? 'sqlite')
if (!suites.includes(name)) stop(`no suite is called ${name}; there are: ${suites.join(', ')}`)
installPeers()
const suite = await import(`./suites/${name}.mjs`)
const { values } = parseArgs({ allowPositionals: true, options: { ...OPTIONS, ...suite.OPTIONS } })

const run = values.from ? saved(values.from) : await measure()
const summary = { ...run, rows: suite.rows(run.facts.sizes), comparisons: measuredOnly(suite.COMPARISONS, run.results) }
console.log(report(summary))
const { ok, miss } = judge(summary)
console.log(`\n${ok} of ${ok + miss} targets met.`)
if (values.plot) {
  const { plot } = await import('./plot.mjs')
  mkdirSync(dirname(resolve(values.plot)), { recursive: true })
  writeFileSync(resolve(values.plot), await plot(summary))
  log(`plot: ${values.plot}`)
}

async function measure() {
  if (!existsSync(join(ROOT, 'dist/index.js'))) stop('jobtable is not built yet: run `npm run build` first')
  const reps = Number(values.reps ?? (values.quick ? 1 : 3))
  if (!Number.isInteger(reps) || reps < 1) stop('--reps must be a whole number from 1')
  const prepared = await suite.prepare(values)
  const began = new Date()
  const file = values.json
    ? resolve(values.json)
    : join(HERE, 'results', `${name}-${began.toISOString().replaceAll(/[:.]/g, '-')}.json`)
  mkdirSync(dirname(file), { recursive: true })
  const run = { suite: name, at: began, reps, quick: values.quick, facts: { ...machine(), ...prepared.facts }, results: [] }
  try {
    const only = chosen('only', Object.keys(prepared.tests))
    const names = chosen(
      'targets',
      prepared.targets.map((target) => target.name),
    )
    const targets = prepared.targets.filter((target) => names.includes(target.name))
    for (const test of only) {
      for (let rep = 1; rep <= reps; rep++) {
        // The two of a comparison one after the other; each repetition begins with another of them.
        for (const target of rep % 2 === 1 ? targets : targets.toReversed()) {
          const result = await measureOnce(prepared.tests[test], target, { test, rep, reps })
          if (result) run.results.push(result)
        }
        writeFileSync(file, `${JSON.stringify(run, null, 1)}\n`)
      }
    }
  } finally {
    await prepared.cleanUp()
  }
  log(`raw figures: ${file}`)
  return run
}

/** A peer that fails costs its own figures, not those of the hour before. */
async function measureOnce(test, target, { test: title, rep, reps }) {
  const result = { target: target.name, test: title, rep, load: loadavg()[0] }
  try {
    const figures = Object.entries(await test(target)).filter(([, value]) => Array.isArray(value) || Number.isFinite(value))
    if (figures.length === 0) return undefined
    const words = figures.map(([figure, value]) => `${figure} ${[value].flat().map(short).join(' ')}`)
    log(`${title} ${rep}/${reps} ${target.name}: ${words.join(', ')}`)
    return { ...result, figures: Object.fromEntries(figures) }
  } catch (error) {
    log(`${title} ${rep}/${reps} ${target.name} failed: ${error.message}`)
    process.exitCode = 1
    await Child.killAll()
    return { ...result, figures: {}, error: error.message }
  }
}

function short(value) {
  return String(Number(value.toPrecision(4)))
}

/** The names that an option lists, or all there are. */
function chosen(option, there) {
  const names = values[option]?.split(',') ?? there
  const unknown = names.filter((item) => !there.includes(item))
  if (unknown.length > 0) throw new Error(`--${option}: there is no ${unknown.join(', ')}, only ${there.join(', ')}`)
  return names
}

function saved(file) {
  const run = JSON.parse(readFileSync(resolve(file), 'utf8'))
  if (run.suite !== name) stop(`${file} is of the suite ${run.suite}: name that one`)
  return run
}

function measuredOnly(comparisons, results) {
  const names = new Set(results.map(({ target }) => target))
  return comparisons
    .map((comparison) => ({ ...comparison, peers: comparison.peers.filter((peer) => names.has(peer)) }))
    .filter(({ ours, peers }) => names.has(ours) || peers.length > 0)
}

function installPeers() {
  if (existsSync(join(HERE, 'node_modules'))) return
  log('bench/node_modules is missing: installing the peers there with npm ci')
  const { status } = spawnSync('npm', ['ci', '--no-audit', '--no-fund'], {
    cwd: HERE,
    stdio: ['ignore', 2, 2],
    shell: process.platform === 'win32',
  })
  if (status !== 0) stop('the peers could not be installed')
}

function stop(message) {
  log(message)
  process.exit(2)
}
