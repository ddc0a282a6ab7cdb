import assert from 'node:assert/strict'
import type { NewEvent } from '../../store.js'
import { failed, fence, idsOf, retrying, succeeded } from './bench.js'
import { test, type TestGroup } from './suite.js'

const AT_ONCE = { succeededMs: 0, failedMs: 0, canceledMs: 0 }
const NEVER = 100_000_000_000

export const pruneTests: TestGroup = {
  name: 'prune',
  tests: [
    test('finished jobs go when their retention is over, each status by its own', async (bench) => {
      const rows = [await bench.finished('succeeded'), await bench.finished('failed'), await bench.finished('canceled')]
      const retention = { succeededMs: 1_000, failedMs: 2_000, canceledMs: 3_000 }
      const gone: string[][] = []
      for (const ms of [999, 2, 1_000, 1_000]) {
        bench.clock.advance(ms)
        gone.push(idsOf(await bench.store.prune(retention, 10)))
      }
      assert.deepEqual(gone, [[], [rows[0]!.id], [rows[1]!.id], [rows[2]!.id]])
      assert.equal(await bench.store.count({}), 0)
    }),

    test('the answer names what was deleted, with its result', async (bench) => {
      const row = await bench.running()
      await bench.settle(row, { status: 'succeeded', result: '"report.pdf"' })
      const other = await bench.finished('failed')
      bench.clock.advance(1)
      const gone = await bench.store.prune(AT_ONCE, 10)
      assert.deepEqual(
        new Map(gone.map(({ id, result }) => [id, result])),
        new Map([
          [row.id, '"report.pdf"'],
          [other.id, null],
        ]),
      )
    }),

    test('the answer names the files that were noted in the timeline', async (bench) => {
      const row = await bench.running()
      const event = (message: string): NewEvent => ({ kind: 'file', attempt: 1, message, data: null })
      await bench.store.report([
        { ...fence(row), events: [event('a/1/x.pdf'), { ...event('no'), kind: 'log' }, event('a/1/y.pdf')] },
      ])
      await bench.settle(row, succeeded)
      bench.clock.advance(1)
      const [gone] = await bench.store.prune(AT_ONCE, 10)
      assert.deepEqual(gone?.files.toSorted(), ['a/1/x.pdf', 'a/1/y.pdf'])
    }),

    test('unfinished jobs are never deleted, however old', async (bench) => {
      const retried = await bench.running()
      await bench.settle(retried, retrying())
      await bench.settle(await bench.running(), retrying({ delayMs: NEVER }))
      await bench.store.repair([(await bench.finished('failed')).id], null)
      await bench.register()
      await bench.insert({ runAfter: { delayMs: NEVER } }, {})
      const before = await bench.store.list({}, { limit: 10 })
      bench.clock.advance(NEVER / 2)
      assert.deepEqual(await bench.store.prune(AT_ONCE, 1_000), [])
      assert.deepEqual(await bench.store.list({}, { limit: 10 }), before)
    }),

    test('retention counts from the end of a job, not from its creation', async (bench) => {
      await bench.register('worker-1', NEVER)
      await bench.insert({})
      const { jobs } = await bench.claim()
      bench.clock.advance(1_000_000)
      await bench.settle(jobs[0]!, succeeded)
      assert.deepEqual(await bench.store.prune({ ...AT_ONCE, succeededMs: 1_000 }, 10), [])
    }),

    test('a job is kept as long as its own keepFor says, beyond retention', async (bench) => {
      const kept = await bench.running()
      await bench.settle(kept, succeeded, { keepForMs: 5_000 })
      const other = await bench.running()
      await bench.settle(other, succeeded, { keepForMs: null })
      bench.clock.advance(4_999)
      assert.deepEqual(idsOf(await bench.store.prune(AT_ONCE, 10)), [other.id])
      bench.clock.advance(2)
      assert.deepEqual(idsOf(await bench.store.prune(AT_ONCE, 10)), [kept.id])
    }),

    test('a keepFor shorter than the retention does not shorten it', async (bench) => {
      const row = await bench.running()
      await bench.settle(row, succeeded, { keepForMs: 10 })
      bench.clock.advance(1_000)
      assert.deepEqual(await bench.store.prune({ ...AT_ONCE, succeededMs: 2_000 }, 10), [])
    }),

    test('jobs are kept by their own keepFor and by retention, whichever is longer, however these are mixed', async (bench) => {
      const lengths = [null, 0, 2_000, 4_000]
      const rows: string[] = []
      for (const keepForMs of lengths) {
        const row = await bench.running()
        await bench.settle(row, succeeded, { keepForMs })
        rows.push(row.id)
        const failure = await bench.running()
        await bench.settle(failure, failed(), { keepForMs })
        rows.push(failure.id)
      }
      const retention = { succeededMs: 1_000, failedMs: 3_000, canceledMs: 0 }
      const gone: number[][] = []
      for (const ms of [999, 2, 1_000, 1_000, 1_000]) {
        bench.clock.advance(ms)
        const pruned = idsOf(await bench.store.prune(retention, 10))
        gone.push(pruned.map((id) => rows.indexOf(id)).toSorted((a, b) => a - b))
      }
      assert.deepEqual(gone, [[], [0, 2], [4], [1, 3, 5], [6, 7]])
    }),

    test('a canceled job is not kept beyond its retention: nothing asks for it again', async (bench) => {
      const row = await bench.running()
      await bench.settle(row, { status: 'canceled', entry: null }, { keepForMs: 5_000 })
      bench.clock.advance(1)
      assert.deepEqual(idsOf(await bench.store.prune(AT_ONCE, 10)), [row.id])
    }),

    test('a keepFor in a settlement made together with a claim holds as well', async (bench) => {
      const row = await bench.running()
      await bench.claim({}, [{ ...fence(row), settlement: succeeded, maxAttempts: 5, keepForMs: 5_000 }])
      bench.clock.advance(4_999)
      assert.deepEqual(await bench.store.prune(AT_ONCE, 10), [])
    }),

    test('no call deletes more than the limit, and calls go on until all is gone', async (bench) => {
      const rows = await bench.insert(...Array.from({ length: 25 }, () => ({})))
      await bench.store.cancel(idsOf(rows), null)
      bench.clock.advance(1)
      const sizes: number[] = []
      const gone: string[] = []
      do {
        const batch = await bench.store.prune(AT_ONCE, 10)
        gone.push(...idsOf(batch))
        sizes.push(batch.length)
      } while (sizes.at(-1) === 10)
      assert.deepEqual(sizes, [10, 10, 5])
      assert.deepEqual(gone.sort(), idsOf(rows))
    }),

    test('events go with their job and with no other', async (bench) => {
      const gone = await bench.running()
      const kept = await bench.running()
      const events = [{ kind: 'log', attempt: 1, message: 'hello', data: null }] as const
      await bench.store.report([
        { ...fence(gone), events },
        { ...fence(kept), events },
      ])
      await bench.settle(gone, succeeded)
      bench.clock.advance(1)
      await bench.store.prune(AT_ONCE, 10)
      assert.deepEqual(await bench.store.events(gone.id), [])
      assert.equal((await bench.store.events(kept.id)).length, 1)
      await bench.insert({ id: gone.id })
      assert.deepEqual(await bench.store.events(gone.id), [])
    }),

    test('a superseded job is deleted like any other, and its successor holds the key on', async (bench) => {
      const old = await bench.finished('failed', { idempotencyKey: 'k' })
      const next = await bench.insertOne({ idempotencyKey: 'k', supersedes: { id: old.id, status: 'failed' } })
      bench.clock.advance(1)
      assert.deepEqual(idsOf(await bench.store.prune(AT_ONCE, 10)), [old.id])
      const [outcome] = await bench.store.insert([bench.job({ idempotencyKey: 'k' })])
      assert.equal(outcome?.type === 'held' && outcome.holder.id, next.id)
    }),

    test('a repaired job that finishes again is kept from its new end on', async (bench) => {
      const { id } = await bench.finished('failed')
      bench.clock.advance(10_000)
      await bench.store.repair([id], null)
      await bench.register('worker-2')
      await bench.settle((await bench.claim({ workerId: 'worker-2' })).jobs[0]!, succeeded)
      assert.deepEqual(await bench.store.prune({ ...AT_ONCE, succeededMs: 5_000 }, 10), [])
    }),
  ],
}
