/**
 * What the suites measure in the same way, whatever the database: each role in a process of its own, each measurement on a fresh
 * database. The suite says how a database comes to be, and, where a server does the work, what that has cost.
 */
import { Child, median, now, sleep, startedJobs } from './lib.mjs'

/** A producer that keeps a fixed pace is behind by then, or something is wrong. */
const MOST_PICKUP_MS = 120_000
const PACE_PER_SECOND = 200

export async function start(target) {
  const child = new Child(target)
  await child.ready
  return child
}

export const killAll = (children) => Promise.all([...new Set(children)].map((child) => child.kill()))

/**
 * - `filled(target, kinds)`: makes a database anew with so many rows of each kind; answers with its control process
 * - `serverCpu(target)`: the seconds of CPU that the target's server has used until now, if there is one that can be asked
 */
export function measurements({ filled, serverCpu = () => NaN }, sizes) {
  /** Jobs per second of one producer with so many calls in flight. */
  async function enqueueFor(target, inFlight) {
    const control = await filled(target, {})
    const producer = await start(target)
    const { perSecond } = await producer.call('enqueueFor', { ms: sizes.enqueueMs, inFlight })
    await killAll([producer, control])
    return perSecond
  }

  async function enqueueBulk(target) {
    const control = await filled(target, {})
    const producer = await start(target)
    const { perSecond } = await producer.call('enqueueBulk', { n: sizes.jobs, ...target.bulk })
    await killAll([producer, control])
    return perSecond
  }

  /**
   * From the start of the workers, with their modules loaded, until the database holds no unfinished job. After `mostDrainMs` the
   * drain is cut: its rate is that of the jobs which have started until then.
   */
  async function drainAll(target, processes) {
    const { jobs: n, mostDrainMs } = sizes
    const control = await filled(target, { pending: n })
    const workers = await Promise.all(Array.from({ length: processes }, () => start(target)))
    const serverBefore = serverCpu(target)
    const from = Math.min(...(await Promise.all(workers.map((worker) => worker.work()))))
    if (await startedJobs(workers, n, mostDrainMs)) {
      while (await control.call('unfinished')) await sleep(1)
    }
    const ms = now() - from
    const serverSeconds = serverCpu(target) - serverBefore
    // The last progress of each worker: it may be too busy to be asked.
    const last = workers.map(({ progress }) => progress.at(-1))
    await killAll([...workers, control])
    const started = last.reduce((sum, { count }) => sum + count, 0)
    return {
      perSecond: (started / ms) * 1000,
      cpuPer100k: (last.reduce((sum, { cpuSeconds }) => sum + cpuSeconds, 0) / started) * 100_000,
      serverCpuPer100k: (serverSeconds / started) * 100_000,
      peakMiB: Math.max(...last.map(({ peakMiB }) => peakMiB)),
    }
  }

  /** From the start of the worker to the start of the first n jobs; cut like a whole drain. */
  async function drainFirst(target, kinds) {
    const { first: n, mostFirstMs } = sizes
    const control = await filled(target, kinds)
    const worker = await start(target)
    const serverBefore = serverCpu(target)
    const from = await worker.work()
    await startedJobs([worker], n, mostFirstMs)
    // All that has been done until now, which may be a little more than the first n: the server's part is known for no less.
    const serverSeconds = serverCpu(target) - serverBefore
    const all = worker.progress.at(-1)
    const last = worker.progress.find(({ count: sofar }) => sofar >= n) ?? all
    await killAll([worker, control])
    return {
      perSecond: (last.count / (last.at - from)) * 1000,
      cpuPerJob: (all.cpuSeconds + (Number.isFinite(serverSeconds) ? serverSeconds : 0)) / all.count,
    }
  }

  /**
   * The first jobs' drain with nothing else in the table, and what remains of its rate with each of these beside them. Every case
   * in each of a few rounds: a machine whose speed changes within the minute favours none of them.
   */
  async function depth(target, cases) {
    const all = [['empty', { pending: sizes.first }], ...cases]
    const drains = new Map(all.map(([name]) => [name, []]))
    for (let round = 0; round < sizes.depthRounds; round++) {
      for (const [name, kinds] of all) drains.get(name).push(await drainFirst(target, kinds))
    }
    const typical = (name, figure) => median(drains.get(name).map((drain) => drain[figure]))
    const figures = { drainEmpty: typical('empty', 'perSecond') }
    for (const [name] of cases) {
      figures[`${name}Ratio`] = typical(name, 'perSecond') / figures.drainEmpty
      figures[`${name}Cpu`] = typical('empty', 'cpuPerJob') / typical(name, 'cpuPerJob')
    }
    return figures
  }

  /** From the call of enqueue to the start of the handler, at a steady pace. */
  async function pickup(target, sameProcess) {
    const control = await filled(target, {})
    const answer = await pickupHere(target, sameProcess)
    await control.kill()
    return answer
  }

  /** The same, in the database as it is. */
  async function pickupHere(target, sameProcess = false) {
    const worker = await start(target)
    await worker.work({ record: true })
    const producer = sameProcess ? worker : await start(target)
    await sleep(sizes.warmMs)
    // Both ends are warm before anything counts.
    const warming = await producer.call('enqueuePaced', { perSecond: PACE_PER_SECOND, seconds: sizes.warmMs / 1000 })
    if (!(await startedJobs([worker], warming.n, MOST_PICKUP_MS))) throw new Error(`${target.name} lost jobs`)
    await sleep(300)
    const before = worker.count
    await worker.call('forget')
    const { n } = await producer.call('enqueuePaced', { perSecond: PACE_PER_SECOND, seconds: sizes.paceSeconds })
    if (!(await startedJobs([worker], before + n, MOST_PICKUP_MS))) throw new Error(`${target.name} lost jobs`)
    const answer = await worker.call('latencies')
    await killAll([worker, producer])
    return answer
  }

  return { enqueueFor, enqueueBulk, drainAll, depth, pickup, pickupHere }
}

/** What a row of the table may ask for: of the figure itself, or of its ratio to a peer's. */
export const atLeast = (bound, unit = '') => ({ text: `at least ${bound} ${unit}`.trim(), met: (value) => value >= bound })
export const atMost = (bound, unit = '') => ({ text: `at most ${bound} ${unit}`.trim(), met: (value) => value <= bound })
export const under = (bound, unit = '') => ({ text: `under ${bound} ${unit}`.trim(), met: (value) => value < bound })
export const timesOf = (peer, bound) => ({ peer, text: `at least ${bound} x ${peer}`, met: (ratio) => ratio >= bound })
export const timesOfAtMost = (peer, bound) => ({ peer, text: `at most ${bound} x ${peer}`, met: (ratio) => ratio <= bound })

export const count = (n) => n.toLocaleString('en')
