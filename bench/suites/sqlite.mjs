/**
 * jobtable on SQLite beside plainjob, at equal durability: `relaxed` is `synchronous=NORMAL` on both sides, `full` is
 * `synchronous=FULL` on both.
 *
 * A test measures one target once, in processes of its own, on a fresh file, and answers with named figures. `rows` says how
 * the figures are shown and what is asked of them.
 */
import { closeSync, copyFileSync, existsSync, fsyncSync, mkdirSync, openSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { TMP, loads, log, openFile, sleep } from '../lib.mjs'
import { atLeast, atMost, count, measurements, start, timesOf } from '../measure.mjs'

const DURABILITIES = ['relaxed', 'full']
const ADAPTERS = ['jobtable', 'plainjob']

export const OPTIONS = { durability: { type: 'string' }, driver: { type: 'string' } }

export const COMPARISONS = DURABILITIES.map((durability) => ({
  title: durability,
  ours: `jobtable ${durability}`,
  peers: [`plainjob ${durability}`],
}))

const FULL_SIZES = {
  jobs: 100_000,
  first: 20_000,
  deep: [10_000, 100_000, 1_000_000],
  enqueueMs: 2_000,
  warmMs: 1_000,
  paceSeconds: 5,
  idleMs: 10_000,
  depthRounds: 3,
  /** A drain that takes longer is cut; one of those at a depth earlier. */
  mostDrainMs: 20_000,
  mostFirstMs: 4_000,
}
const QUICK_SIZES = {
  jobs: 20_000,
  first: 5_000,
  deep: [10_000, 100_000],
  enqueueMs: 500,
  warmMs: 1_000,
  paceSeconds: 2,
  idleMs: 2_000,
  depthRounds: 3,
  mostDrainMs: 4_000,
  mostFirstMs: 2_000,
}
const BULK = { chunk: 10_000, inFlight: 1 }

export function prepare({ quick, driver: wanted, durability: only }) {
  if (only && !DURABILITIES.includes(only)) throw new Error(`--durability must be one of: ${DURABILITIES.join(', ')}`)
  const driver = wanted ?? (loads('node:sqlite') ? 'node:sqlite' : 'better-sqlite3')
  if (!loads(driver))
    throw new Error(`${driver} cannot be loaded in Node ${process.version}: see --driver, or run \`npm rebuild better-sqlite3\``)
  const sizes = quick ? QUICK_SIZES : FULL_SIZES
  rmSync(TMP, { recursive: true, force: true })
  mkdirSync(TMP, { recursive: true })
  const database = openFile(driver, ':memory:')
  const { version } = database.prepare('SELECT sqlite_version() AS version').get()
  database.close()
  return {
    facts: { software: [`SQLite ${version}`, driver], sizes },
    targets: DURABILITIES.filter((durability) => !only || durability === only).flatMap((durability) =>
      ADAPTERS.map((adapter) => ({
        name: `${adapter} ${durability}`,
        adapter,
        durability,
        bulk: BULK,
        driver,
        file: join(TMP, `${adapter}-${durability}.db`),
      })),
    ),
    tests: tests(sizes),
    cleanUp: () => rmSync(TMP, { recursive: true, force: true }),
  }
}

function tests(sizes) {
  const { enqueueFor, enqueueBulk, drainAll, depth, pickup } = measurements({ filled }, sizes)
  return {
    enqueue: async (target) => {
      const [one, fifty] = [await enqueueFor(target, 1), await enqueueFor(target, 50)]
      return { enqueueOne: one, enqueueFifty: fifty, fiftyToOne: fifty / one }
    },
    bulk: async (target) => ({ bulk: await enqueueBulk(target) }),
    drain: async (target) => {
      const one = await drainAll(target, 1)
      const two = await drainAll(target, 2)
      return { drainOne: one.perSecond, drainTwo: two.perSecond, cpuPer100k: one.cpuPer100k, peakMiB: one.peakMiB }
    },
    pickup: async (target) => {
      const [same, across] = [await pickup(target, true), await pickup(target, false)]
      return { sameP50: same.p50, sameP99: same.p99, acrossP50: across.p50, acrossP99: across.p99 }
    },
    depth: (target) => depth(target, depths(sizes)),
    idle: async (target) => {
      // Durability changes nothing where nothing is written.
      if (target.durability !== DURABILITIES[0]) return {}
      const control = await filled(target, {})
      const worker = await start(target)
      await worker.work({ silent: true })
      await sleep(1500)
      await worker.call('forget')
      await sleep(sizes.idleMs)
      const { cpuSeconds } = await worker.call('usage')
      await Promise.all([worker.kill(), control.kill()])
      return { idlePercent: (cpuSeconds / sizes.idleMs) * 100_000 }
    },
  }
}

/** What else is in the table: due rows behind the first ones, rows in front of them that are not due, finished rows. */
function depths({ first, deep }) {
  const most = deep.at(-1)
  return [
    ...deep.map((n) => [`behind${n}`, { pending: first + n }]),
    [`delayed${most}`, { pending: first, delayed: most }],
    [`finished${most}`, { pending: first, finished: most }],
  ]
}

export function rows(sizes) {
  const { jobs, first, deep } = sizes
  const most = deep.at(-1)
  const fiveTimes = [timesOf('plainjob', 5)]
  const cpuRow = (name, label) => ({ figure: `${name}Cpu`, label: `${label}, by CPU`, unit: 'share', ratio: false })
  const deepRow = (name, label) => ({ figure: `${name}Ratio`, label, unit: 'share', ratio: false })
  return [
    { figure: 'enqueueOne', label: 'enqueue, one by one', unit: 'jobs/s' },
    { figure: 'enqueueFifty', label: 'enqueue, 50 in flight', unit: 'jobs/s' },
    {
      figure: 'fiftyToOne',
      label: '50 in flight to one by one',
      unit: 'times',
      ratio: false,
      asked: [{ ...atLeast(5), only: 'full' }],
    },
    { figure: 'bulk', label: `enqueue, bulk of ${count(jobs)}`, unit: 'jobs/s' },
    { figure: 'drainOne', label: `drain ${count(jobs)}, 1 process`, unit: 'jobs/s', asked: fiveTimes },
    { figure: 'drainTwo', label: `drain ${count(jobs)}, 2 processes`, unit: 'jobs/s', asked: fiveTimes },
    // At full durability an enqueue waits for the disk, whose time is the machine's and not the queue's.
    { figure: 'sameP50', label: 'pickup, same process, p50', unit: 'ms', asked: [{ ...atMost(1, 'ms'), only: 'relaxed' }] },
    { figure: 'sameP99', label: 'pickup, same process, p99', unit: 'ms', asked: [{ ...atMost(15, 'ms'), only: 'relaxed' }] },
    { figure: 'acrossP50', label: 'pickup, across processes, p50', unit: 'ms', asked: [{ ...atMost(3, 'ms'), only: 'relaxed' }] },
    {
      figure: 'acrossP99',
      label: 'pickup, across processes, p99',
      unit: 'ms',
      asked: [{ ...atMost(15, 'ms'), only: 'relaxed' }],
    },
    { figure: 'drainEmpty', label: `drain ${count(first)}, nothing else there`, unit: 'jobs/s', plot: false },
    ...deep.slice(0, -1).map((n) => deepRow(`behind${n}`, `the same, ${count(n)} due behind`)),
    { ...deepRow(`behind${most}`, `the same, ${count(most)} due behind`), asked: [atLeast(0.9)] },
    cpuRow(`behind${most}`, `the same, ${count(most)} due behind`),
    { ...deepRow(`delayed${most}`, `the same, ${count(most)} delayed in front`), asked: [atLeast(0.9)] },
    cpuRow(`delayed${most}`, `the same, ${count(most)} delayed in front`),
    { ...deepRow(`finished${most}`, `the same, ${count(most)} finished`), asked: [atLeast(0.9)] },
    cpuRow(`finished${most}`, `the same, ${count(most)} finished`),
    { figure: 'idlePercent', label: 'CPU of an idle worker', unit: '% of a core', asked: [atMost(1, '%')] },
    { figure: 'cpuPer100k', label: 'CPU for a drain of 100,000', unit: 's' },
    { figure: 'peakMiB', label: 'peak memory of the worker', unit: 'MiB' },
  ]
}

function removeFile(file) {
  for (const suffix of ['', '-wal', '-shm']) rmSync(file + suffix, { force: true })
}

/** The control process of a new, empty queue. */
async function freshFile(target) {
  removeFile(target.file)
  const control = await start(target)
  await control.call('prepare')
  return control
}

/** The control process of a queue with these rows, copied from a file that was filled once. */
async function filled(target, kinds) {
  if (Object.keys(kinds).length === 0) return freshFile(target)
  const template = join(TMP, `${target.adapter}-${JSON.stringify(kinds).replaceAll(/\W+/g, '')}.template`)
  if (!existsSync(template)) {
    log(`  filling ${target.adapter} with ${JSON.stringify(kinds)}`)
    const filler = await freshFile({ ...target, file: template })
    await filler.call('fill', kinds)
    await filler.call('checkpoint')
    await filler.kill()
  }
  removeFile(target.file)
  copyToDisk(template, target.file)
  const control = await start(target)
  await control.call('prepare')
  await control.call('checkpoint')
  return control
}

/** A copy that is on the disk: or the system would write it while the drain is measured, and the more so the larger it is. */
function copyToDisk(from, to) {
  copyFileSync(from, to)
  const fd = openSync(to, 'r+')
  fsyncSync(fd)
  closeSync(fd)
}
