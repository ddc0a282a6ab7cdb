/** pg-boss. A batch succeeds or fails as one; what has succeeded is kept. */
import pg from 'pg'
import { PgBoss } from 'pg-boss'

const QUEUE = 'noop'
const FILL_CHUNK = 1_000

export async function create({ url, settings }) {
  let starting
  let looking
  const start = async () => {
    const boss = new PgBoss({ connectionString: url, ...settings.boss })
    boss.on('error', (error) => console.error('pg-boss:', error.message))
    await boss.start()
    return boss
  }
  const opened = () => (starting ??= start())
  const enqueueMany = async (payloads) =>
    (await opened()).insert(
      QUEUE,
      payloads.map((data) => ({ data })),
    )
  return {
    prepare: async () => {
      const boss = await opened()
      if (!(await boss.getQueue(QUEUE))) await boss.createQueue(QUEUE, settings.queue)
    },
    enqueue: async (payload) => (await opened()).send(QUEUE, payload),
    enqueueMany,
    work: async (onJob) => {
      const boss = await opened()
      await boss.work(QUEUE, settings.work, async (jobs) => {
        for (const { data } of jobs) {
          const holding = onJob(data)
          // Most handlers do nothing, and are not waited for.
          if (holding) await holding
        }
      })
      return () => boss.stop({ graceful: true, timeout: 5_000 })
    },

    async fill({ pending = 0 }) {
      for (let from = 0; from < pending; from += FILL_CHUNK)
        await enqueueMany(Array.from({ length: Math.min(FILL_CHUNK, pending - from) }, (_, i) => ({ n: from + i })))
    },
    unfinished: async () => {
      looking ??= new pg.Pool({ connectionString: url, max: 1 }).on('error', () => undefined)
      const { rows } = await looking.query(
        `SELECT EXISTS (SELECT 1 FROM pgboss.job WHERE name = $1 AND state < 'active')
           OR EXISTS (SELECT 1 FROM pgboss.job WHERE name = $1 AND state = 'active') AS some`,
        [QUEUE],
      )
      return rows[0].some
    },
  }
}
