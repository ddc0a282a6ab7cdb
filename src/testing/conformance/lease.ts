import assert from 'node:assert/strict'
import type { JobRow } from '../../store.js'
import { settle } from '../../transition.js'
import { LEASE_MS, canceled, fence, idsOf, retrying, settling, succeeded, type Bench } from './bench.js'
import { test, type TestGroup } from './suite.js'

/** What recovery makes of a lost claim; the policy is the simplest there is. */
function recovery(row: JobRow): ReturnType<typeof settling> {
  const policy = { maxAttempts: 5, maxRetryAfterMs: 0, backoff: () => 1_000, maxDelayMs: 1_000, jitter: false }
  const job = { ...row, cancelRequested: row.cancelRequestedAt !== null }
  return settling(row, settle(job, { type: 'lost', holder: row.lockedBy, userMessage: 'Please try again.' }, policy, 0))
}

async function leaseOf(bench: Bench, workerId = 'worker-1'): Promise<number | undefined> {
  const { workers } = await bench.store.workers()
  return workers.find(({ id }) => id === workerId)?.leaseUntil
}

export const leaseTests: TestGroup = {
  name: 'leases',
  tests: [
    test('a worker registers with all that it says of itself', async (bench) => {
      const now = bench.clock.now()
      const info = { ...bench.worker(), queues: ['a', 'b,c'], types: ['mail', 'é'] }
      await bench.store.register(info, LEASE_MS)
      assert.deepEqual(await bench.store.heartbeat(info.id, LEASE_MS), { alive: true, claims: [] })
      const { workers } = await bench.store.workers()
      assert.deepEqual(workers, [{ ...info, startedAt: now, heartbeatAt: now, leaseUntil: now + LEASE_MS }])
    }),

    test('a heartbeat extends the lease from now and keeps the start', async (bench) => {
      const started = bench.clock.now()
      await bench.register()
      bench.clock.advance(LEASE_MS - 1)
      await bench.register()
      const now = bench.clock.now()
      const [worker] = (await bench.store.workers()).workers
      assert.deepEqual([worker!.startedAt, worker!.heartbeatAt, worker!.leaseUntil], [started, now, now + LEASE_MS])
    }),

    test('a heartbeat lists the claims of this worker with their tokens, and no others', async (bench) => {
      const mine = [await bench.running(), await bench.running()]
      await bench.settle(await bench.running(), succeeded)
      await bench.running({}, 'worker-2')
      await bench.insert({})
      const reply = await bench.store.heartbeat('worker-1', LEASE_MS)
      assert.ok(reply.alive)
      assert.deepEqual(
        reply.claims.toSorted((a, b) => (a.id < b.id ? -1 : 1)),
        mine.map(({ id, claimToken }) => ({ id, token: claimToken, cancelRequested: false })),
      )
    }),

    test('a heartbeat tells which claims somebody asked to cancel', async (bench) => {
      const [a, b] = [await bench.running(), await bench.running()]
      await bench.store.cancel([b.id], 'ann')
      const reply = await bench.store.heartbeat('worker-1', LEASE_MS)
      assert.ok(reply.alive)
      const asked = new Map(reply.claims.map((claim) => [claim.id, claim.cancelRequested]))
      assert.deepEqual(
        asked,
        new Map([
          [a.id, false],
          [b.id, true],
        ]),
      )
    }),

    test('a worker that is not registered, or was removed, has no lease to extend', async (bench) => {
      assert.deepEqual(await bench.store.heartbeat('nobody', LEASE_MS), { alive: false })
      await bench.register()
      await bench.store.retire('worker-1')
      assert.deepEqual(await bench.store.heartbeat('worker-1', LEASE_MS), { alive: false })
      assert.deepEqual((await bench.store.workers()).workers, [])
    }),

    test('a worker without a lease claims nothing, though what it settles is written', async (bench) => {
      const row = await bench.running()
      const waiting = await bench.insertOne({})
      bench.clock.advance(LEASE_MS + 1)
      const { alive, jobs, settled } = await bench.claim({}, [settling(row, succeeded)])
      assert.deepEqual({ alive, jobs, settled }, { alive: false, jobs: [], settled: ['settled'] })
      await bench.store.retire('worker-1')
      assert.deepEqual([(await bench.claim()).alive, (await bench.row(waiting.id)).attempts], [false, 0])
      await bench.register('worker-2')
      assert.deepEqual(await bench.claimIds({ workerId: 'worker-2' }), [waiting.id])
    }),

    test('claims of a live worker are not lost, however old', async (bench) => {
      await bench.running()
      for (let i = 0; i < 10; i++) {
        bench.clock.advance(LEASE_MS - 1)
        assert.deepEqual(await bench.store.lost(10), [])
        await bench.register()
      }
    }),

    test('claims are lost when the lease has run out, and each is listed once', async (bench) => {
      const rows = [await bench.running(), await bench.running()]
      bench.clock.advance(LEASE_MS - 1)
      assert.deepEqual(await bench.store.lost(10), [])
      bench.clock.advance(2)
      assert.deepEqual(await bench.store.lost(10), rows)
    }),

    test('lost claims are listed of the types asked for, however many of others there are', async (bench) => {
      for (let i = 0; i < 3; i++) await bench.running({ type: 'other' })
      const mine = await bench.running()
      bench.clock.advance(LEASE_MS + 1)
      assert.deepEqual(idsOf(await bench.store.lost(1, ['mail', 'none'])), [mine.id])
      assert.deepEqual(await bench.store.lost(10, []), [])
      assert.equal((await bench.store.lost(10)).length, 4)
    }),

    test('lost claims are listed oldest first, up to the limit', async (bench) => {
      await bench.register('worker-1', 1_000_000)
      const rows: JobRow[] = []
      for (let i = 0; i < 4; i++) {
        await bench.insert({ priority: -i })
        rows.push(...(await bench.claim()).jobs)
        bench.clock.advance(1_000)
      }
      bench.clock.advance(1_000_000)
      assert.deepEqual(idsOf(await bench.store.lost(3)), idsOf(rows.slice(0, 3)))
      assert.deepEqual(idsOf(await bench.store.lost(100)), idsOf(rows))
    }),

    test('only the claims of the worker whose lease ran out are lost', async (bench) => {
      const dead = await bench.running()
      bench.clock.advance(LEASE_MS - 1)
      await bench.running({}, 'worker-2')
      bench.clock.advance(2)
      assert.deepEqual(idsOf(await bench.store.lost(10)), [dead.id])
    }),

    test('jobs that wait or are finished are never lost', async (bench) => {
      for (const status of ['succeeded', 'failed', 'canceled'] as const) await bench.finished(status)
      await bench.settle(await bench.running(), retrying({ delayMs: 5_000 }))
      await bench.insert({})
      bench.clock.advance(LEASE_MS * 10)
      assert.deepEqual(await bench.store.lost(10), [])
    }),

    test('a lost claim that was settled is not listed again', async (bench) => {
      const row = await bench.running()
      bench.clock.advance(LEASE_MS + 1)
      const lost = await bench.store.lost(10)
      assert.deepEqual(await bench.store.settle(lost.map(recovery)), ['settled'])
      assert.deepEqual(await bench.store.lost(10), [])
      const after = await bench.row(row.id)
      assert.deepEqual([after.status, after.attempts, after.history[0]!.by], ['retrying', 1, 'worker-1'])
    }),

    test('a claim by a worker that is not registered is lost', async (bench) => {
      const { id } = await bench.running()
      await bench.store.retire('worker-1')
      const lost = await bench.store.lost(10)
      assert.deepEqual(idsOf(lost), [id])
      assert.deepEqual(await bench.store.settle(lost.map(recovery)), ['settled'])
    }),

    test('retiring removes the worker and leaves the others, and may be repeated', async (bench) => {
      await bench.register('worker-1')
      await bench.register('worker-2')
      await bench.store.retire('worker-1')
      await bench.store.retire('worker-1')
      assert.equal(await leaseOf(bench, 'worker-1'), undefined)
      assert.notEqual(await leaseOf(bench, 'worker-2'), undefined)
    }),

    test(
      'a row that is running with neither worker nor token is lost, and settled by the null token',
      async (bench) => {
        const { id } = await bench.rawInsert({ status: 'running' })
        const lost = await bench.store.lost(10)
        assert.deepEqual(idsOf(lost), [id])
        assert.deepEqual(fence(lost[0]!), { id, token: null })
        assert.equal(await bench.settle(lost[0]!, succeeded, { token: 'made up' }), 'lost')
        assert.deepEqual(await bench.store.settle(lost.map(recovery)), ['settled'])
        assert.equal((await bench.row(id)).status, 'retrying')
        assert.deepEqual(await bench.store.settle(lost.map(recovery)), ['lost'])
      },
      { needs: 'rawInsert' },
    ),

    test('a lease that has run out is not extended, and nothing is written', async (bench) => {
      const row = await bench.running()
      const lease = await leaseOf(bench)
      bench.clock.advance(LEASE_MS + 1)
      assert.deepEqual(await bench.store.heartbeat('worker-1', LEASE_MS), { alive: false })
      assert.equal(await leaseOf(bench), lease)
      assert.deepEqual(idsOf(await bench.store.lost(10)), [row.id])
      assert.deepEqual(await bench.store.heartbeat('worker-1', LEASE_MS), { alive: false })
    }),

    test('a late heartbeat steals nothing back: the claim stays with who took it over', async (bench) => {
      const old = await bench.running()
      bench.clock.advance(LEASE_MS + 1)
      await bench.store.settle((await bench.store.lost(10)).map(recovery))
      await bench.register('worker-2')
      const { jobs } = await bench.claim({ workerId: 'worker-2' })
      const reply = await bench.store.heartbeat('worker-1', LEASE_MS)
      assert.deepEqual(reply.alive ? reply.claims : [], [])
      assert.deepEqual(await bench.row(old.id), jobs[0])
      assert.equal(await bench.settle(old, succeeded), 'lost')
      assert.deepEqual(await bench.store.report([{ ...fence(old), progress: 1 }]), ['lost'])
      assert.deepEqual(await bench.row(old.id), jobs[0])
    }),

    test('recovery that comes after the holder has finished changes nothing', async (bench) => {
      const row = await bench.running()
      bench.clock.advance(LEASE_MS + 1)
      const lost = await bench.store.lost(10)
      assert.equal(await bench.settle(row, succeeded), 'settled')
      const after = await bench.row(row.id)
      assert.deepEqual(await bench.store.settle(lost.map(recovery)), ['lost'])
      assert.deepEqual(await bench.row(row.id), after)
    }),

    test('a holder that finishes after recovery changes nothing', async (bench) => {
      const row = await bench.running()
      bench.clock.advance(LEASE_MS + 1)
      await bench.store.settle((await bench.store.lost(10)).map(recovery))
      const after = await bench.row(row.id)
      assert.equal(await bench.settle(row, succeeded), 'lost')
      assert.equal(await bench.settle(row, canceled()), 'lost')
      assert.deepEqual(await bench.row(row.id), after)
    }),

    test('a claim is recovered once, by whoever comes first', async (bench) => {
      await bench.running()
      bench.clock.advance(LEASE_MS + 1)
      const [mine, theirs] = [await bench.store.lost(10), await bench.store.lost(10)]
      assert.deepEqual(await bench.store.settle(mine.map(recovery)), ['settled'])
      assert.deepEqual(await bench.store.settle(theirs.map(recovery)), ['lost'])
      assert.equal((await bench.row(mine[0]!.id)).history.length, 1)
    }),

    test('a job that was to be canceled when its worker died is canceled, not run again', async (bench) => {
      const row = await bench.running()
      await bench.store.cancel([row.id], 'ann')
      bench.clock.advance(LEASE_MS + 1)
      const lost = await bench.store.lost(10)
      assert.notEqual(lost[0]!.cancelRequestedAt, null)
      await bench.store.settle(lost.map(recovery))
      const after = await bench.row(row.id)
      assert.deepEqual([after.status, after.attempts, after.history.length], ['canceled', 1, 1])
    }),

    test('the row of a dead worker stays while it holds claims and goes when it holds none', async (bench) => {
      await bench.running()
      await bench.register('idle')
      bench.clock.advance(LEASE_MS + 1)
      await bench.register('alive')
      const lost = await bench.store.lost(10)
      assert.equal(await leaseOf(bench, 'idle'), undefined)
      assert.notEqual(await leaseOf(bench, 'worker-1'), undefined)
      await bench.store.settle(lost.map(recovery))
      await bench.store.lost(10)
      assert.equal(await leaseOf(bench, 'worker-1'), undefined)
      assert.notEqual(await leaseOf(bench, 'alive'), undefined)
    }),
  ],
}
