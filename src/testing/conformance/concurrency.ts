import assert from 'node:assert/strict'
import type { JobRow, Store } from '../../store.js'
import { LEASE_MS, failed, idsOf, retrying, settling, succeeded, type Bench } from './bench.js'
import { told } from './idempotency.js'
import { test, type TestGroup } from './suite.js'

async function handles(bench: Bench, count: number): Promise<Store[]> {
  const stores = [bench.store]
  while (stores.length < count) stores.push(await bench.another())
  return stores
}

/** Claims and settles until there is nothing left, and answers with all it claimed. */
async function drain(bench: Bench, store: Store, workerId: string, limit: number): Promise<JobRow[]> {
  await store.register(bench.worker(workerId), LEASE_MS)
  const all: JobRow[] = []
  for (let last: JobRow[] = []; ;) {
    const request = { workerId, token: bench.token(), queues: ['default'], types: ['mail'], limit }
    const { jobs, settled } = await store.claim(
      request,
      last.map((job) => settling(job, succeeded)),
    )
    assert.ok(
      settled.every((outcome) => outcome === 'settled'),
      'a live claim was lost',
    )
    if (jobs.length === 0) return all
    all.push(...jobs)
    last = jobs
  }
}

export const concurrencyTests: TestGroup = {
  name: 'concurrency',
  tests: [
    test('calls in flight at the same time on one handle give each job to one of them', async (bench) => {
      await bench.insert(...Array.from({ length: 100 }, () => ({})))
      await bench.register()
      const claims = await Promise.all(Array.from({ length: 30 }, () => bench.claimIds({ limit: 5 })))
      const ids = claims.flat()
      assert.equal(ids.length, 100)
      assert.equal(new Set(ids).size, 100)
    }),

    test('writes of every kind in flight at the same time on one handle are all served', async (bench) => {
      const rows = await bench.insert(...Array.from({ length: 40 }, () => ({})))
      await bench.register()
      const { jobs } = await bench.claim({ limit: 10 })
      const answers = await Promise.all([
        bench.store.insert([bench.job()]),
        bench.store.settle(jobs.map((job) => settling(job, succeeded))),
        bench.claim({ limit: 10 }),
        bench.store.cancel(idsOf(rows.slice(30)), 'ann'),
        bench.store.heartbeat('worker-1', LEASE_MS),
        bench.store.list({}, { limit: 10 }),
      ])
      assert.deepEqual(new Set(answers[1]), new Set(['settled']))
      assert.equal(await bench.store.count({}), 41)
      assert.equal(await bench.store.count({ status: ['succeeded'] }), 10)
      assert.equal(await bench.store.count({ status: ['canceled'] }), 10)
    }),

    test(
      'several handles claiming at once never hold one job twice',
      async (bench) => {
        const rows = await bench.insert(...Array.from({ length: 300 }, () => ({})))
        const stores = await handles(bench, 4)
        const drained = await Promise.all(stores.map((store, i) => drain(bench, store, `worker-${i}`, 7)))
        assert.deepEqual(idsOf(drained.flat()).sort(), idsOf(rows))
        const after = await bench.store.get(idsOf(rows))
        assert.ok(after.every((row) => row!.status === 'succeeded' && row!.attempts === 1))
      },
      { needs: 'another' },
    ),

    test(
      'several handles inserting the same keys make one row each and tell every caller its id',
      async (bench) => {
        const stores = await handles(bench, 4)
        const answers = await Promise.all(
          stores.flatMap((store) =>
            Array.from({ length: 10 }, async () => {
              const jobs = Array.from({ length: 10 }, (_, key) => bench.job({ idempotencyKey: `key-${key}` }))
              return told(await store.insert(jobs))
            }),
          ),
        )
        assert.equal(await bench.store.count({}), 10)
        for (let key = 0; key < 10; key++) {
          const ids = new Set(answers.map((ids) => ids[key]!))
          assert.equal(ids.size, 1)
          assert.equal((await bench.row([...ids][0]!)).idempotencyKey, `key-${key}`)
        }
      },
      { needs: 'another' },
    ),

    test(
      'several handles taking one key over make one successor',
      async (bench) => {
        const old = await bench.finished('failed', { idempotencyKey: 'k' })
        const stores = await handles(bench, 4)
        const supersedes = { id: old.id, status: 'failed' } as const
        const answers = await Promise.all(stores.map((store) => store.insert([bench.job({ idempotencyKey: 'k', supersedes })])))
        assert.equal(answers.flat().filter(({ type }) => type === 'inserted').length, 1)
        assert.deepEqual(new Set(told(answers.flat())), new Set([(await bench.row(old.id)).supersededBy]))
        assert.equal(await bench.store.count({}), 2)
      },
      { needs: 'another' },
    ),

    test(
      'what one handle wrote, another reads at once',
      async (bench) => {
        const [, other] = await handles(bench, 2)
        const row = await bench.running()
        assert.deepEqual(await other!.get([row.id]), [row])
        assert.deepEqual(await other!.settle([settling(row, succeeded)]), ['settled'])
        assert.equal((await bench.row(row.id)).status, 'succeeded')
        assert.equal(await bench.settle(row, failed()), 'lost')
      },
      { needs: 'another' },
    ),

    test(
      'several handles recovering one lost claim recover it once',
      async (bench) => {
        const row = await bench.running()
        const stores = await handles(bench, 4)
        bench.clock.advance(LEASE_MS + 1)
        const outcomes = await Promise.all(
          stores.map(async (store) =>
            store.settle((await store.lost(10)).map((job) => settling(job, retrying({ delayMs: 60_000 })))),
          ),
        )
        assert.equal(outcomes.flat().filter((outcome) => outcome === 'settled').length, 1)
        assert.equal((await bench.row(row.id)).history.length, 1)
      },
      { needs: 'another' },
    ),

    test(
      'finishing against recovery has one winner',
      async (bench) => {
        const other = await bench.another()
        for (let i = 0; i < 20; i++) {
          const row = await bench.running({}, `worker-${i}`)
          bench.clock.advance(LEASE_MS + 1)
          const [[finished], [recovered]] = await Promise.all([
            bench.store.settle([settling(row, succeeded)]),
            other.settle([settling(row, failed())]),
          ])
          assert.deepEqual(new Set([finished, recovered]), new Set(['lost', 'settled']))
          assert.equal((await bench.row(row.id)).status, finished === 'settled' ? 'succeeded' : 'failed')
        }
      },
      { needs: 'another' },
    ),

    test(
      'canceling against claiming leaves each job canceled or running and asked to stop',
      async (bench) => {
        const other = await bench.another()
        const rows = await bench.insert(...Array.from({ length: 50 }, () => ({})))
        await bench.register()
        const [claimed] = await Promise.all([bench.claimIds({ limit: 25 }), other.cancel(idsOf(rows), 'ann')])
        for (const row of await bench.store.get(idsOf(rows))) {
          if (claimed.includes(row!.id)) assert.deepEqual([row!.status, row!.cancelRequestedAt !== null], ['running', true])
          else assert.deepEqual([row!.status, row!.claimToken], ['canceled', null])
        }
      },
      { needs: 'another' },
    ),

    test(
      'several handles repairing one job repair it once',
      async (bench) => {
        const { id } = await bench.finished('failed')
        const stores = await handles(bench, 4)
        const answers = await Promise.all(stores.map((store) => store.repair([id], 'ann')))
        assert.equal(answers.flat().filter((answer) => answer!.changed).length, 1)
        assert.equal((await bench.row(id)).history.length, 2)
      },
      { needs: 'another' },
    ),

    test(
      'several handles pruning at once delete and name each job once',
      async (bench) => {
        const rows = await bench.insert(...Array.from({ length: 200 }, () => ({})))
        await bench.store.cancel(idsOf(rows), null)
        bench.clock.advance(1)
        const stores = await handles(bench, 3)
        const gone = await Promise.all(
          stores.map(async (store) => {
            const ids: string[] = []
            for (let batch = 10; batch > 0;) {
              const deleted = await store.prune({ succeededMs: 0, failedMs: 0, canceledMs: 0 }, 10)
              ids.push(...idsOf(deleted))
              batch = deleted.length
            }
            return ids
          }),
        )
        assert.deepEqual(gone.flat().sort(), idsOf(rows))
        assert.equal(await bench.store.count({}), 0)
      },
      { needs: 'another' },
    ),
  ],
}
