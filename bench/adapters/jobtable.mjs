/** jobtable, as it is built: run `npm run build` first. What is done behind its back is in the file of the database. */
import { jobtable } from '../../dist/index.js'

const TYPE = 'noop'
const ANY_PAYLOAD = { '~standard': { version: 1, vendor: 'bench', validate: (value) => ({ value }) } }
const logger = { debug() {}, info() {}, warn: console.error, error: console.error }

export async function create(target) {
  const { file, driver, durability, settings } = target
  const url = target.url ?? `sqlite:${file}`
  const { database } = await import(`./jobtable/${url.startsWith('postgres') ? 'postgres' : 'sqlite'}.mjs`)
  const queue = jobtable(url, { logger, ...(driver && { driver }), ...(durability && { durability }) })
  let onJob
  const noop = queue.define(TYPE, {
    payload: ANY_PAYLOAD,
    idempotency: { none: 'each of these jobs is counted' },
    run: (job) => onJob(job.payload),
  })
  return {
    prepare: async () => {
      await queue.open()
    },
    enqueue: (payload) => noop.enqueue(payload),
    enqueueMany: (payloads) => noop.enqueueMany(payloads),
    work: async (handler) => {
      onJob = handler
      const worker = queue.work(settings)
      await worker.ready()
      return () => worker.stop()
    },
    ...database(target, { type: TYPE, enqueueIn: (tx, payload) => noop.enqueue(payload, { tx }) }),
  }
}
