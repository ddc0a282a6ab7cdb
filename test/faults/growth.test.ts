import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { localFiles, TransientError, type FileStore } from '../../src/index.js'
import { DATABASES } from './support/databases.js'
import { changed, until } from './support/place.js'
import { defineTypes } from './support/types.js'

describe.each(DATABASES)('growth on $name', ({ place }) => {
  it('R099: finished jobs go after a finite time by default, in small batches, and unfinished ones never', async () => {
    const here = await place()
    const batches: number[] = []
    const { queue, clock } = here.clockQueue({
      around: (store) =>
        changed(store, {
          prune: async (retention, limit) => {
            const deleted = await store.prune(retention, limit)
            batches.push(deleted.length)
            return deleted
          },
        }),
    })
    defineTypes(queue)
    await queue.open()
    const seed = async (count: number, status: string, finished: boolean): Promise<void> => {
      const now = here.moment(clock.now())
      await here.sql(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${count})
       INSERT INTO jobs (id, type, payload, status, created_at, updated_at, run_after, finished_at)
       SELECT '${status}' || i, 'count', '{"name":"seeded"}', '${status}', ${now}, ${now}, ${now}, ${finished ? now : 'NULL'} FROM n`)
    }
    await seed(5_000, 'succeeded', true)
    await seed(50, 'failed', true)
    await seed(20, 'canceled', true)
    await seed(10, 'pending', false)
    await seed(5, 'retrying', false)
    await seed(2, 'running', false)

    clock.advance('6d')
    expect(await queue.prune()).toBe(0)
    clock.advance('1d')
    expect(await queue.prune()).toBe(5_000)
    clock.advance('22d')
    expect(await queue.prune()).toBe(0)
    clock.advance('1d')
    expect(await queue.prune()).toBe(70)
    clock.advance('1000d')
    expect(await queue.prune()).toBe(0)
    expect(await here.sql(`SELECT status, CAST(count(*) AS int) FROM jobs GROUP BY status ORDER BY status`)).toEqual([
      ['pending', 10],
      ['retrying', 5],
      ['running', 2],
    ])
    expect(Math.max(...batches)).toBeLessThanOrEqual(1_000)
  })

  it('R099: a worker deletes what is past its retention by itself, soon after it has started', async () => {
    const { queue, clock } = (await place()).clockQueue()
    const types = defineTypes(queue, { started() {} })
    await types.count.enqueue({ name: 'old' })
    await queue.drain()
    clock.advance('8d')
    const worker = queue.work()
    const gone = await until('the old job is gone', async () => (await queue.count()) === 0, 10_000)
    await worker.stop()
    expect(gone).toBe(true)
  })

  describe('R099: the files of a job', () => {
    const payload = z.object({ name: z.string() })
    const idempotency = { none: 'each one is another case' } as const

    it('go with it, those of attempts that failed and those that it did not return too', async () => {
      const here = await place()
      const files = join(here.folder, 'files')
      const { queue, clock } = here.clockQueue({ files })
      const type = queue.define('type', {
        payload,
        idempotency,
        retry: { maxAttempts: 2, backoff: { base: '1s' } },
        run: async (job) => {
          await job.file('draft.txt', 'a draft')
          const file = await job.file('final.txt', `attempt ${job.attempt}`)
          if (job.attempt === 1 || job.payload.name === 'fails') throw new TransientError('told to')
          return file
        },
      })
      const good = await type.enqueue({ name: 'succeeds' })
      const bad = await type.enqueue({ name: 'fails' })
      await queue.drain()
      clock.advance('10s')
      await queue.drain()
      expect((await good.job.result()).name).toBe('final.txt')
      expect((await bad.job.refresh()).status).toBe('failed')
      clock.advance('31d')
      expect(await queue.prune()).toBe(2)
      expect(
        readdirSync(files, { recursive: true, withFileTypes: true })
          .filter((entry) => entry.isFile())
          .map(({ name }) => name),
      ).toEqual([])
    })

    it('are deleted although one of them cannot be', async () => {
      const here = await place()
      const local = localFiles(join(here.folder, 'files'))
      let deletions = 0
      const files: FileStore = {
        write: (...args) => local.write(...args),
        read: (...args) => local.read(...args),
        exists: (...args) => local.exists(...args),
        delete: async (key) => {
          if (++deletions === 1) throw new Error('the file store is away')
          return local.delete(key)
        },
      }
      const { queue, clock } = here.clockQueue({ files })
      const type = queue.define('type', { payload, idempotency, run: (job) => job.file('report.txt', job.payload.name) })
      await type.enqueueMany(Array.from({ length: 5 }, (_, i) => ({ name: `${i}` })))
      await queue.drain()
      clock.advance('8d')
      await queue.prune().catch(() => 0)
      await queue.prune().catch(() => 0)
      expect(deletions).toBeGreaterThanOrEqual(5)
      expect(await queue.count()).toBe(0)
    })
  })
})
