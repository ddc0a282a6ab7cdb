import assert from 'node:assert/strict'
import { MAX_HISTORY, type HistoryEntry } from '../../transition.js'
import { assertReleased, canceled, entry, failed, idsOf, retrying, sameJson, settling, succeeded } from './bench.js'
import { test, type TestGroup } from './suite.js'

const FREE = { lockedAt: null, lockedBy: null, claimToken: null }

export const settleTests: TestGroup = {
  name: 'settle',
  tests: [
    test('a job that succeeded keeps its result, is released and finished now', async (bench) => {
      const row = await bench.running()
      bench.clock.advance(1_000)
      const now = bench.clock.now()
      assert.equal(await bench.settle(row, { status: 'succeeded', result: '{"file":"a.pdf"}' }), 'settled')
      const { result, ...after } = await bench.row(row.id)
      sameJson(result, '{"file":"a.pdf"}')
      const { result: _, ...before } = row
      assert.deepEqual(after, {
        ...before,
        ...FREE,
        status: 'succeeded',
        maxAttempts: 5,
        finishedAt: now,
        updatedAt: now,
        rev: row.rev + 1,
      })
    }),

    test('a job may succeed without a result', async (bench) => {
      const row = await bench.running()
      await bench.settle(row, { status: 'succeeded', result: null })
      assert.equal((await bench.row(row.id)).result, null)
    }),

    test('a job that failed has its error, its user message and no owner', async (bench) => {
      const row = await bench.running()
      bench.clock.advance(1_000)
      const now = bench.clock.now()
      const error: HistoryEntry = {
        attempt: 1,
        kind: 'permanent',
        code: 'no_such_address',
        message: 'the address does not exist',
        blame: 'user',
        name: 'MailError',
        stack: 'MailError: ...\n    at send',
        by: 'worker-1',
      }
      await bench.settle(row, { status: 'failed', entry: error, userMessage: 'Please check the address.' })
      assert.deepEqual(await bench.row(row.id), {
        ...row,
        ...FREE,
        status: 'failed',
        maxAttempts: 5,
        history: [{ ...error, at: now }],
        lastError: error.message,
        userMessage: 'Please check the address.',
        finishedAt: now,
        updatedAt: now,
        rev: row.rev + 1,
      })
    }),

    test('a job to be retried waits for the delay with the attempts and waits given', async (bench) => {
      const row = await bench.running()
      bench.clock.advance(1_000)
      const now = bench.clock.now()
      await bench.settle(row, retrying({ delayMs: 20_000, attempts: 1, waits: 2, entry: entry() }))
      assert.deepEqual(await bench.row(row.id), {
        ...row,
        ...FREE,
        status: 'retrying',
        maxAttempts: 5,
        attempts: 1,
        waits: 2,
        runAfter: now + 20_000,
        history: [{ ...entry(), at: now }],
        lastError: 'the connection timed out',
        updatedAt: now,
        rev: row.rev + 1,
      })
    }),

    test('a job that is handed back gets its attempt back and no history', async (bench) => {
      const row = await bench.running()
      await bench.settle(row, retrying({ attempts: 0, entry: null }))
      const after = await bench.row(row.id)
      assert.equal(after.attempts, 0)
      assert.equal(after.runAfter, bench.clock.now())
      assert.deepEqual(after.history, [])
      assert.equal(after.lastError, null)
      assertReleased(after)
    }),

    test('a canceled job is finished, with or without an entry', async (bench) => {
      for (const noted of [null, entry({ kind: 'canceled', code: 'canceled', message: 'stopped' })]) {
        const row = await bench.running()
        await bench.settle(row, canceled(noted))
        const after = await bench.row(row.id)
        assert.equal(after.status, 'canceled')
        assert.equal(after.finishedAt, bench.clock.now())
        assert.equal(after.lastError, noted?.message ?? null)
        assert.equal(after.history.length, noted === null ? 0 : 1)
        assertReleased(after)
      }
    }),

    test('history grows by one entry for each attempt that did not succeed, and success keeps it', async (bench) => {
      let row = await bench.running()
      for (const attempt of [1, 2]) {
        bench.clock.advance(1_000)
        await bench.settle(row, retrying({ attempts: attempt, entry: entry({ attempt, message: `failure ${attempt}` }) }))
        row = (await bench.claim()).jobs[0]!
        assert.equal(row.attempts, attempt + 1)
      }
      await bench.settle(row, succeeded)
      const { history, lastError, attempts } = await bench.row(row.id)
      assert.deepEqual(
        history.map(({ message, at }) => [message, at]),
        [
          ['failure 1', bench.clock.now() - 1_000],
          ['failure 2', bench.clock.now()],
        ],
      )
      assert.equal(lastError, 'failure 2')
      assert.equal(attempts, 3)
    }),

    test('a settlement without an entry leaves history and last error', async (bench) => {
      const row = await bench.running()
      await bench.settle(row, retrying({ entry: entry({ message: 'first' }) }))
      const { jobs } = await bench.claim()
      await bench.settle(jobs[0]!, canceled(null))
      const { history, lastError } = await bench.row(row.id)
      assert.equal(history.length, 1)
      assert.equal(lastError, 'first')
    }),

    test('the store stamps an entry, whatever time it came with', async (bench) => {
      const row = await bench.running()
      await bench.settle(row, failed({ at: 5 }))
      assert.equal((await bench.row(row.id)).history[0]!.at, bench.clock.now())
    }),

    test(`of the history the newest ${MAX_HISTORY} entries are kept`, async (bench) => {
      let row = await bench.running()
      for (let attempt = 1; attempt <= MAX_HISTORY + 3; attempt++) {
        await bench.settle(row, retrying({ attempts: attempt, entry: entry({ attempt }) }))
        row = (await bench.claim()).jobs[0]!
      }
      const expected = Array.from({ length: MAX_HISTORY }, (_, i) => i + 4)
      assert.deepEqual(
        row.history.map(({ attempt }) => attempt),
        expected,
      )
    }),

    test('an entry of 100,000 characters is kept whole', async (bench) => {
      const row = await bench.running()
      const stack = 'at line 😀\n'.repeat(10_000)
      await bench.settle(row, failed({ stack }))
      assert.equal((await bench.row(row.id)).history[0]!.stack, stack)
    }),

    test('the attempt limit is written to a row that has none, and only to that', async (bench) => {
      const none = await bench.running({ maxAttempts: null })
      const own = await bench.running({ maxAttempts: 2 })
      await bench.store.settle([settling(none, retrying(), { maxAttempts: 7 }), settling(own, retrying(), { maxAttempts: 7 })])
      assert.equal((await bench.row(none.id)).maxAttempts, 7)
      assert.equal((await bench.row(own.id)).maxAttempts, 2)
    }),

    test('a wait of 0 and a wait of years are both kept', async (bench) => {
      for (const delayMs of [0, 315_360_000_000]) {
        const row = await bench.running()
        await bench.settle(row, retrying({ delayMs }))
        assert.equal((await bench.row(row.id)).runAfter, bench.clock.now() + delayMs)
        await bench.store.cancel([row.id], null)
      }
    }),

    test('any number of attempts is written without overflow', async (bench) => {
      for (const attempts of [31, 32, 64, 1_024, 5_000, 2_000_000_000]) {
        const row = await bench.running()
        await bench.settle(row, retrying({ attempts, delayMs: 1_000 }))
        assert.equal((await bench.row(row.id)).attempts, attempts)
        await bench.store.cancel([row.id], null)
      }
    }),

    test('a claim can be settled once: the second settlement changes nothing', async (bench) => {
      const row = await bench.running()
      assert.equal(await bench.settle(row, succeeded), 'settled')
      const after = await bench.row(row.id)
      bench.clock.advance(1_000)
      assert.equal(await bench.settle(row, failed()), 'lost')
      assert.equal(await bench.settle(row, succeeded), 'lost')
      assert.deepEqual(await bench.row(row.id), after)
    }),

    test('a claim settled twice in one call takes the first settlement', async (bench) => {
      const row = await bench.running()
      assert.deepEqual(await bench.store.settle([settling(row, succeeded), settling(row, failed())]), ['settled', 'lost'])
      const after = await bench.row(row.id)
      assert.equal(after.status, 'succeeded')
      assert.deepEqual(after.history, [])
    }),

    test('of settlements of one job in one call, each is judged in its turn and by its own token', async (bench) => {
      const failedFirst = await bench.running()
      assert.deepEqual(await bench.store.settle([settling(failedFirst, failed()), settling(failedFirst, succeeded)]), [
        'settled',
        'lost',
      ])
      assert.equal((await bench.row(failedFirst.id)).status, 'failed')
      const row = await bench.running()
      const wrongFirst = [settling(row, succeeded, { token: 'wrong' }), settling(row, succeeded)]
      assert.deepEqual(await bench.store.settle(wrongFirst), ['lost', 'settled'])
      assert.equal((await bench.row(row.id)).status, 'succeeded')
    }),

    test('a retry without a delay of its own leaves the job due when it was', async (bench) => {
      bench.clock.advance(1_000)
      const row = await bench.running({ runAfter: { at: bench.clock.now() - 500 } })
      bench.clock.advance(1_000)
      await bench.settle(row, retrying({ delayMs: null }))
      assert.equal((await bench.row(row.id)).runAfter, row.runAfter)
    }),

    test('another token changes nothing, however alike', async (bench) => {
      const row = await bench.running()
      for (const token of [`${row.claimToken} `, row.claimToken!.toUpperCase(), '', 'token', null]) {
        assert.equal(await bench.settle(row, succeeded, { token }), 'lost')
      }
      assert.deepEqual(await bench.row(row.id), row)
    }),

    test('a token settles only the job it was given with', async (bench) => {
      const first = await bench.running()
      const second = await bench.running()
      assert.equal(await bench.settle(first, succeeded, { token: second.claimToken }), 'lost')
      assert.deepEqual(await bench.row(first.id), first)
    }),

    test('a token that several jobs of one claim share settles the one that is named', async (bench) => {
      await bench.insert({}, {})
      await bench.register()
      const { jobs } = await bench.claim()
      assert.equal(await bench.settle(jobs[0]!, succeeded), 'settled')
      assert.deepEqual(await bench.row(jobs[1]!.id), jobs[1])
    }),

    test('no token settles a job that waits or is finished', async (bench) => {
      const finished = await bench.finished('canceled')
      const waiting = await bench.insertOne()
      const before = [waiting, finished]
      for (const row of before) assert.equal(await bench.settle(row, succeeded, { token: null }), 'lost')
      assert.deepEqual(await bench.store.get(idsOf(before)), before)
    }),

    test('a job that does not exist is settled by nobody', async (bench) => {
      const row = await bench.running()
      assert.deepEqual(await bench.store.settle([{ ...settling(row, succeeded), id: 'nobody' }]), ['lost'])
    }),

    test('after a retry was claimed again, the old holder changes nothing', async (bench) => {
      const old = await bench.running()
      await bench.settle(old, retrying())
      await bench.register('worker-2')
      const { jobs } = await bench.claim({ workerId: 'worker-2' })
      assert.equal(await bench.settle(old, succeeded), 'lost')
      assert.deepEqual(await bench.row(old.id), jobs[0])
    }),

    test('a request to cancel leaves the fence whole: who finished has succeeded', async (bench) => {
      const row = await bench.running()
      await bench.store.cancel([row.id], 'ann')
      assert.equal(await bench.settle(row, succeeded), 'settled')
      assert.equal((await bench.row(row.id)).status, 'succeeded')
    }),

    test('a request to cancel stops a retry and a failure that did not know of it, and nothing is changed', async (bench) => {
      const { id } = await bench.running()
      const [asked] = await bench.store.cancel([id], 'ann')
      assert.equal(await bench.settle(asked!, retrying()), 'cancel_requested')
      assert.equal(await bench.settle(asked!, failed()), 'cancel_requested')
      assert.deepEqual(await bench.row(id), asked)
      assert.equal(await bench.settle(asked!, canceled(entry())), 'settled')
      assert.equal((await bench.row(id)).status, 'canceled')
    }),

    test('a holder that lost its claim is told so, whether or not cancellation was asked for', async (bench) => {
      const row = await bench.running()
      await bench.store.cancel([row.id], null)
      assert.equal(await bench.settle(row, failed(), { token: 'stale' }), 'lost')
      assert.equal(await bench.settle(row, canceled(), { token: 'stale' }), 'lost')
    }),

    test('in a call that settles and claims, a request to cancel is told too', async (bench) => {
      const row = await bench.running()
      const other = await bench.running()
      await bench.store.cancel([row.id], null)
      const { settled } = await bench.claim({}, [settling(row, retrying()), settling(other, succeeded)])
      assert.deepEqual(settled, ['cancel_requested', 'settled'])
    }),

    test('in a batch every settlement stands alone: where fences fail the others are written', async (bench) => {
      const [a, b, c, d] = [await bench.running(), await bench.running(), await bench.running(), await bench.running()]
      const rows = [a, b, c, d]
      const outcomes = await bench.store.settle([
        settling(a, succeeded),
        settling(b, succeeded, { token: 'stale' }),
        settling(c, retrying()),
        settling(d, failed()),
        settling(a, failed(), { id: 'nobody' }),
      ])
      assert.deepEqual(outcomes, ['settled', 'lost', 'settled', 'settled', 'lost'])
      const statuses = (await bench.store.get(idsOf(rows))).map((row) => row?.status)
      assert.deepEqual(statuses, ['succeeded', 'running', 'retrying', 'failed'])
    }),

    test('1,000 different settlements go in by one call, each to its own job', async (bench) => {
      await bench.insert(...Array.from({ length: 1_000 }, () => ({})))
      await bench.register()
      const { jobs } = await bench.claim({ limit: 1_000 })
      const outcomes = await bench.store.settle(
        jobs.map((job, i) =>
          settling(job, i % 2 ? retrying({ delayMs: i, attempts: i }) : { status: 'succeeded', result: `${i}` }),
        ),
      )
      assert.ok(outcomes.every((outcome) => outcome === 'settled'))
      const rows = await bench.store.get(idsOf(jobs))
      rows.forEach((row, i) => {
        if (i % 2) assert.equal(row!.attempts, i)
        else sameJson(row!.result, `${i}`)
      })
    }),
  ],
}
