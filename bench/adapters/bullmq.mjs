/** BullMQ, on Redis or on PostgreSQL as the URL says, told to remove what has succeeded. */
import { Queue, Worker, createPostgresBackend } from 'bullmq'
import IORedis from 'ioredis'

const QUEUE = 'noop'
const FILL_CHUNK = 1_000
const UNFINISHED = ['wait', 'active', 'delayed', 'prioritized', 'paused']

export async function create({ url, settings }) {
  const onPostgres = url.startsWith('postgres')
  const backend = onPostgres ? [createPostgresBackend] : []
  const { hostname: host, port } = new URL(url)
  const connection = onPostgres
    ? { connectionString: url, max: settings.poolSize, migrate: true }
    : { host, port: Number(port), maxRetriesPerRequest: null }
  let opened
  const queue = () =>
    (opened ??= new Queue(QUEUE, { connection, defaultJobOptions: { removeOnComplete: settings.removeOnComplete } }, ...backend))
  const enqueueMany = (payloads) => queue().addBulk(payloads.map((data) => ({ name: QUEUE, data })))
  return {
    prepare: async () => {
      if (!onPostgres) await emptyRedis(connection)
      await queue().waitUntilReady()
    },
    enqueue: (payload) => queue().add(QUEUE, payload),
    enqueueMany,
    work: async (onJob) => {
      const { concurrency } = settings
      const worker = new Worker(QUEUE, async ({ data }) => onJob(data), { connection, concurrency }, ...backend)
      worker.on('error', (error) => console.error('BullMQ:', error.message))
      worker.on('failed', (_, error) => console.error('BullMQ: a job failed:', error.message))
      await worker.waitUntilReady()
      return () => worker.close()
    },

    async fill({ pending = 0 }) {
      for (let from = 0; from < pending; from += FILL_CHUNK)
        await enqueueMany(Array.from({ length: Math.min(FILL_CHUNK, pending - from) }, (_, i) => ({ n: from + i })))
    },
    unfinished: async () => {
      const counts = Object.values(await queue().getJobCounts(...UNFINISHED))
      return counts.some((n) => n > 0)
    },
  }
}

/** The server is the run's own. */
async function emptyRedis(connection) {
  const redis = new IORedis(connection)
  await redis.flushall()
  await redis.quit()
}
