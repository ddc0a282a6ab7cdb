import assert from 'node:assert/strict'
import type { EventKind } from '../../store.js'
import { assertReleased, canceled, entry, failed, fence, idsOf, retrying, succeeded, type Bench } from './bench.js'
import { test, type TestGroup } from './suite.js'

async function kinds(bench: Bench, id: string): Promise<EventKind[]> {
  return (await bench.store.events(id)).map(({ kind }) => kind)
}

async function assertNoted(bench: Bench, id: string, kind: EventKind, by: string): Promise<void> {
  const events = await bench.store.events(id)
  assert.deepEqual(
    events.map((event) => event.kind),
    [kind],
  )
  const [{ at, message, data }] = events as [(typeof events)[number]]
  assert.equal(at, bench.clock.now())
  assert.ok(`${message} ${data}`.includes(by), `the timeline does not say who: ${message}`)
}

export const peopleTests: TestGroup = {
  name: 'cancel and repair',
  tests: [
    test('a pending job is canceled at once, finished, and the timeline says by whom', async (bench) => {
      const row = await bench.insertOne({ runAfter: { delayMs: 60_000 } })
      bench.clock.advance(1_000)
      const now = bench.clock.now()
      const rows = await bench.store.cancel([row.id], 'ann')
      assert.deepEqual(rows, [{ ...row, status: 'canceled', finishedAt: now, updatedAt: now, rev: 1 }])
      assert.deepEqual(await bench.store.get([row.id]), rows)
      await assertNoted(bench, row.id, 'canceled', 'ann')
    }),

    test('a retrying job is canceled and keeps its history', async (bench) => {
      const row = await bench.running()
      await bench.settle(row, retrying({ delayMs: 60_000 }))
      const [after] = await bench.store.cancel([row.id], 'ann')
      assert.equal(after!.status, 'canceled')
      assert.equal(after!.finishedAt, bench.clock.now())
      assert.equal(after!.history.length, 1)
      assert.equal(after!.attempts, 1)
      assertReleased(after!)
      await assertNoted(bench, row.id, 'canceled', 'ann')
      bench.clock.advance(60_000)
      assert.deepEqual(await bench.claimIds(), [])
    }),

    test('a running job is asked to stop and runs on', async (bench) => {
      const row = await bench.running()
      bench.clock.advance(1_000)
      const now = bench.clock.now()
      const rows = await bench.store.cancel([row.id], 'ann')
      assert.deepEqual(rows, [{ ...row, cancelRequestedAt: now, updatedAt: now, rev: row.rev + 1 }])
      assert.deepEqual(await bench.store.get([row.id]), rows)
      await assertNoted(bench, row.id, 'cancel_requested', 'ann')
    }),

    test('asking a running job again changes nothing and notes nothing', async (bench) => {
      const row = await bench.running()
      const first = await bench.store.cancel([row.id], 'ann')
      bench.clock.advance(1_000)
      assert.deepEqual(await bench.store.cancel([row.id], 'bob'), first)
      assert.deepEqual(await kinds(bench, row.id), ['cancel_requested'])
    }),

    test('canceling a finished job changes nothing and notes nothing', async (bench) => {
      for (const status of ['succeeded', 'failed', 'canceled'] as const) {
        const row = await bench.finished(status)
        bench.clock.advance(1_000)
        assert.deepEqual(await bench.store.cancel([row.id], 'ann'), [row])
        assert.deepEqual(await bench.row(row.id), row)
        assert.deepEqual(await kinds(bench, row.id), [])
      }
    }),

    test('several jobs are canceled by one call, answered in order, with undefined for what does not exist', async (bench) => {
      const done = await bench.finished('succeeded')
      const running = await bench.running()
      const waiting = await bench.insertOne()
      const rows = await bench.store.cancel([waiting.id, 'nobody', done.id, running.id], null)
      assert.deepEqual(
        rows.map((row) => row?.id),
        [waiting.id, undefined, done.id, running.id],
      )
      assert.deepEqual(
        rows.map((row) => row?.status),
        ['canceled', undefined, 'succeeded', 'running'],
      )
      assert.equal((await bench.store.events(waiting.id)).length, 1)
    }),

    test('a job named twice is canceled once', async (bench) => {
      const { id } = await bench.insertOne()
      const rows = await bench.store.cancel([id, id], 'ann')
      assert.deepEqual(
        rows.map((row) => row?.status),
        ['canceled', 'canceled'],
      )
      assert.deepEqual(await kinds(bench, id), ['canceled'])
    }),

    test('a canceled job is never claimed', async (bench) => {
      const { id } = await bench.insertOne()
      await bench.store.cancel([id], null)
      await bench.register()
      assert.deepEqual(await bench.claimIds(), [])
    }),

    test('a failed or canceled job is repaired: pending, due now, as if it had never run', async (bench) => {
      for (const status of ['failed', 'canceled'] as const) {
        const row = await bench.running({ idempotencyKey: status, maxAttempts: 4 })
        await bench.store.report([{ ...fence(row), stage: 'uploading', progress: 0.5 }])
        await bench.settle(row, retrying({ waits: 3, entry: entry() }))
        const [again] = (await bench.claim()).jobs
        await bench.settle(again!, status === 'failed' ? failed() : canceled())
        const before = await bench.row(row.id)
        bench.clock.advance(1_000)
        const now = bench.clock.now()
        const [answer] = await bench.store.repair([row.id], 'ann')
        assert.equal(answer!.changed, true)
        const { history, lastError, ...after } = answer!.row
        const { history: earlier, lastError: _, ...kept } = before
        const fresh = {
          status: 'pending',
          attempts: 0,
          waits: 0,
          stage: null,
          progress: null,
          userMessage: null,
          finishedAt: null,
        }
        assert.deepEqual(after, { ...kept, ...fresh, runAfter: now, updatedAt: now, rev: before.rev + 1 })
        assert.deepEqual(history.slice(0, -1), earlier)
        const repair = history.at(-1)!
        assert.deepEqual(
          [repair.attempt, repair.kind, repair.code, repair.by, repair.at],
          [2, 'repaired', 'repaired', 'ann', now],
        )
        assert.equal(lastError, repair.message)
        assert.deepEqual(await bench.row(row.id), answer!.row)
        await assertNoted(bench, row.id, 'repaired', 'ann')
        assert.deepEqual(await bench.claimIds(), [row.id])
      }
    }),

    test('a repaired job carries no old request to cancel', async (bench) => {
      const row = await bench.running()
      await bench.store.cancel([row.id], 'ann')
      await bench.settle(row, canceled())
      const [answer] = await bench.store.repair([row.id], 'ann')
      assert.equal(answer!.row.cancelRequestedAt, null)
      const [again] = (await bench.claim()).jobs
      assert.equal(await bench.settle(again!, retrying()), 'settled')
    }),

    test('a repair by nobody in particular names nobody', async (bench) => {
      const row = await bench.finished('failed')
      const [answer] = await bench.store.repair([row.id], null)
      assert.equal(answer!.row.history.at(-1)!.by, undefined)
    }),

    test('what waits, runs or succeeded is not repaired', async (bench) => {
      const done = await bench.finished('succeeded')
      const retried = await bench.running()
      await bench.settle(retried, retrying({ delayMs: 60_000 }))
      const running = await bench.running()
      const waiting = await bench.insertOne()
      const before = await bench.store.get([done.id, retried.id, running.id, waiting.id])
      bench.clock.advance(1_000)
      const answers = await bench.store.repair(idsOf([done, retried, running, waiting]), 'ann')
      assert.deepEqual(
        answers,
        before.map((row) => ({ row, changed: false })),
      )
      assert.deepEqual(await bench.store.get(idsOf([done, retried, running, waiting])), before)
      for (const { id } of [done, retried, running, waiting]) assert.deepEqual(await kinds(bench, id), [])
    }),

    test('a job whose key another job took over is not repaired', async (bench) => {
      for (const status of ['failed', 'canceled'] as const) {
        const old = await bench.finished(status, { idempotencyKey: status })
        await bench.insertOne({ idempotencyKey: status, supersedes: { id: old.id, status }, runAfter: { delayMs: 60_000 } })
        const before = await bench.row(old.id)
        assert.deepEqual(await bench.store.repair([old.id], 'ann'), [{ row: before, changed: false }])
        assert.deepEqual(await bench.row(old.id), before)
        assert.deepEqual(await kinds(bench, old.id), [])
      }
    }),

    test('several jobs are repaired by one call, answered in order, with undefined for what does not exist', async (bench) => {
      const a = await bench.finished('failed')
      const b = await bench.finished('succeeded')
      const c = await bench.finished('canceled')
      const answers = await bench.store.repair([c.id, 'nobody', b.id, a.id], null)
      assert.deepEqual(
        answers.map((answer) => answer?.row.id),
        [c.id, undefined, b.id, a.id],
      )
      assert.deepEqual(
        answers.map((answer) => answer?.changed),
        [true, undefined, false, true],
      )
    }),

    test('a job named twice is repaired once', async (bench) => {
      const { id } = await bench.finished('failed')
      const answers = await bench.store.repair([id, id], 'ann')
      assert.deepEqual(
        answers.map((answer) => answer?.changed),
        [true, false],
      )
      const { history } = await bench.row(id)
      assert.equal(history.filter(({ kind }) => kind === 'repaired').length, 1)
      assert.deepEqual(await kinds(bench, id), ['repaired'])
    }),

    test('a repaired job can fail and be repaired again, and its history tells it all', async (bench) => {
      const { id } = await bench.finished('failed')
      await bench.store.repair([id], 'ann')
      const [job] = (await bench.claim()).jobs
      assert.equal(job!.attempts, 1)
      await bench.settle(job!, failed())
      await bench.store.repair([id], 'bob')
      const [last] = (await bench.claim()).jobs
      await bench.settle(last!, succeeded)
      const { history, status } = await bench.row(id)
      assert.equal(status, 'succeeded')
      assert.deepEqual(
        history.map(({ kind }) => kind),
        ['permanent', 'repaired', 'permanent', 'repaired'],
      )
    }),

    test('the holder of a claim from before a repair changes nothing', async (bench) => {
      const row = await bench.running()
      await bench.settle(row, failed())
      await bench.store.repair([row.id], 'ann')
      const pending = await bench.row(row.id)
      assert.equal(await bench.settle(row, succeeded), 'lost')
      assert.equal(await bench.settle(row, succeeded, { token: null }), 'lost')
      assert.deepEqual(await bench.row(row.id), pending)
    }),
  ],
}
