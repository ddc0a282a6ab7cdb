/** graphile-worker. It deletes what has succeeded. */
import { Logger, WorkerPreset, makeWorkerUtils, run } from 'graphile-worker'
import pg from 'pg'

const TASK = 'noop'
const FILL_CHUNK = 50_000
const logger = new Logger(() => (level, message) => {
  if (level === 'error') console.error('graphile-worker:', message)
})

export async function create({ url, settings }) {
  const pool = new pg.Pool({ connectionString: url, max: settings.producerPoolSize })
  pool.on('error', () => undefined)
  pool.on('connect', (client) => client.on('error', () => undefined))
  let opened
  const utils = () => (opened ??= makeWorkerUtils({ pgPool: pool, preset: { worker: { logger } } }))
  return {
    prepare: async () => (await utils()).migrate(),
    enqueue: async (payload) => (await utils()).addJob(TASK, payload),
    enqueueMany: async (payloads) => (await utils()).addJobs(payloads.map((payload) => ({ identifier: TASK, payload }))),
    work: async (onJob) => {
      const worker = { ...settings.worker, connectionString: url, logger }
      const runner = await run({
        preset: { extends: [WorkerPreset], worker },
        noHandleSignals: true,
        parsedCronItems: [],
        taskList: { [TASK]: (payload) => onJob(payload) },
      })
      return () => runner.stop()
    },

    /** Through its own function in the database. */
    async fill({ pending = 0 }) {
      for (let from = 0; from < pending; from += FILL_CHUNK) {
        await pool.query(
          `SELECT count(*) FROM graphile_worker.add_jobs(ARRAY(
             SELECT ($1, json_build_object('n', n), null, null, null, null, null, null)::graphile_worker.job_spec
             FROM generate_series($2::int, $3::int) n), false)`,
          [TASK, from, Math.min(pending, from + FILL_CHUNK) - 1],
        )
      }
    },
    unfinished: async () => {
      const { rows } = await pool.query('SELECT EXISTS (SELECT 1 FROM graphile_worker._private_jobs) AS some')
      return rows[0].some
    },
  }
}
