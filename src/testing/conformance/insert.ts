import assert from 'node:assert/strict'
import { encodeJson } from '../../json.js'
import { assertReleased, fence, idsOf, sameJson, settling, type Bench } from './bench.js'
import { test, type TestGroup } from './suite.js'

/** Text that has been damaged by other queues: joined emoji, U+2028, a byte order mark, combining marks, controls. */
const HARD_TEXT = '👨‍👩‍👧‍👦 😀 \u2028 \ufeff e\u0301 é 中文 עברית \t \u0001 \\ " \' % _ $1 ${x} \u{10ffff}'

async function payloadSurvives(bench: Bench, value: unknown): Promise<void> {
  const payload = encodeJson(value, 'the payload', 'payload_invalid')
  const inserted = await bench.insertOne({ payload })
  sameJson(inserted.payload, payload)
  sameJson((await bench.row(inserted.id)).payload, payload)
  await bench.register()
  const { jobs } = await bench.claim()
  sameJson(jobs[0]!.payload, payload)
}

export const insertTests: TestGroup = {
  name: 'insert',
  tests: [
    test('a new job is pending, due now, and has no trace of a run', async (bench) => {
      const now = bench.clock.now()
      const row = await bench.insertOne({ payload: '{}' })
      assert.deepEqual(row, {
        id: row.id,
        type: 'mail',
        queue: 'default',
        status: 'pending',
        payload: '{}',
        priority: 0,
        attempts: 0,
        maxAttempts: null,
        waits: 0,
        runAfter: now,
        lockedAt: null,
        lockedBy: null,
        claimToken: null,
        cancelRequestedAt: null,
        idempotencyKey: null,
        fingerprint: null,
        supersededBy: null,
        stage: null,
        progress: null,
        result: null,
        history: [],
        lastError: null,
        userMessage: null,
        traceContext: null,
        createdAt: now,
        updatedAt: now,
        finishedAt: null,
        rev: 0,
        held: false,
      })
      assert.deepEqual(await bench.row(row.id), row)
    }),

    test('every column of a new job is kept as given', async (bench) => {
      const columns = {
        type: 'export',
        queue: 'slow',
        priority: -7,
        maxAttempts: 3,
        idempotencyKey: 'k',
        fingerprint: 'f',
        traceContext: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
      }
      const { id } = await bench.insertOne(columns)
      const row = await bench.row(id)
      for (const [column, value] of Object.entries(columns)) assert.equal(row[column as keyof typeof columns], value, column)
    }),

    test('a delay counts from the time of the database', async (bench) => {
      bench.clock.advance(5_000)
      const { runAfter } = await bench.insertOne({ runAfter: { delayMs: 90_000 } })
      assert.equal(runAfter, bench.clock.now() + 90_000)
    }),

    test('a moment is kept to the millisecond, past or future', async (bench) => {
      for (const at of [bench.clock.now() - 86_400_001, bench.clock.now() + 86_400_001, 4_102_444_800_123]) {
        assert.equal((await bench.insertOne({ runAfter: { at } })).runAfter, at)
      }
    }),

    test(
      'a row inserted with only id, type, payload and status waits like any other and is claimed',
      async (bench) => {
        const row = await bench.rawInsert({ payload: '{"to":"ann"}' })
        assert.equal(row.queue, 'default')
        assert.equal(row.status, 'pending')
        assert.equal(row.attempts, 0)
        assert.equal(row.maxAttempts, null)
        assert.deepEqual(row.history, [])
        assertReleased(row)
        sameJson(row.payload, '{"to":"ann"}')
        // The columns' defaults may use the real time while the store uses the test's.
        bench.clock.advance(Math.max(0, row.runAfter - bench.clock.now()))
        await bench.register()
        const { jobs } = await bench.claim()
        assert.deepEqual(idsOf(jobs), [row.id])
        assert.deepEqual(await bench.store.settle([settling(jobs[0]!, { status: 'succeeded', result: null })]), ['settled'])
      },
      { needs: 'rawInsert' },
    ),

    test(
      'a row inserted by hand counts as created now',
      async (bench) => {
        const before = Math.min(Date.now(), bench.clock.now())
        const { createdAt, updatedAt, runAfter } = await bench.rawInsert()
        const after = Math.max(Date.now(), bench.clock.now())
        for (const time of [createdAt, updatedAt, runAfter]) {
          assert.ok(Number.isInteger(time) && time >= before - 1_000 && time <= after + 1_000, `${time} is not now`)
        }
      },
      { needs: 'rawInsert' },
    ),

    test('a taken id inserts nothing and leaves the row that has it', async (bench) => {
      const row = await bench.insertOne()
      const outcomes = await bench.store.insert([bench.job({ id: row.id, type: 'other' }), bench.job()])
      assert.deepEqual(
        outcomes.map((outcome) => outcome.type),
        ['id_taken', 'inserted'],
      )
      assert.deepEqual(await bench.row(row.id), row)
    }),

    test('an id given twice in one call is taken the second time', async (bench) => {
      const id = bench.id()
      const outcomes = await bench.store.insert([bench.job({ id }), bench.job({ id, type: 'other' })])
      assert.deepEqual(
        outcomes.map((outcome) => outcome.type),
        ['inserted', 'id_taken'],
      )
      assert.equal((await bench.row(id)).type, 'mail')
    }),

    test('answers come in the order of the jobs', async (bench) => {
      const jobs = Array.from({ length: 50 }, () => bench.job()).reverse()
      const outcomes = await bench.store.insert(jobs)
      assert.deepEqual(
        outcomes.map((outcome) => outcome.type === 'inserted' && outcome.row.id),
        idsOf(jobs),
      )
    }),

    test('5,000 jobs go in by one call', async (bench) => {
      const jobs = Array.from({ length: 5_000 }, (_, i) => bench.job({ idempotencyKey: i % 5 === 0 ? `key-${i}` : null }))
      const outcomes = await bench.store.insert(jobs)
      assert.equal(outcomes.filter((outcome) => outcome.type === 'inserted').length, 5_000)
      assert.equal(await bench.store.count({}), 5_000)
      const rows = await bench.store.get(idsOf(jobs))
      assert.deepEqual(
        rows.map((row) => row?.id),
        idsOf(jobs),
      )
    }),

    test('a call that cannot insert one of its jobs inserts none, and the store goes on', async (bench) => {
      await assert.rejects(bench.store.insert([bench.job(), bench.job({ payload: 'no JSON' })]))
      assert.equal(await bench.store.count({}), 0)
      await bench.insert({})
      assert.equal(await bench.store.count({}), 1)
    }),

    test('an empty call of any kind is answered with an empty list', async (bench) => {
      const { store } = bench
      assert.deepEqual(await store.insert([]), [])
      assert.deepEqual(await store.get([]), [])
      assert.deepEqual(await store.settle([]), [])
      assert.deepEqual(await store.report([]), [])
      assert.deepEqual(await store.cancel([], null), [])
      assert.deepEqual(await store.repair([], null), [])
    }),

    test('text in a payload comes back code point by code point', async (bench) => {
      await payloadSurvives(bench, { text: HARD_TEXT, [HARD_TEXT]: [HARD_TEXT] })
    }),

    test('numbers in a payload keep their value', async (bench) => {
      await payloadSurvives(bench, [1e21, 1e-7, -0, 0.1, 0.1 + 0.2, 2 ** 53 - 1, -(2 ** 53), 1.7976931348623157e308, 5e-324])
    }),

    test('members named like parts of an object are data', async (bench) => {
      await payloadSurvives(bench, JSON.parse('{"__proto__":{"admin":true},"constructor":1,"toString":null,"":{"a.b":"$[0]"}}'))
    }),

    test('a payload of any JSON kind is kept', async (bench) => {
      for (const value of [null, true, 0, '', 'text', [], {}, [[[]]]]) {
        const payload = JSON.stringify(value)
        const { id } = await bench.insertOne({ payload })
        sameJson((await bench.row(id)).payload, payload)
      }
    }),

    test('a payload of 1 MiB is kept', async (bench) => {
      await payloadSurvives(bench, 'x'.repeat(1_048_576 - 2))
      await bench.settle((await bench.store.list({}, { limit: 1 }))[0]!, { status: 'succeeded', result: null })
      await payloadSurvives(bench, '😀'.repeat(262_143))
    }),

    test('a payload nested 200 levels deep is kept', async (bench) => {
      await payloadSurvives(bench, JSON.parse('['.repeat(200) + ']'.repeat(200)))
    }),

    test('text in every other column comes back code point by code point', async (bench) => {
      const row = await bench.running({ idempotencyKey: HARD_TEXT, fingerprint: HARD_TEXT })
      const event = { kind: 'log', attempt: 1, message: HARD_TEXT, data: JSON.stringify({ text: HARD_TEXT }) } as const
      await bench.store.report([{ ...fence(row), stage: HARD_TEXT, events: [event] }])
      const entry = { attempt: 1, kind: 'permanent', code: 'c', message: HARD_TEXT, stack: HARD_TEXT.repeat(500) } as const
      await bench.settle(row, { status: 'failed', entry, userMessage: HARD_TEXT })
      const after = await bench.row(row.id)
      const { idempotencyKey, fingerprint, stage, lastError, userMessage } = after
      for (const text of [idempotencyKey, fingerprint, stage, lastError, userMessage]) assert.equal(text, HARD_TEXT)
      assert.equal(after.history[0]!.message, HARD_TEXT)
      assert.equal(after.history[0]!.stack, entry.stack)
      const [noted] = await bench.store.events(row.id)
      assert.equal(noted!.message, HARD_TEXT)
      sameJson(noted!.data, event.data)
    }),

    test('types and queues are told apart by case and by trailing space', async (bench) => {
      await bench.insert(
        { type: 'mail', queue: 'q' },
        { type: 'Mail', queue: 'q' },
        { type: 'mail ', queue: 'q' },
        { type: 'mail', queue: 'Q' },
      )
      await bench.register()
      assert.equal((await bench.claim({ types: ['mail'], queues: ['q'] })).jobs.length, 1)
      assert.equal(await bench.store.count({ type: ['mail '] }), 1)
      assert.equal(await bench.store.count({ queue: ['Q'] }), 1)
    }),
  ],
}
