/**
 * How long the jobs of a killed worker wait: a worker that runs ten jobs gets SIGKILL while another one stands by with room for ten, and
 * the time is taken until all ten run again. Everyone has its defaults, but for the ten jobs at once.
 */
import { mkdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { HERE, TMP, log, now, sleep, startedJobs } from '../lib.mjs'
import { atMost, killAll, start } from '../measure.mjs'
import { connectPostgres, startPostgres } from '../servers/postgres.mjs'
import { startRedis } from '../servers/redis.mjs'

export const OPTIONS = { postgres: { type: 'string' } }

const HELD = 10
/** A worker that has not begun by then does not. Milliseconds. */
const MOST_START_MS = 30_000
const MOST_PHASE_MS = 3_000

const TARGETS = [
  { name: 'jobtable-sqlite', adapter: 'jobtable', settings: {} },
  { name: 'jobtable-postgres', adapter: 'jobtable', settings: {} },
  { name: 'graphile-worker', adapter: 'graphile-worker', settings: { worker: { concurrentJobs: HELD } } },
  { name: 'pg-boss', adapter: 'pg-boss', settings: { work: { localConcurrency: HELD } } },
  { name: 'bullmq-postgres', adapter: 'bullmq', settings: { concurrency: HELD } },
  { name: 'bullmq-redis', adapter: 'bullmq', settings: { concurrency: HELD } },
]

export const COMPARISONS = [
  { title: 'sqlite', ours: 'jobtable-sqlite', peers: [] },
  {
    title: 'postgres',
    ours: 'jobtable-postgres',
    peers: TARGETS.filter(({ adapter }) => adapter !== 'jobtable').map(({ name }) => name),
  },
]

export async function prepare({ quick, postgres: url }) {
  const sizes = { capSeconds: quick ? 5 : 60 }
  rmSync(TMP, { recursive: true, force: true })
  mkdirSync(TMP, { recursive: true })
  const postgres = url ? await connectPostgres(url) : await startPostgres()
  const redis = await startRedis()
  const places = {
    'jobtable-sqlite': { file: join(TMP, 'jobtable.db') },
    ...(redis && { 'bullmq-redis': { url: redis.url } }),
  }
  const targets = TARGETS.filter(({ name }) => redis || name !== 'bullmq-redis').map((target) =>
    Object.assign({}, places[target.name] ?? { url: postgres.urlOf(target.name) }, target),
  )
  return {
    facts: {
      sizes,
      software: [
        `PostgreSQL ${postgres.settings.version}`,
        ...(redis ? [`Redis ${redis.version}`] : []),
        ...['graphile-worker', 'pg-boss', 'bullmq'].map((name) => `${name} ${versionOf(name)}`),
      ],
      notes: [
        `After ${sizes.capSeconds} s nobody waits any longer.`,
        ...(redis ? [] : ['BullMQ on Redis is left out: there is no redis-server here (Debian: apt-get install redis-server).']),
      ],
    },
    targets,
    tests: { kill: (target) => kill(target, postgres, sizes.capSeconds) },
    async cleanUp() {
      await Promise.all([postgres.stop(), redis?.stop()])
      rmSync(TMP, { recursive: true, force: true })
    },
  }
}

export function rows({ capSeconds }) {
  return [
    {
      figure: 'allAgain',
      label: `kill -9 of a worker with ${HELD} jobs, until all run again`,
      unit: 's',
      ratio: false,
      most: capSeconds,
      asked: [atMost(3, 's')],
    },
  ]
}

async function kill(target, postgres, capSeconds) {
  await empty(target, postgres)
  const producer = await start(target)
  await producer.call('prepare')
  const victim = await start(target)
  await victim.work({ hold: true })
  for (let n = 0; n < HELD; n++) await producer.call('enqueue', { hold: true })
  await started(target, victim, HELD)
  const heir = await start(target)
  await heir.work({ hold: true })
  // The victim has no room for one more: who runs it is there, and has room for ten again.
  await producer.call('enqueue', { hold: false })
  await started(target, heir, 1)
  // At any distance from the beats that the heir has begun with.
  await sleep(Math.random() * MOST_PHASE_MS)
  const from = now()
  await victim.kill()
  const all = await startedJobs([heir], 1 + HELD, capSeconds * 1000)
  const seconds = all ? (heir.progress.find(({ count }) => count >= 1 + HELD).at - from) / 1000 : capSeconds
  const again = heir.count - 1
  await killAll([heir, producer])
  if (!all) log(`  ${target.name}: ${again} of ${HELD} ran again within ${capSeconds} s`)
  return { allAgain: seconds }
}

async function empty({ name, file }, postgres) {
  if (file) for (const suffix of ['', '-wal', '-shm']) rmSync(file + suffix, { force: true })
  else if (name !== 'bullmq-redis') await postgres.create(name)
}

async function started({ name }, worker, n) {
  if (!(await startedJobs([worker], n, MOST_START_MS))) throw new Error(`${name} started ${worker.count} of ${n} jobs`)
}

function versionOf(name) {
  return JSON.parse(readFileSync(join(HERE, 'node_modules', name, 'package.json'), 'utf8')).version
}
