import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import type { JobContext } from '../../src/index.js'
import { DATABASES } from './support/databases.js'
import { gate, changed, recordingLog, until } from './support/place.js'

const payload = z.object({ key: z.string() })
const idempotency = { key: ['key'], onDuplicate: 'return_previous_result' } as const

describe.each(DATABASES)('progress on $name', ({ place }) => {
  describe('R107: what a handler reports after its job is over', () => {
    async function over() {
      const here = await place()
      const log = recordingLog()
      const { queue, clock } = here.clockQueue({ logger: log })
      let left!: JobContext<{ key: string }>
      const type = queue.define('type', {
        payload,
        idempotency,
        run: async (job) => {
          left = job
          await job.stage('half')
          job.progress(0.5)
          return 'R1'
        },
      })
      const worker = queue.work()
      const { job } = await type.enqueue({ key: 'K' })
      await job.result()
      const report = async (): Promise<void> => {
        const lines = log.lines.length
        left.progress(0.9)
        left.log.info('late')
        await left.stage('late')
        await worker.idle()
        await worker.stop() // Writes what is left to write.
        expect(
          log.lines.slice(lines).filter(({ level, message }) => level === 'warn' && message.includes('ignored')),
        ).toHaveLength(3)
      }
      return { here, queue, clock, type, job, report }
    }

    it('changes nothing, and is warned about', async () => {
      const { job, report } = await over()
      const before = (await job.refresh()).toJSON()
      expect(before).toMatchObject({ status: 'succeeded', stage: 'half', progress: 0.5 })
      const events = await job.events()
      await report()
      expect((await job.refresh()).toJSON()).toEqual(before)
      expect(await job.events()).toEqual(events)
    })

    it('brings back nothing of a job that was deleted, whose key is free', async () => {
      const { here, queue, clock, type, job, report } = await over()
      clock.advance('8d')
      expect(await queue.prune()).toBe(1)
      await report()
      expect(await queue.count()).toBe(0)
      expect(await here.sql(`SELECT 1 FROM job_events`)).toEqual([])
      const again = await type.enqueue({ key: 'K' })
      expect(again.duplicate).toBe(false)
      expect(again.job.id).not.toBe(job.id)
    })
  })

  it(
    'R109: ten thousand progress calls are a few writes, lose neither the last value nor the lease, and go only forward',
    { timeout: 60_000 },
    async () => {
      const here = await place()
      const writes: { at: number; progress: number }[] = []
      const queue = here.queue({
        around: (store) =>
          changed(store, {
            report: (reports) => {
              for (const { progress } of reports) if (progress !== undefined) writes.push({ at: performance.now(), progress })
              return store.report(reports)
            },
          }),
      })
      let runs = 0
      let flooded = 0
      const stored = gate()
      const type = queue.define('encode', {
        payload,
        idempotency,
        run: async (job) => {
          runs++
          for (let i = 1; i <= 10_000; i++) {
            job.progress(i / 10_000)
            if (i % 50 === 0) await sleep(10)
          }
          flooded = performance.now()
          await stored.opened
        },
      })
      const { job } = await type.enqueue({ key: 'film' })
      const worker = queue.work({ lease: '1s' })
      const lost: unknown[] = []
      worker.on('lease_lost', (event) => lost.push(event))
      await until('the flood is over', () => flooded > 0)
      const last = await until('the last value is stored', async () =>
        (await job.refresh()).progress === 1 ? performance.now() : 0,
      )
      expect(last - flooded).toBeLessThan(1_000)
      stored.open()
      await job.result()
      const seconds = (flooded - writes[0]!.at) / 1_000
      expect(writes.length).toBeLessThanOrEqual(20 * seconds + 2)
      expect(writes.map(({ progress }) => progress)).toEqual(writes.map(({ progress }) => progress).sort((a, b) => a - b))
      expect([runs, lost]).toEqual([1, []])
      expect((await job.refresh()).attempts).toBe(1)
    },
  )
})
