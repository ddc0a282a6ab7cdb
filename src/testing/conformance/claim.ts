import assert from 'node:assert/strict'
import { entry, failed, fence, idsOf, retrying, settling, succeeded } from './bench.js'
import { test, type TestGroup } from './suite.js'

export const claimTests: TestGroup = {
  name: 'claim',
  tests: [
    test('a claimed job runs, counts the attempt and names its claim', async (bench) => {
      const before = await bench.insertOne()
      await bench.register()
      bench.clock.advance(1_000)
      const now = bench.clock.now()
      const { jobs } = await bench.claim({ token: 'secret' })
      const claim = {
        status: 'running',
        attempts: 1,
        lockedAt: now,
        lockedBy: 'worker-1',
        claimToken: 'secret',
        updatedAt: now,
        rev: 1,
      }
      assert.deepEqual(jobs, [{ ...before, ...claim }])
      assert.deepEqual(await bench.row(before.id), jobs[0])
    }),

    test('a claimed job is not claimed again', async (bench) => {
      await bench.running()
      await bench.register('worker-2')
      assert.deepEqual(await bench.claimIds({ workerId: 'worker-2' }), [])
    }),

    test('finished jobs are never claimed', async (bench) => {
      for (const status of ['succeeded', 'failed', 'canceled'] as const) await bench.finished(status)
      bench.clock.advance(86_400_000)
      assert.deepEqual(await bench.claimIds(), [])
    }),

    test('a lower priority number runs first', async (bench) => {
      const [a, b, c, d] = await bench.insert({ priority: 5 }, { priority: 0 }, { priority: -3 }, { priority: 5 })
      await bench.register()
      assert.deepEqual(await bench.claimIds(), [c!.id, b!.id, a!.id, d!.id])
    }),

    test('within a priority what was due earlier runs first', async (bench) => {
      const now = bench.clock.now()
      const [a, b, c] = await bench.insert(
        { runAfter: { at: now - 10 } },
        { runAfter: { at: now - 30 } },
        { runAfter: { at: now - 20 } },
      )
      await bench.register()
      assert.deepEqual(await bench.claimIds(), [b!.id, c!.id, a!.id])
    }),

    test('what was due at the same moment runs in the order of insertion', async (bench) => {
      const rows = await bench.insert(...Array.from({ length: 30 }, () => ({})))
      rows.push(...(await bench.insert({}, {})))
      await bench.register()
      assert.deepEqual(await bench.claimIds(), idsOf(rows))
    }),

    test('priority goes before the time at which a job was due', async (bench) => {
      const old = await bench.insertOne({ priority: 1 })
      bench.clock.advance(60_000)
      const urgent = await bench.insertOne({ priority: 0 })
      await bench.register()
      assert.deepEqual(await bench.claimIds(), [urgent.id, old.id])
    }),

    test('the first queue asked for is emptied before the second is looked at', async (bench) => {
      await bench.register()
      for (const [first, second] of [
        ['a', 'b'],
        ['b', 'a'],
      ] as const) {
        const [x1, y1, x2, y2] = await bench.insert(
          { queue: first, priority: 9 },
          { queue: second },
          { queue: first, priority: 9 },
          { queue: second },
        )
        assert.deepEqual(await bench.claimIds({ queues: [first, second], limit: 3 }), [x1!.id, x2!.id, y1!.id])
        assert.deepEqual(await bench.claimIds({ queues: [first, second], limit: 3 }), [y2!.id])
      }
    }),

    test('jobs of other queues are left', async (bench) => {
      await bench.insert({ queue: 'other' })
      await bench.register()
      assert.deepEqual(await bench.claimIds(), [])
      assert.deepEqual(await bench.claimIds({ queues: [] }), [])
    }),

    test('no more than the limit is claimed, the best first, and the next call goes on from there', async (bench) => {
      const rows = await bench.insert(...Array.from({ length: 7 }, () => ({})))
      await bench.register()
      assert.deepEqual(await bench.claimIds({ limit: 3 }), idsOf(rows.slice(0, 3)))
      assert.deepEqual(await bench.claimIds({ limit: 3 }), idsOf(rows.slice(3, 6)))
      assert.deepEqual(await bench.claimIds({ limit: 3 }), idsOf(rows.slice(6)))
    }),

    test('a job is not claimed before its moment and is at that very moment', async (bench) => {
      const { id } = await bench.insertOne({ runAfter: { delayMs: 1_000 } })
      await bench.register()
      bench.clock.advance(999)
      assert.deepEqual(await bench.claimIds(), [])
      bench.clock.advance(1)
      assert.deepEqual(await bench.claimIds(), [id])
    }),

    test('a job that is not due does not hide one that is', async (bench) => {
      await bench.insert(...Array.from({ length: 20 }, () => ({ priority: -1, runAfter: { delayMs: 1_000 } })))
      const { id } = await bench.insertOne()
      await bench.register()
      assert.deepEqual(await bench.claimIds({ limit: 1 }), [id])
    }),

    test('jobs of unknown types are left alone and hide no others', async (bench) => {
      const unknown = await bench.insert(...Array.from({ length: 300 }, () => ({ type: 'unknown', priority: -1 })))
      const { id } = await bench.insertOne()
      await bench.register()
      assert.deepEqual(await bench.claimIds({ limit: 2 }), [id])
      const rows = await bench.store.get(idsOf(unknown))
      assert.ok(rows.every((row) => row?.status === 'pending' && row.attempts === 0))
      assert.deepEqual(await bench.claimIds({ types: [] }), [])
    }),

    test('several types are claimed together, in order', async (bench) => {
      const [a, b, c] = await bench.insert({ type: 'a' }, { type: 'b' }, { type: 'c' })
      await bench.register()
      assert.deepEqual(await bench.claimIds({ types: ['c', 'a'] }), [a!.id, c!.id])
      assert.deepEqual(await bench.claimIds({ types: ['b'] }), [b!.id])
    }),

    test('retrying and pending jobs wait in one line', async (bench) => {
      const retried = await bench.running()
      await bench.settle(retried, retrying({ delayMs: 1_000 }))
      const [early, late] = await bench.insert({ runAfter: { delayMs: 500 } }, { runAfter: { delayMs: 1_500 } })
      bench.clock.advance(2_000)
      const { jobs } = await bench.claim()
      assert.deepEqual(idsOf(jobs), [early!.id, retried.id, late!.id])
      assert.equal(jobs[1]!.attempts, 2)
      assert.equal(jobs[1]!.history.length, 1)
    }),

    test('a claim says in how many milliseconds the next job of these queues is due', async (bench) => {
      await bench.insert(
        { runAfter: { delayMs: 5_000 } },
        { runAfter: { delayMs: 3_000 } },
        { queue: 'other', runAfter: { delayMs: 10 } },
      )
      await bench.register()
      assert.equal((await bench.claim()).nextDueInMs, 3_000)
      bench.clock.advance(2_999)
      assert.equal((await bench.claim()).nextDueInMs, 1)
      bench.clock.advance(1)
      const { jobs, nextDueInMs } = await bench.claim()
      assert.equal(jobs.length, 1)
      assert.equal(nextDueInMs, 2_000)
    }),

    test('a claim says null when nothing waits for its time', async (bench) => {
      await bench.running()
      assert.equal((await bench.claim()).nextDueInMs, null)
    }),

    test('a full batch says nothing of the next due job', async (bench) => {
      await bench.insert({}, { runAfter: { delayMs: 5_000 } })
      await bench.register()
      assert.equal((await bench.claim({ limit: 1 })).nextDueInMs, null)
    }),

    test('settling and claiming share one call: claims end, and more are taken', async (bench) => {
      const [a, b, c] = await bench.insert({}, {}, {})
      await bench.register()
      const { jobs } = await bench.claim({ limit: 2 })
      const next = await bench.claim({ limit: 2 }, [settling(jobs[0]!, succeeded), settling(jobs[1]!, failed())])
      assert.deepEqual(next.settled, ['settled', 'settled'])
      assert.deepEqual(idsOf(next.jobs), [c!.id])
      assert.equal((await bench.row(a!.id)).status, 'succeeded')
      assert.equal((await bench.row(b!.id)).status, 'failed')
    }),

    test('a claim without settlements answers with none settled', async (bench) => {
      await bench.register()
      assert.deepEqual((await bench.claim()).settled, [])
    }),

    test('a settlement is written before the claim looks for jobs', async (bench) => {
      const first = await bench.running()
      const second = await bench.running()
      const { jobs, nextDueInMs, settled } = await bench.claim({}, [
        settling(first, retrying({ delayMs: 0, attempts: 0, entry: null })),
        settling(second, retrying({ delayMs: 4_000 })),
      ])
      assert.deepEqual(settled, ['settled', 'settled'])
      assert.deepEqual(idsOf(jobs), [first.id])
      assert.equal(jobs[0]!.attempts, 1)
      assert.equal(nextDueInMs, 4_000)
    }),

    test('in a call that settles and claims, a fence that fails stops neither the others nor the claim', async (bench) => {
      const good = await bench.running()
      const stale = await bench.running()
      const waiting = await bench.insertOne()
      const { settled, jobs } = await bench.claim({}, [
        settling(stale, succeeded, { token: 'stale' }),
        settling(good, succeeded),
        { ...settling(good, succeeded), id: 'nobody' },
      ])
      assert.deepEqual(settled, ['lost', 'settled', 'lost'])
      assert.deepEqual(idsOf(jobs), [waiting.id])
      assert.equal((await bench.row(stale.id)).status, 'running')
      assert.equal((await bench.row(good.id)).status, 'succeeded')
    }),

    test('a limit of 0 settles and claims nothing', async (bench) => {
      const row = await bench.running()
      await bench.insert({})
      const { settled, jobs } = await bench.claim({ limit: 0 }, [settling(row, succeeded)])
      assert.deepEqual(settled, ['settled'])
      assert.deepEqual(jobs, [])
    }),

    test('a claim keeps what earlier attempts left, but for their stage and progress', async (bench) => {
      const row = await bench.running({ maxAttempts: 9, idempotencyKey: 'k' })
      await bench.store.report([{ ...fence(row), stage: 'uploading', progress: 0.5 }])
      await bench.settle(row, retrying({ waits: 3, entry: entry({ message: 'first' }) }))
      const before = await bench.row(row.id)
      const { jobs } = await bench.claim({ token: 'again' })
      const now = bench.clock.now()
      const claim = { lockedAt: now, lockedBy: 'worker-1', claimToken: 'again', stage: null, progress: null }
      assert.deepEqual(jobs, [{ ...before, status: 'running', attempts: 2, rev: before.rev + 1, ...claim }])
      assert.deepEqual([await bench.row(row.id)], jobs)
    }),

    test('2,000 jobs are claimed by one call and settled by the next', async (bench) => {
      const rows = await bench.insert(...Array.from({ length: 2_000 }, () => ({})))
      await bench.register()
      const { jobs } = await bench.claim({ limit: 2_000 })
      assert.deepEqual(idsOf(jobs), idsOf(rows))
      const { settled } = await bench.claim(
        { limit: 2_000 },
        jobs.map((job) => settling(job, succeeded)),
      )
      assert.ok(settled.length === 2_000 && settled.every((outcome) => outcome === 'settled'))
      assert.equal(await bench.store.count({ status: ['succeeded'] }), 2_000)
    }),
  ],
}
