/**
 * npm run bench -- sqlite [--reps 3] [--quick] [--only drain,pickup] [--durability full] [--driver better-sqlite3] [--json file]
 *
 * Progress goes to stderr, the table to stdout, the raw figures to bench/results/ or the file that `--json` names.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { loadavg } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { HERE, ROOT, log } from './lib.mjs'
import { judge, machine, report } from './report.mjs'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    reps: { type: 'string' },
    quick: { type: 'boolean', default: false },
    only: { type: 'string' },
    durability: { type: 'string' },
    driver: { type: 'string' },
    json: { type: 'string' },
  },
})

const suites = readdirSync(join(HERE, 'suites')).map((file) => file.replace(/\.mjs$/, ''))
const suite = positionals[0] ?? 'sqlite'
if (!suites.includes(suite)) stop(`no suite is called ${suite}; there are: ${suites.join(', ')}`)
if (!existsSync(join(ROOT, 'dist/index.js'))) stop('jobtable is not built yet: run `npm run build` first')
installPeers()

const { prepare, PAIRS } = await import(`./suites/${suite}.mjs`)
const reps = Number(values.reps ?? (values.quick ? 1 : 3))
if (!Number.isInteger(reps) || reps < 1) stop('--reps must be a whole number from 1')
const prepared = prepare({ quick: values.quick, driver: values.driver })
const only = values.only?.split(',') ?? Object.keys(prepared.tests)
const unknown = only.filter((name) => !(name in prepared.tests))
if (unknown.length > 0) stop(`no test is called ${unknown.join(', ')}; there are: ${Object.keys(prepared.tests).join(', ')}`)
const pairs = PAIRS.filter(({ title }) => values.durability === undefined || title === values.durability)
const targets = prepared.targets.filter(({ name }) => pairs.some(({ ours, peer }) => name === ours || name === peer))
if (targets.length === 0) stop(`--durability must be one of: ${PAIRS.map(({ title }) => title).join(', ')}`)

const began = new Date()
const facts = { ...machine(), ...prepared.facts }
const results = []
try {
  for (const test of only) {
    for (let rep = 1; rep <= reps; rep++) await alternate(test, rep)
  }
} finally {
  prepared.cleanUp()
}

const summary = { suite, facts, results, rows: prepared.rows, pairs, reps }
console.log(report(summary))
const { ok, miss } = judge(summary)
console.log(`\n${ok} of ${ok + miss} targets met.`)
log(`raw figures: ${save()}`)

/** Every target once, the two of a pair one after the other; each repetition begins with another of them. */
async function alternate(test, rep) {
  const order = rep % 2 === 1 ? targets : targets.toReversed()
  for (const target of order) {
    const figures = await prepared.tests[test](target)
    results.push({ target: target.name, test, rep, load: loadavg()[0], figures })
    log(
      `${test} ${rep}/${reps} ${target.name}: ${Object.entries(figures)
        .map(([name, value]) => `${name} ${Number(value.toPrecision(4))}`)
        .join(', ')}`,
    )
  }
}

function save() {
  const file = values.json
    ? resolve(values.json)
    : join(HERE, 'results', `${suite}-${began.toISOString().replaceAll(/[:.]/g, '-')}.json`)
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, `${JSON.stringify({ suite, at: began, reps, quick: values.quick, facts, results }, null, 1)}\n`)
  return file
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
