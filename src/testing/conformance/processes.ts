import assert from 'node:assert/strict'
import { settling, succeeded, type Bench } from './bench.js'
import type { Child } from './process.js'
import { test, type TestGroup } from './suite.js'

const TIMEOUT_MS = 180_000
const OPTIONS = { needs: 'processes', timeoutMs: TIMEOUT_MS } as const

async function processes(bench: Bench, count: number): Promise<Child[]> {
  return Promise.all(Array.from({ length: count }, () => bench.process()))
}

/** Migrated processes, all at the start line. */
async function migrated(bench: Bench, count: number): Promise<Child[]> {
  const children = await processes(bench, count)
  await Promise.all(children.map((child) => child.order({ do: 'migrate' })))
  return children
}

export const processTests: TestGroup = {
  name: 'processes',
  tests: [
    test(
      '8 processes that migrate an empty database at once all start, and make the tables once',
      async (bench) => {
        const children = await processes(bench, 8)
        const answers = await Promise.all(children.map((child) => child.order({ do: 'migrate' })))
        assert.equal(new Set(answers.map(({ to }) => to)).size, 1)
        assert.equal(answers.filter(({ from, to }) => from !== to).length, 1)
        await bench.store.migrate()
        await bench.insert({})
      },
      { ...OPTIONS, unmigrated: true },
    ),

    test(
      '8 processes that insert 1,000 jobs each of the same 100 keys make 100 rows and are told the right ids',
      async (bench) => {
        const children = await migrated(bench, 8)
        const answers = await Promise.all(
          children.map((child, i) => child.order({ do: 'insert', prefix: `p${i}`, calls: 100, perCall: 10, keys: 100 })),
        )
        const rows = await bench.store.list({}, { limit: 1_000 })
        assert.equal(rows.length, 100)
        const holders = new Map(rows.map((row) => [row.idempotencyKey, row.id]))
        const told = answers.flat()
        assert.equal(told.length, 8_000)
        for (const { key, id } of told) assert.equal(id, holders.get(`key-${key}`))
        assert.equal(told.filter(({ type }) => type === 'inserted').length, 100)
        assert.equal(told.filter(({ type }) => type === 'held').length, 7_900)
      },
      OPTIONS,
    ),

    test(
      '4 processes that claim at once run each of 2,000 jobs exactly once',
      async (bench) => {
        const children = await migrated(bench, 4)
        await children[0]!.order({ do: 'insert', prefix: 'p', calls: 4, perCall: 500, keys: 2_000 })
        const claimed = await Promise.all(
          children.map((child, i) => child.order({ do: 'drain', workerId: `worker-${i}`, limit: 10 })),
        )
        const ids = claimed.flat()
        assert.equal(ids.length, 2_000)
        assert.equal(new Set(ids).size, 2_000)
        const rows = await bench.store.list({}, { limit: 2_000 })
        assert.ok(rows.every((row) => row.status === 'succeeded' && row.attempts === 1 && row.claimToken === null))
      },
      OPTIONS,
    ),

    test(
      'what was acknowledged before a process was killed is there, and nothing stays locked',
      async (bench) => {
        const [child] = await migrated(bench, 1)
        const cut = child!.order({ do: 'insert', prefix: 'p', calls: 100_000, perCall: 2, keys: 1_000_000 })
        const ended = assert.rejects(cut)
        while (child!.acknowledged.length < 100) await child!.next('acknowledged')
        await child!.kill()
        await ended
        const rows = await bench.store.get(child!.acknowledged)
        assert.ok(rows.every((row) => row?.status === 'pending'))
        // Each call is one commit: the last one is there wholly or not at all.
        assert.equal((await bench.store.count({})) % 2, 0)
        await bench.insert({})
      },
      OPTIONS,
    ),

    test(
      'the claims of a killed process are lost when its lease has run out, and can be settled',
      async (bench) => {
        const [child] = await migrated(bench, 1)
        await child!.order({ do: 'insert', prefix: 'p', calls: 1, perCall: 5, keys: 5 })
        const ids = await child!.order({ do: 'claim', workerId: 'worker-1', limit: 3, leaseMs: 60_000 })
        await child!.kill()
        const [worker] = (await bench.store.workers()).workers
        // The child's lease counts from the real time, this test's clock may stand elsewhere.
        bench.clock.advance(Math.max(0, worker!.leaseUntil - 1 - bench.clock.now()))
        if (bench.clock.now() < worker!.leaseUntil) assert.deepEqual(await bench.store.lost(10), [])
        bench.clock.advance(2)
        const lost = await bench.store.lost(10)
        assert.deepEqual(lost.map(({ id }) => id).sort(), ids.sort())
        assert.deepEqual(new Set(await bench.store.settle(lost.map((row) => settling(row, succeeded)))), new Set(['settled']))
      },
      OPTIONS,
    ),
  ],
}
