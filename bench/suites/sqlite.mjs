/**
 * jobtable on SQLite beside plainjob, at equal durability: `relaxed` is `synchronous=NORMAL` on both sides, `full` is
 * `synchronous=FULL` on both.
 *
 * A test measures one target once, in processes of its own, on a fresh file, and answers with named figures. `rows` says how
 * the figures are shown and what is asked of them.
 */
import { closeSync, copyFileSync, existsSync, fsyncSync, mkdirSync, openSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { Child, TMP, loads, log, median, now, openFile, sleep, startedJobs } from '../lib.mjs'

const DURABILITIES = ['relaxed', 'full']
const ADAPTERS = ['jobtable', 'plainjob']
/** The first of each pair is the one that is judged. */
export const PAIRS = DURABILITIES.map((durability) => ({
  title: durability,
  ours: `jobtable ${durability}`,
  peer: `plainjob ${durability}`,
}))

const FULL_SIZES = {
  jobs: 100_000,
  first: 20_000,
  deep: [10_000, 100_000, 1_000_000],
  enqueueMs: 2_000,
  paceSeconds: 5,
  idleMs: 10_000,
  /** A drain that takes longer is cut; one of those at a depth earlier. */
  mostDrainMs: 20_000,
  mostFirstMs: 4_000,
}
const QUICK_SIZES = {
  jobs: 20_000,
  first: 5_000,
  deep: [10_000, 100_000],
  enqueueMs: 500,
  paceSeconds: 2,
  idleMs: 2_000,
  mostDrainMs: 4_000,
  mostFirstMs: 2_000,
}
const PACE_PER_SECOND = 200
const DEPTH_ROUNDS = 3
const BULK_CHUNK = 10_000
/** A paced producer's jobs have all started by then, or something is wrong. */
const MOST_PICKUP_MS = 120_000

export function prepare({ quick, driver: wanted }) {
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
    facts: { driver, sqlite: version, sizes },
    targets: DURABILITIES.flatMap((durability) =>
      ADAPTERS.map((adapter) => ({
        name: `${adapter} ${durability}`,
        adapter,
        durability,
        driver,
        file: join(TMP, `${adapter}-${durability}.db`),
      })),
    ),
    tests: tests(sizes),
    rows: rows(sizes),
    cleanUp: () => rmSync(TMP, { recursive: true, force: true }),
  }
}

