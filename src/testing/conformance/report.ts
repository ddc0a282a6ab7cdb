import assert from 'node:assert/strict'
import type { NewEvent } from '../../store.js'
import { canceled, fence, idsOf, retrying, sameJson, succeeded } from './bench.js'
import { test, type TestGroup } from './suite.js'

function log(message: string, data: string | null = null): NewEvent {
  return { kind: 'log', attempt: 1, message, data }
}

export const reportTests: TestGroup = {
  name: 'report',
  tests: [
    test('a holder writes stage and progress, and the rest of the row stays', async (bench) => {
      const row = await bench.running()
      bench.clock.advance(1_000)
      assert.deepEqual(await bench.store.report([{ ...fence(row), stage: 'uploading', progress: 0.25 }]), ['written'])
      assert.deepEqual(await bench.row(row.id), {
        ...row,
        stage: 'uploading',
        progress: 0.25,
        updatedAt: bench.clock.now(),
        rev: row.rev + 1,
      })
    }),

    test('a part that is absent is left as it is', async (bench) => {
      const row = await bench.running()
      await bench.store.report([{ ...fence(row), stage: 'uploading', progress: 0.25 }])
      await bench.store.report([{ ...fence(row), progress: 0.5 }])
      await bench.store.report([{ ...fence(row), stage: 'checking' }])
      await bench.store.report([{ ...fence(row), events: [log('still here')] }])
      const { stage, progress } = await bench.row(row.id)
      assert.deepEqual({ stage, progress }, { stage: 'checking', progress: 0.5 })
    }),

    test('progress of 0 and of 1 and an empty stage are values', async (bench) => {
      const row = await bench.running()
      for (const progress of [1, 0, 1 / 3]) {
        await bench.store.report([{ ...fence(row), progress, stage: '' }])
        const after = await bench.row(row.id)
        assert.deepEqual([after.progress, after.stage], [progress, ''])
      }
    }),

    test('events join the timeline in order, stamped now', async (bench) => {
      const row = await bench.running()
      const first = bench.clock.now()
      await bench.store.report([
        { ...fence(row), events: [log('one', '{"n":1}'), { ...log('two'), kind: 'stage' }, log('three')] },
      ])
      bench.clock.advance(1_000)
      await bench.store.report([{ ...fence(row), events: [log('four')] }])
      const events = await bench.store.events(row.id)
      assert.deepEqual(
        events.map(({ data: _, ...event }) => event),
        [
          { jobId: row.id, kind: 'log', attempt: 1, message: 'one', at: first },
          { jobId: row.id, kind: 'stage', attempt: 1, message: 'two', at: first },
          { jobId: row.id, kind: 'log', attempt: 1, message: 'three', at: first },
          { jobId: row.id, kind: 'log', attempt: 1, message: 'four', at: first + 1_000 },
        ],
      )
      sameJson(events[0]!.data, '{"n":1}')
      assert.equal(events[1]!.data, null)
    }),

    test('each job has a timeline of its own, and a job without events an empty one', async (bench) => {
      const a = await bench.running()
      const b = await bench.running()
      await bench.store.report([
        { ...fence(a), events: [log('for a')] },
        { ...fence(b), events: [log('for b')] },
      ])
      assert.deepEqual(
        (await bench.store.events(b.id)).map(({ message }) => message),
        ['for b'],
      )
      assert.deepEqual(await bench.store.events('nobody'), [])
    }),

    test('a report after the end writes nothing: no progress, no event, no ghost', async (bench) => {
      const row = await bench.running()
      await bench.store.report([{ ...fence(row), stage: 'ready', progress: 1 }])
      await bench.settle(row, succeeded)
      const after = await bench.row(row.id)
      const late = { ...fence(row), stage: 'late', progress: 0.1, events: [log('late')] }
      assert.deepEqual(await bench.store.report([late]), ['lost'])
      assert.deepEqual(await bench.row(row.id), after)
      assert.deepEqual(await bench.store.events(row.id), [])
      bench.clock.advance(1)
      await bench.store.prune({ succeededMs: 0, failedMs: 0, canceledMs: 0 }, 10)
      assert.deepEqual(await bench.store.report([late]), ['lost'])
      assert.equal(await bench.store.count({}), 0)
      assert.deepEqual(await bench.store.events(row.id), [])
    }),

    test('a report with another token, or none, writes nothing', async (bench) => {
      const row = await bench.running()
      const waiting = await bench.insertOne()
      const reports = [
        { id: row.id, token: 'stale', stage: 'x', events: [log('x')] },
        { id: row.id, token: null, stage: 'x', events: [log('x')] },
        { id: waiting.id, token: null, stage: 'x', events: [log('x')] },
        { id: 'nobody', token: row.claimToken, stage: 'x', events: [log('x')] },
      ]
      assert.deepEqual(await bench.store.report(reports), ['lost', 'lost', 'lost', 'lost'])
      assert.deepEqual(await bench.store.get([row.id, waiting.id]), [row, waiting])
      for (const { id } of reports) assert.deepEqual(await bench.store.events(id), [])
    }),

    test('a report of a claim that was recovered and claimed again writes nothing', async (bench) => {
      const old = await bench.running()
      await bench.settle(old, retrying())
      const { jobs } = await bench.claim()
      assert.deepEqual(await bench.store.report([{ ...fence(old), progress: 0.9, events: [log('late')] }]), ['lost'])
      assert.deepEqual(await bench.row(old.id), jobs[0])
      assert.deepEqual(await bench.store.events(old.id), [])
    }),

    test('a report of a job that was canceled while it ran writes nothing', async (bench) => {
      const row = await bench.running()
      await bench.settle(row, canceled())
      assert.deepEqual(await bench.store.report([{ ...fence(row), progress: 0.9 }]), ['lost'])
      assert.equal((await bench.row(row.id)).progress, null)
    }),

    test('reports go on while a cancellation is asked for', async (bench) => {
      const row = await bench.running()
      await bench.store.cancel([row.id], null)
      assert.deepEqual(await bench.store.report([{ ...fence(row), stage: 'cleaning up' }]), ['written'])
      assert.equal((await bench.row(row.id)).stage, 'cleaning up')
    }),

    test('in a batch of reports each stands alone', async (bench) => {
      const rows = [await bench.running(), await bench.running(), await bench.running()]
      const held = await bench.store.report([
        { ...fence(rows[0]!), progress: 0.1 },
        { ...fence(rows[1]!), token: 'stale', progress: 0.2 },
        { ...fence(rows[2]!), stage: 'c', events: [log('c')] },
      ])
      assert.deepEqual(held, ['written', 'lost', 'written'])
      const after = await bench.store.get(idsOf(rows))
      assert.deepEqual(
        after.map((row) => [row!.progress, row!.stage]),
        [
          [0.1, null],
          [null, null],
          [null, 'c'],
        ],
      )
    }),

    test('of several reports of one claim in one call the last word counts and every event is kept', async (bench) => {
      const row = await bench.running()
      const held = await bench.store.report([
        { ...fence(row), stage: 'a', progress: 0.1, events: [log('one')] },
        { ...fence(row), progress: 0.2, events: [log('two')] },
      ])
      assert.deepEqual(held, ['written', 'written'])
      const { stage, progress } = await bench.row(row.id)
      assert.deepEqual({ stage, progress }, { stage: 'a', progress: 0.2 })
      assert.deepEqual(
        (await bench.store.events(row.id)).map(({ message }) => message),
        ['one', 'two'],
      )
    }),
  ],
}
