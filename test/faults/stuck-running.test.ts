import { describe, expect, it } from 'vitest'
import { DATABASES } from './support/databases.js'
import { startChild } from './support/child.js'
import { untilStatus } from './support/place.js'
import { defineTypes } from './support/types.js'

const LEASE = { lease: '1s', pollInterval: '200ms' } as const
describe.each(DATABASES)('stuck running on $name', ({ place }) => {
  describe('stuck running', { timeout: 90_000 }, () => {
    it('R011: the job of a killed worker is run by another, and its history names the worker that was lost', async () => {
      const here = await place()
      const queue = here.queue()
      const types = defineTypes(queue)
      const first = await startChild(here)
      const lost = await first.work(LEASE)
      const { job } = await types.act.enqueue({ name: 'long', ms: 60_000, obey: true })
      await first.saw('started', { id: job.id })
      const second = await startChild(here)
      const other = await second.work(LEASE)
      await first.kill()
      await second.saw('started', { id: job.id })
      expect(await job.refresh()).toMatchObject({
        status: 'running',
        attempts: 2,
        lockedBy: other,
        history: [{ attempt: 1, kind: 'lost', code: 'worker_lost', by: lost }],
      })
    })

    it('R013: a job that is handed back at a stop is claimable at once, and the next worker takes it', async () => {
      const here = await place()
      const queue = here.queue()
      const types = defineTypes(queue)
      const [first, second] = [await startChild(here), await startChild(here)]
      await first.work({ lease: '30s' })
      const { job } = await types.act.enqueue({ name: 'long', ms: 30_000 })
      await first.saw('started', { id: job.id })
      await first.order({ do: 'stop', timeout: '500ms' })
      expect(await job.refresh()).toMatchObject({ status: 'retrying', attempts: 0, lockedBy: null })
      expect(await here.sql(`SELECT locked_at, claim_token FROM jobs WHERE id = ?`, job.id)).toEqual([[null, null]])
      // Its lease would have lasted for 30 s.
      await second.work({ lease: '30s' })
      await second.saw('started', { id: job.id })
      expect(await job.refresh()).toMatchObject({ status: 'running', attempts: 1, history: [] })
    })

    it('R013: a row that says running but names no worker is taken back', async () => {
      const here = await place()
      const queue = here.queue()
      defineTypes(queue, { started() {} })
      await queue.open()
      await here.sql(`INSERT INTO jobs (id, type, payload, status) VALUES ('seeded', 'count', '{"name":"seeded"}', 'running')`)
      queue.work(LEASE)
      const job = await untilStatus(queue, 'seeded', 'succeeded')
      expect(job.history).toMatchObject([{ kind: 'lost', code: 'worker_lost' }])
      expect(job.history[0]).not.toHaveProperty('by')
    })

    it('R015: crashes spend attempts until the job has failed for good, with each of them in its history', async () => {
      const here = await place()
      const queue = here.queue()
      const types = defineTypes(queue)
      const { job } = await types.act.enqueue({ name: 'poison', ms: 60_000, obey: true }, { maxAttempts: 3 })
      for (let attempt = 1; attempt <= 3; attempt++) {
        const child = await startChild(here)
        await child.work(LEASE)
        await child.saw('started', { id: job.id, attempt })
        await child.kill()
      }
      const last = await startChild(here)
      await last.work(LEASE)
      const failed = await untilStatus(queue, job.id, 'failed')
      expect(failed.attempts).toBe(3)
      expect(failed.history.map(({ attempt, kind }) => [attempt, kind])).toEqual([
        [1, 'lost'],
        [2, 'lost'],
        [3, 'lost'],
      ])
      expect(failed.userMessage).not.toBe('')
      expect(here.runsOf(job.id)).toHaveLength(3)
    })

    it('R015: hand-backs spend no attempt, so that deploys cannot use a job up', async () => {
      const here = await place()
      const queue = here.queue()
      const types = defineTypes(queue, { started() {} })
      const { job } = await types.act.enqueue({ name: 'slow', ms: 60_000, obey: true }, { maxAttempts: 1 })
      for (let deploy = 0; deploy < 3; deploy++) {
        const worker = queue.work({ lease: '30s' })
        await untilStatus(queue, job.id, 'running')
        await worker.stop({ timeout: '0ms' })
        expect(await job.refresh()).toMatchObject({ status: 'retrying', attempts: 0, history: [] })
      }
      const unclaimable = `SELECT id FROM jobs WHERE status IN ('pending', 'retrying') AND attempts >= max_attempts`
      expect(await here.sql(unclaimable)).toEqual([])
    })
  })
})