function tests(sizes) {
  return {
    enqueue: async (target) => {
      const [one, fifty] = [await enqueueFor(target, sizes, 1), await enqueueFor(target, sizes, 50)]
      return { enqueueOne: one, enqueueFifty: fifty, fiftyToOne: fifty / one }
    },
    bulk: async (target) => {
      const control = await freshFile(target)
      const producer = await start(target)
      const { perSecond } = await producer.call('enqueueBulk', { n: sizes.jobs, chunk: BULK_CHUNK })
      await Promise.all([producer.kill(), control.kill()])
      return { bulk: perSecond }
    },
    drain: async (target) => {
      const one = await drainAll(target, sizes, 1)
      const two = await drainAll(target, sizes, 2)
      return { drainOne: one.perSecond, drainTwo: two.perSecond, cpuPer100k: one.cpuPer100k, peakMiB: one.peakMiB }
    },
    pickup: async (target) => {
      const [same, across] = [await pickup(target, sizes, true), await pickup(target, sizes, false)]
      return { sameP50: same.p50, sameP99: same.p99, acrossP50: across.p50, acrossP99: across.p99 }
    },
    // Every depth in each of a few rounds: a machine whose speed changes within the minute favours none of them.
    depth: async (target) => {
      const drains = new Map([['empty', []], ...depths(sizes).map(([name]) => [name, []])])
      for (let round = 0; round < DEPTH_ROUNDS; round++) {
        for (const [name, kinds] of [['empty', { pending: sizes.first }], ...depths(sizes)])
          drains.get(name).push(await drainFirst(target, sizes, kinds))
      }
      const typical = (name, figure) => median(drains.get(name).map((drain) => drain[figure]))
      const figures = { drainEmpty: typical('empty', 'perSecond') }
      for (const [name] of depths(sizes)) {
        figures[`${name}Ratio`] = typical(name, 'perSecond') / figures.drainEmpty
        figures[`${name}Cpu`] = typical('empty', 'cpuPerJob') / typical(name, 'cpuPerJob')
      }
      return figures
    },
    idle: async (target) => {
      // Durability changes nothing where nothing is written.
      if (target.durability !== DURABILITIES[0]) return {}
      const control = await freshFile(target)
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

function rows(sizes) {
  const { jobs, first, deep } = sizes
  const most = deep.at(-1)
  const atLeast = (bound) => ({ text: `at least ${bound}`, met: (value) => value >= bound })
  const atMost = (bound, unit) => ({ text: `at most ${bound} ${unit}`, met: (value) => value <= bound })
  const fiveTimes = { ratio: { text: 'at least 5 times', met: (ratio) => ratio >= 5 } }
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
      target: { value: atLeast(5), only: 'full' },
    },
    { figure: 'bulk', label: `enqueue, bulk of ${count(jobs)}`, unit: 'jobs/s' },
    { figure: 'drainOne', label: `drain ${count(jobs)}, 1 process`, unit: 'jobs/s', target: fiveTimes },
    { figure: 'drainTwo', label: `drain ${count(jobs)}, 2 processes`, unit: 'jobs/s', target: fiveTimes },
    { figure: 'sameP50', label: 'pickup, same process, p50', unit: 'ms', target: { value: atMost(1, 'ms') } },
    { figure: 'sameP99', label: 'pickup, same process, p99', unit: 'ms', target: { value: atMost(15, 'ms') } },
    { figure: 'acrossP50', label: 'pickup, across processes, p50', unit: 'ms', target: { value: atMost(3, 'ms') } },
    { figure: 'acrossP99', label: 'pickup, across processes, p99', unit: 'ms', target: { value: atMost(15, 'ms') } },
    { figure: 'drainEmpty', label: `drain ${count(first)}, nothing else there`, unit: 'jobs/s' },
    ...deep.slice(0, -1).map((n) => deepRow(`behind${n}`, `the same, ${count(n)} due behind`)),
    { ...deepRow(`behind${most}`, `the same, ${count(most)} due behind`), target: { value: atLeast(0.9) } },
    cpuRow(`behind${most}`, `the same, ${count(most)} due behind`),
    { ...deepRow(`delayed${most}`, `the same, ${count(most)} delayed in front`), target: { value: atLeast(0.9) } },
    cpuRow(`delayed${most}`, `the same, ${count(most)} delayed in front`),
    { ...deepRow(`finished${most}`, `the same, ${count(most)} finished`), target: { value: atLeast(0.9) } },
    cpuRow(`finished${most}`, `the same, ${count(most)} finished`),
    { figure: 'idlePercent', label: 'CPU of an idle worker', unit: '% of a core', target: { value: atMost(1, '%') } },
    { figure: 'cpuPer100k', label: 'CPU for a drain of 100,000', unit: 's' },
    { figure: 'peakMiB', label: 'peak memory of the worker', unit: 'MiB' },
  ]
}

const count = (n) => n.toLocaleString('en')

async function start(target) {
  const child = new Child(target)
  await child.ready
  return child
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
async function filledFile(target, kinds) {
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

async function enqueueFor(target, { enqueueMs }, inFlight) {
  const control = await freshFile(target)
  const producer = await start(target)
  const { perSecond } = await producer.call('enqueueFor', { ms: enqueueMs, inFlight })
  await Promise.all([producer.kill(), control.kill()])
  return perSecond
}

/**
 * From the start of the workers, with their modules loaded, until the file holds no unfinished job. After `mostDrainMs` the
 * drain is cut: its rate is that of the jobs which have started until then.
 */
async function drainAll(target, { jobs: n, mostDrainMs }, processes) {
  const control = await filledFile(target, { pending: n })
  const workers = await Promise.all(Array.from({ length: processes }, () => start(target)))
  const from = Math.min(...(await Promise.all(workers.map((worker) => worker.work()))))
  if (await startedJobs(workers, n, mostDrainMs)) {
    while (await control.call('unfinished')) await sleep(1)
  }
  const ms = now() - from
  // The last progress of each worker: it may be too busy to be asked.
  const last = workers.map(({ progress }) => progress.at(-1))
  await Promise.all([...workers, control].map((child) => child.kill()))
  const started = last.reduce((sum, { count }) => sum + count, 0)
  return {
    perSecond: (started / ms) * 1000,
    cpuPer100k: (last.reduce((sum, { cpuSeconds }) => sum + cpuSeconds, 0) / started) * 100_000,
    peakMiB: Math.max(...last.map(({ peakMiB }) => peakMiB)),
  }
}

/** From the start of the worker to the start of the first n jobs; cut like a whole drain. */
async function drainFirst(target, { first: n, mostFirstMs }, kinds) {
  const control = await filledFile(target, kinds)
  const worker = await start(target)
  const from = await worker.work()
  await startedJobs([worker], n, mostFirstMs)
  const last = worker.progress.find(({ count: sofar }) => sofar >= n) ?? worker.progress.at(-1)
  await Promise.all([worker.kill(), control.kill()])
  return { perSecond: (last.count / (last.at - from)) * 1000, cpuPerJob: last.cpuSeconds / last.count }
}

/** From the call of enqueue to the start of the handler, at a steady pace. */
async function pickup(target, { paceSeconds }, sameProcess) {
  const control = await freshFile(target)
  const worker = await start(target)
  await worker.work({ record: true })
  const producer = sameProcess ? worker : await start(target)
  await sleep(1000)
  // Both ends are warm before anything counts.
  await producer.call('enqueuePaced', { perSecond: PACE_PER_SECOND, seconds: 1 })
  await sleep(300)
  const before = worker.count
  await worker.call('forget')
  const { n } = await producer.call('enqueuePaced', { perSecond: PACE_PER_SECOND, seconds: paceSeconds })
  if (!(await startedJobs([worker], before + n, MOST_PICKUP_MS))) throw new Error(`${target.name} lost jobs`)
  const answer = await worker.call('latencies')
  await Promise.all([...new Set([worker, producer, control])].map((child) => child.kill()))
  return answer
}
