/**
 * jobtable on PostgreSQL beside graphile-worker, pg-boss and BullMQ, the latter on PostgreSQL and on Redis. Each is tuned for
 * throughput; jobtable is measured as it comes as well.
 *
 * A test measures one target once, in processes of its own, on a database made for it, and answers with named figures. `rows` says
 * how the figures are shown and what is asked of them.
 */
import { mkdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { HERE, TMP, log } from '../lib.mjs'
import { atLeast, atMost, count, killAll, measurements, start, timesOf, timesOfAtMost, under } from '../measure.mjs'
import { connectPostgres, startPostgres } from '../servers/postgres.mjs'
import { startRedis } from '../servers/redis.mjs'

export const OPTIONS = { postgres: { type: 'string' } }

const TARGETS = [
  { name: 'jobtable', adapter: 'jobtable', bulk: { chunk: 1_000, inFlight: 2 }, settings: { concurrency: 10, prefetch: 500 } },
  { name: 'jobtable-defaults', adapter: 'jobtable', settings: {} },
  {
    name: 'graphile-worker',
    adapter: 'graphile-worker',
    bulk: { chunk: 1_000, inFlight: 2 },
    settings: {
      worker: {
        concurrentJobs: 10,
        maxPoolSize: 12,
        localQueue: { size: 500 },
        completeJobBatchDelay: 0,
        failJobBatchDelay: 0,
      },
      producerPoolSize: 20,
    },
  },
  {
    name: 'pg-boss',
    adapter: 'pg-boss',
    bulk: { chunk: 1_000, inFlight: 2 },
    settings: {
      boss: { max: 10, useListenNotify: true },
      queue: { notify: true },
      work: {
        batchSize: 1_000,
        localConcurrency: 4,
        pollingIntervalSeconds: 0.5,
        notifyPollingIntervalSeconds: 0.5,
        burstWhenBatchFull: true,
      },
    },
  },
  {
    name: 'bullmq-postgres',
    adapter: 'bullmq',
    bulk: { chunk: 1_000, inFlight: 1 },
    settings: { removeOnComplete: true, concurrency: 50, poolSize: 20 },
  },
  {
    name: 'bullmq-redis',
    adapter: 'bullmq',
    bulk: { chunk: 500, inFlight: 2 },
    settings: { removeOnComplete: true, concurrency: 200 },
  },
]

export const COMPARISONS = [
  {
    title: 'met',
    ours: 'jobtable',
    peers: TARGETS.map(({ name }) => name).filter((name) => name !== 'jobtable'),
  },
]

const FULL_SIZES = {
  jobs: 100_000,
  first: 20_000,
  behind: 1_000_000,
  finished: 5_000_000,
  enqueueMs: 2_000,
  warmMs: 1_000,
  paceSeconds: 20,
  togetherSeconds: 60,
  heldSeconds: 120,
  windowSeconds: 10,
  depthRounds: 3,
  inTransaction: 2_000,
  /** A drain that takes longer is cut. */
  mostDrainMs: 20_000,
  mostFirstMs: 10_000,
}
const QUICK_SIZES = {
  jobs: 2_000,
  first: 1_000,
  behind: 10_000,
  finished: 10_000,
  enqueueMs: 200,
  warmMs: 200,
  paceSeconds: 1,
  togetherSeconds: 2,
  heldSeconds: 2,
  windowSeconds: 1,
  depthRounds: 1,
  inTransaction: 200,
  mostDrainMs: 2_500,
  mostFirstMs: 1_500,
}
const OUTSTANDING = 500
const BATCH = 50
/** Where a worker's settings change nothing, jobtable is not measured twice. */
const WORKERS_ONLY = new Set(['jobtable-defaults'])
/** Whom the tests of old snapshots and of full tables are for; a full table of the latter's is filled with due jobs only. */
const KEEPS_UP = new Set(['jobtable', 'graphile-worker'])

export async function prepare({ quick, postgres: url }) {
  const sizes = quick ? QUICK_SIZES : FULL_SIZES
  rmSync(TMP, { recursive: true, force: true })
  mkdirSync(TMP, { recursive: true })
  const postgres = url ? await connectPostgres(url) : await startPostgres()
  const redis = await startRedis()
  const targets = TARGETS.filter(({ name }) => redis || name !== 'bullmq-redis').map((target) =>
    Object.assign({ url: target.name === 'bullmq-redis' ? redis.url : postgres.urlOf(target.name) }, target),
  )
  return {
    facts: {
      sizes,
      software: [
        `PostgreSQL ${postgres.settings.version}`,
        ...(redis ? [`Redis ${redis.version}`] : []),
        ...['graphile-worker', 'pg-boss', 'bullmq'].map((name) => `${name} ${versionOf(name)}`),
      ],
      server: postgres.settings,
      settings: Object.fromEntries(
        targets.map(({ name, settings, bulk }) => [name, described({ ...settings, bulk }) || 'as it comes']),
      ),
      notes: [
        ...(url ? ['The server was there already: what it cost is not known.'] : []),
        ...(redis ? [] : ['BullMQ on Redis is left out: there is no redis-server here (Debian: apt-get install redis-server).']),
      ],
    },
    targets,
    tests: tests(sizes, postgres, redis),
    async cleanUp() {
      await Promise.all([postgres.stop(), redis?.stop()])
      rmSync(TMP, { recursive: true, force: true })
    },
  }
}

function tests(sizes, postgres, redis) {
  const filled = filler(postgres)
  const serverCpu = ({ name }) => (name === 'bullmq-redis' ? redis : postgres).cpuSeconds()
  const { enqueueFor, enqueueBulk, drainAll, depth, pickup, pickupHere } = measurements({ filled, serverCpu }, sizes)

  async function together(target, seconds) {
    const child = await start(target)
    const { windowSeconds } = sizes
    const answer = await child.call('together', { seconds, windowSeconds, outstanding: OUTSTANDING, batch: BATCH })
    await child.kill()
    return answer
  }

  return {
    enqueue: async (target) => {
      if (WORKERS_ONLY.has(target.name)) return {}
      return { enqueueOne: await enqueueFor(target, 1), enqueueFifty: await enqueueFor(target, 50) }
    },
    bulk: async (target) => (WORKERS_ONLY.has(target.name) ? {} : { bulk: await enqueueBulk(target) }),
    drain: async (target) => {
      const one = await drainAll(target, 1)
      const two = await drainAll(target, 2)
      const { cpuPer100k, serverCpuPer100k, peakMiB } = one
      return { drainOne: one.perSecond, drainTwo: two.perSecond, cpuPer100k, serverCpuPer100k, peakMiB }
    },
    together: async (target) => {
      const control = await filled(target, {})
      const { perSecond, p99, windows } = await together(target, sizes.togetherSeconds)
      await control.kill()
      return { together: perSecond, togetherP99: p99, togetherWindows: windows }
    },
    held: async (target) => {
      if (!KEEPS_UP.has(target.name)) return {}
      const control = await filled(target, {})
      const release = await postgres.holdSnapshot(target.name)
      const { perSecond, windows } = await together(target, sizes.heldSeconds)
      // What the snapshot keeps from being cleaned is in the way by now.
      const { p50, p99 } = await pickupHere(target)
      await release()
      await control.kill()
      const heldShare = windows.at(-1) / windows[0]
      return { held: perSecond, heldShare, heldPickupP50: p50, heldPickupP99: p99, heldWindows: windows }
    },
    pickup: async (target) => {
      const { p50, p99 } = await pickup(target, false)
      return { pickupP50: p50, pickupP99: p99 }
    },
    depth: async (target) => (KEEPS_UP.has(target.name) ? depth(target, depths(target, sizes)) : {}),
    transaction: async (target) => {
      if (target.name !== 'jobtable') return {}
      const control = await filled(target, {})
      const child = await start(target)
      await child.call('inTransaction', { n: sizes.inTransaction / 10 })
      const { statementMs, enqueueMs, queriesPerEnqueue } = await child.call('inTransaction', { n: sizes.inTransaction })
      await killAll([child, control])
      return { statementMs, enqueueMs, enqueueToStatement: enqueueMs / statementMs, queriesPerEnqueue }
    },
  }
}

/** What else is in the table: due rows behind the first ones, rows in front of them that are not due, finished rows. */
function depths({ adapter }, { first, behind, finished }) {
  const cases = [
    ['behind', { pending: first + behind }],
    ['delayed', { pending: first, delayed: behind }],
    ['finished', { pending: first, finished }],
  ]
  return adapter === 'jobtable' ? cases : cases.slice(0, 1)
}

export function rows({ jobs, first, behind, finished, togetherSeconds, heldSeconds, windowSeconds }) {
  const deepRows = (name, label) => [
    { figure: `${name}Ratio`, label, unit: 'share', ratio: false, asked: [atLeast(0.9)] },
    { figure: `${name}Cpu`, label: `${label}, by CPU`, unit: 'share', ratio: false },
  ]
  const graphile = (bound) => timesOf('graphile-worker', bound)
  const redis = (bound) => timesOf('bullmq-redis', bound)
  return [
    { figure: 'enqueueOne', label: 'enqueue, one by one', unit: 'jobs/s', asked: [graphile(4)] },
    { figure: 'enqueueFifty', label: 'enqueue, 50 in flight', unit: 'jobs/s', asked: [graphile(15)] },
    { figure: 'bulk', label: `enqueue, bulk of ${count(jobs)}`, unit: 'jobs/s', asked: [graphile(1.3)] },
    { figure: 'drainOne', label: `drain ${count(jobs)}, 1 process`, unit: 'jobs/s', asked: [graphile(1.4), redis(2.5)] },
    { figure: 'drainTwo', label: `drain ${count(jobs)}, 2 processes`, unit: 'jobs/s', asked: [graphile(1.2)] },
    { figure: 'together', label: `enqueue and drain, ${togetherSeconds} s`, unit: 'jobs/s', asked: [graphile(2.5)] },
    { figure: 'togetherP99', label: 'the same, pickup p99', unit: 'ms' },
    { figure: 'held', label: `enqueue and drain, ${heldSeconds} s, old snapshot`, unit: 'jobs/s', plot: false },
    {
      figure: 'heldShare',
      label: `the same, last ${windowSeconds} s to the first`,
      unit: 'share',
      ratio: false,
      asked: [atLeast(0.9)],
    },
    { figure: 'heldPickupP50', label: 'pickup after that, snapshot held, p50', unit: 'ms' },
    { figure: 'heldPickupP99', label: 'pickup after that, snapshot held, p99', unit: 'ms', asked: [under(50, 'ms')] },
    { figure: 'pickupP50', label: 'pickup, p50', unit: 'ms', asked: [atMost(2, 'ms')] },
    { figure: 'pickupP99', label: 'pickup, p99', unit: 'ms', asked: [timesOfAtMost('bullmq-redis', 1.3)] },
    { figure: 'drainEmpty', label: `drain ${count(first)}, nothing else there`, unit: 'jobs/s', plot: false },
    ...deepRows('behind', `the same, ${count(behind)} due behind`),
    ...deepRows('delayed', `the same, ${count(behind)} delayed in front`),
    ...deepRows('finished', `the same, ${count(finished)} finished`),
    { figure: 'statementMs', label: 'a statement in a transaction', unit: 'ms' },
    { figure: 'enqueueMs', label: 'an enqueue in a transaction', unit: 'ms' },
    { figure: 'enqueueToStatement', label: 'that to the statement', unit: 'times', ratio: false },
    { figure: 'queriesPerEnqueue', label: 'round trips for it', unit: 'queries', ratio: false },
    { figure: 'cpuPer100k', label: "worker's CPU for a drain of 100,000", unit: 's' },
    { figure: 'serverCpuPer100k', label: "server's CPU for it", unit: 's' },
    { figure: 'peakMiB', label: 'peak memory of the worker', unit: 'MiB', asked: [atMost(100, 'MiB')] },
  ]
}

/** Databases are copies of one that was filled once; Redis has no such thing and is filled each time. */
function filler(postgres) {
  const sealed = new Set()
  return async function filled(target, kinds) {
    if (target.name === 'bullmq-redis') return preparedAs(target, kinds)
    const template = `${target.adapter}_${JSON.stringify(kinds)}_template`.replaceAll(/\W+/g, '_')
    if (!sealed.has(template)) {
      if (Object.keys(kinds).length > 0) log(`  filling ${target.adapter} with ${JSON.stringify(kinds)}`)
      await postgres.create(template)
      await (await preparedAs({ ...target, url: postgres.urlOf(template) }, kinds)).kill()
      await postgres.seal(template)
      sealed.add(template)
    }
    await postgres.create(target.name, template)
    // Only a drain asks its control process anything.
    return Object.keys(kinds).length > 0 ? start(target) : { kill: () => Promise.resolve() }
  }
}

async function preparedAs(target, kinds) {
  const control = await start(target)
  await control.call('prepare')
  if (Object.keys(kinds).length > 0) await control.call('fill', kinds)
  return control
}

function versionOf(name) {
  return JSON.parse(readFileSync(join(HERE, 'node_modules', name, 'package.json'), 'utf8')).version
}

/** Settings in one line: `worker.localQueue.size=500, ...`. */
function described(settings, prefix = '') {
  return Object.entries(settings)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => (typeof value === 'object' ? described(value, `${prefix}${name}.`) : `${prefix}${name}=${value}`))
    .join(', ')
}
