import assert from 'node:assert/strict'
import type { InsertOutcome, JobRow } from '../../store.js'
import type { FinalStatus } from '../../transition.js'
import { failed, retrying, type Bench } from './bench.js'
import { test, type TestGroup } from './suite.js'

/** The id each caller is told: its own, or that of the job that holds the key. */
export function told(outcomes: readonly InsertOutcome[]): string[] {
  return outcomes.map((outcome) =>
    outcome.type === 'inserted' ? outcome.row.id : outcome.type === 'held' ? outcome.holder.id : 'taken',
  )
}

function held(outcome: InsertOutcome | undefined): JobRow {
  return outcome?.type === 'held' ? outcome.holder : assert.fail(`the answer is ${outcome?.type}, not held`)
}

async function insertKeyed(bench: Bench, supersedes: { id: string; status: FinalStatus } | null = null): Promise<InsertOutcome> {
  return (await bench.store.insert([bench.job({ idempotencyKey: 'k', supersedes })]))[0]!
}

export const idempotencyTests: TestGroup = {
  name: 'idempotency',
  tests: [
    test('a key that is held answers with its holder and the time, and inserts nothing', async (bench) => {
      const first = await bench.insertOne({ idempotencyKey: 'k', fingerprint: 'f' })
      bench.clock.advance(1_000)
      const [outcome] = await bench.store.insert([bench.job({ idempotencyKey: 'k' })])
      assert.deepEqual(outcome, { type: 'held', holder: first, now: bench.clock.now() })
      assert.equal(await bench.store.count({}), 1)
    }),

    test('a key is held in every status, also by a job that ran out of retries or is canceled', async (bench) => {
      const row = await bench.running({ idempotencyKey: 'k' })
      assert.equal(held(await insertKeyed(bench)).status, 'running')
      await bench.settle(row, retrying({ delayMs: 0 }))
      assert.equal(held(await insertKeyed(bench)).status, 'retrying')
      const { jobs } = await bench.claim()
      await bench.settle(jobs[0]!, failed())
      assert.equal(held(await insertKeyed(bench)).status, 'failed')
      await bench.store.repair([row.id], null)
      assert.equal(held(await insertKeyed(bench)).status, 'pending')
      await bench.store.cancel([row.id], null)
      assert.equal(held(await insertKeyed(bench)).status, 'canceled')
      assert.equal(await bench.store.count({}), 1)
    }),

    test('a key belongs to its type alone', async (bench) => {
      await bench.insert(
        { type: 'x', idempotencyKey: 'k' },
        { type: 'y', idempotencyKey: 'k' },
        { type: 'X', idempotencyKey: 'k' },
      )
      assert.equal(await bench.store.count({ idempotencyKey: 'k' }), 3)
    }),

    test('a key is the same in every queue', async (bench) => {
      const first = await bench.insertOne({ queue: 'a', idempotencyKey: 'k' })
      const outcomes = await bench.store.insert([bench.job({ queue: 'b', idempotencyKey: 'k' })])
      assert.deepEqual(told(outcomes), [first.id])
    }),

    test('keys that differ only in case, in trailing space or in composition are different', async (bench) => {
      const keys = ['K', 'k', 'M', 'M ', ' M', 'é', 'e\u0301', 'a:b', 'a', '', ' ', '0', '00', 'ß', 'ss']
      await bench.insert(...keys.map((idempotencyKey) => ({ idempotencyKey })))
      assert.equal(await bench.store.count({}), keys.length)
      for (const idempotencyKey of keys)
        assert.equal(await bench.store.count({ idempotencyKey }), 1, JSON.stringify(idempotencyKey))
    }),

    test('jobs without a key never meet', async (bench) => {
      await bench.insert({}, {}, {})
      assert.equal(await bench.store.count({}), 3)
    }),

    test('one key twice in one call makes one row, and the later ones are told its id', async (bench) => {
      const [a, a2, b] = ['a', 'a', 'b'].map((idempotencyKey) => bench.job({ idempotencyKey }))
      assert.deepEqual(told(await bench.store.insert([a!, a2!, b!])), [a!.id, a!.id, b!.id])
      const [b2, c, c2] = ['b', 'c', 'c'].map((idempotencyKey) => bench.job({ idempotencyKey }))
      const outcomes = await bench.store.insert([b2!, c!, c2!])
      assert.deepEqual(
        outcomes.map((outcome) => outcome.type),
        ['held', 'inserted', 'held'],
      )
      assert.deepEqual(told(outcomes), [b!.id, c!.id, c!.id])
      assert.equal(await bench.store.count({}), 3)
    }),

    test('a thousand jobs of ten keys in one call make ten rows', async (bench) => {
      const jobs = Array.from({ length: 1_000 }, (_, i) => bench.job({ idempotencyKey: `key-${i % 10}` }))
      const ids = told(await bench.store.insert(jobs))
      assert.deepEqual(
        ids,
        jobs.map((_, i) => jobs[i % 10]!.id),
      )
      assert.equal(await bench.store.count({}), 10)
    }),

    test('concurrent calls with one key make one row and all are told its id', async (bench) => {
      const calls = Array.from({ length: 50 }, () => insertKeyed(bench))
      const ids = told(await Promise.all(calls))
      assert.equal(new Set(ids).size, 1)
      assert.equal(await bench.store.count({}), 1)
      assert.equal((await bench.row(ids[0]!)).idempotencyKey, 'k')
    }),

    test('a finished job hands its key over, keeps it for the record and points to the new job', async (bench) => {
      const statuses = ['succeeded', 'failed', 'canceled'] as const
      for (const status of statuses) {
        const old = await bench.finished(status, { idempotencyKey: status })
        bench.clock.advance(1_000)
        const next = await bench.insertOne({ idempotencyKey: status, supersedes: { id: old.id, status } })
        assert.deepEqual(await bench.row(old.id), {
          ...old,
          supersededBy: next.id,
          updatedAt: bench.clock.now(),
          rev: old.rev + 1,
        })
        assert.equal(next.supersededBy, null)
        const [again] = await bench.store.insert([bench.job({ idempotencyKey: status })])
        assert.equal(held(again).id, next.id)
        await bench.store.cancel([next.id], null)
      }
    }),

    test('a key is not taken over when its holder has got another status meanwhile', async (bench) => {
      const old = await bench.finished('failed', { idempotencyKey: 'k' })
      await bench.store.repair([old.id], null)
      const holder = held(await insertKeyed(bench, { id: old.id, status: 'failed' }))
      assert.equal(holder.id, old.id)
      assert.equal(holder.status, 'pending')
      assert.equal((await bench.row(old.id)).supersededBy, null)
      await bench.store.cancel([old.id], null)
      assert.equal(held(await insertKeyed(bench, { id: old.id, status: 'failed' })).status, 'canceled')
    }),

    test('a key that was taken over already is held by the job that took it', async (bench) => {
      const old = await bench.finished('failed', { idempotencyKey: 'k' })
      const winner = told([await insertKeyed(bench, { id: old.id, status: 'failed' })])[0]!
      assert.equal(held(await insertKeyed(bench, { id: old.id, status: 'failed' })).id, winner)
      assert.equal((await bench.row(old.id)).supersededBy, winner)
      assert.equal(await bench.store.count({}), 2)
    }),

    test('of two jobs in one call that take over the same key, the first gets it', async (bench) => {
      const old = await bench.finished('canceled', { idempotencyKey: 'k' })
      const supersedes = { id: old.id, status: 'canceled' } as const
      const jobs = [bench.job({ idempotencyKey: 'k', supersedes }), bench.job({ idempotencyKey: 'k', supersedes })]
      assert.deepEqual(told(await bench.store.insert(jobs)), [jobs[0]!.id, jobs[0]!.id])
      assert.equal((await bench.row(old.id)).supersededBy, jobs[0]!.id)
    }),

    test('a job whose id is taken takes no key over', async (bench) => {
      const old = await bench.finished('failed', { idempotencyKey: 'k' })
      const other = await bench.insertOne()
      const job = bench.job({ id: other.id, idempotencyKey: 'k', supersedes: { id: old.id, status: 'failed' } })
      assert.deepEqual(
        (await bench.store.insert([job])).map((outcome) => outcome.type),
        ['id_taken'],
      )
      assert.deepEqual(await bench.row(old.id), old)
    }),

    test('a job that asks with the id and the key of the holder meets it, like any other that asks with the key', async (bench) => {
      const row = await bench.running({ idempotencyKey: 'k' })
      const again = bench.job({ id: row.id, idempotencyKey: 'k' })
      assert.equal(held((await bench.store.insert([again]))[0]).id, row.id)
      await bench.settle(row, failed())
      assert.equal(held((await bench.store.insert([{ ...again, supersedes: { id: row.id, status: 'canceled' } }]))[0]).id, row.id)
      const before = await bench.row(row.id)
      const outcomes = await bench.store.insert([
        { ...again, supersedes: { id: row.id, status: 'failed' } },
        { ...again, idempotencyKey: 'other' },
        { ...again, type: 'other' },
      ])
      assert.deepEqual(
        outcomes.map((outcome) => outcome.type),
        ['id_taken', 'id_taken', 'id_taken'],
      )
      assert.deepEqual(await bench.row(row.id), before)
      assert.equal(await bench.store.count({}), 1)
    }),

    test('naming a job of another key takes nothing from it', async (bench) => {
      const other = await bench.finished('failed', { idempotencyKey: 'other' })
      const holder = await bench.insertOne({ idempotencyKey: 'k' })
      assert.equal(held(await insertKeyed(bench, { id: other.id, status: 'failed' })).id, holder.id)
      assert.deepEqual(await bench.row(other.id), other)
    }),

    test('a key whose holder was pruned is free, whether or not a takeover was asked for', async (bench) => {
      const old = await bench.finished('failed', { idempotencyKey: 'k' })
      bench.clock.advance(1)
      await bench.store.prune({ succeededMs: 0, failedMs: 0, canceledMs: 0 }, 10)
      assert.equal((await insertKeyed(bench, { id: old.id, status: 'failed' })).type, 'inserted')
    }),
  ],
}
