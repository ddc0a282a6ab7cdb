import assert from 'node:assert/strict'
import { BY_PERSON, type FailedJob, type NewStep, type StepRow } from '../../effects/record.js'
import type { JobRow } from '../../store.js'
import { canceled, failed, fence, idsOf, retrying, succeeded, type Bench } from './bench.js'
import { test, type TestGroup } from './suite.js'

function step(parts: Partial<NewStep> = {}): NewStep {
  return {
    name: 'make',
    kind: 'step',
    state: 'done',
    attempt: 1,
    request: null,
    key: null,
    value: '{"b":1,"a":[2.50,"ü🙂"]}',
    ...parts,
  }
}

function effect(parts: Partial<NewStep> = {}): NewStep {
  return step({ name: 'charge', kind: 'effect', state: 'started', request: '{"b":1,"a":2}', key: 'k-1', value: null, ...parts })
}

async function recorded(bench: Bench, row: JobRow, ...steps: NewStep[]): Promise<void> {
  for (const each of steps) assert.equal(await bench.store.recordStep(fence(row), each), 'recorded')
}

/** A failed job with an effect in doubt. */
async function held(bench: Bench): Promise<JobRow> {
  const row = await bench.running()
  await recorded(bench, row, effect())
  await bench.settle(row, failed())
  return bench.row(row.id)
}

export const stepTests: TestGroup = {
  name: 'steps',
  tests: [
    test('a recorded step comes back to the letter, in the order in which they began', async (bench) => {
      const row = await bench.running()
      await recorded(bench, row, step({ name: 'z' }), effect())
      const began = bench.clock.now()
      bench.clock.advance(1_000)
      await recorded(
        bench,
        row,
        step({ name: 'a', kind: 'checkpoint', value: null }),
        effect({ state: 'done', attempt: 2, value: '7' }),
      )
      const ended = bench.clock.now()
      const expected: StepRow[] = [
        { ...step({ name: 'z' }), jobId: row.id, startedAt: began, endedAt: began },
        { ...effect({ state: 'done', attempt: 2, value: '7' }), jobId: row.id, startedAt: began, endedAt: ended },
        { ...step({ name: 'a', kind: 'checkpoint', value: null }), jobId: row.id, startedAt: ended, endedAt: ended },
      ]
      assert.deepEqual(await bench.store.steps(row.id), expected)
      assert.deepEqual(await bench.store.steps('nobody'), [])
    }),

    test('names are those of one job, and of any characters', async (bench) => {
      const [one, other] = [await bench.running(), await bench.running()]
      const name = "it's ü🙂 \\ % _ $1 ?"
      await recorded(bench, one, step({ name, value: '1' }))
      await recorded(bench, other, step({ name, value: '2' }))
      const values = [...(await bench.store.steps(one.id)), ...(await bench.store.steps(other.id))]
      assert.deepEqual(
        values.map((each) => [each.name, each.value]),
        [
          [name, '1'],
          [name, '2'],
        ],
      )
    }),

    test('an effect that was refused begins anew with another request', async (bench) => {
      const row = await bench.running()
      await recorded(bench, row, effect(), effect({ state: 'refused' }), effect({ request: '{"other":1}', attempt: 2 }))
      const [now] = await bench.store.steps(row.id)
      assert.deepEqual([now!.state, now!.request, now!.attempt, now!.endedAt], ['started', '{"other":1}', 2, null])
    }),

    test('what is done is never changed, nor a name of another kind', async (bench) => {
      const row = await bench.running()
      await recorded(bench, row, step(), effect())
      for (const wrong of [step({ value: '2' }), step({ kind: 'effect' }), step({ name: 'charge' })])
        assert.equal(await bench.store.recordStep(fence(row), wrong), 'taken')
      const rows = await bench.store.steps(row.id)
      assert.deepEqual(
        rows.map(({ kind, state, value }) => [kind, state, value]),
        [
          ['step', 'done', step().value],
          ['effect', 'started', null],
        ],
      )
    }),

    test('whoever does not hold the claim records nothing', async (bench) => {
      const row = await bench.running()
      for (const token of ['another', null]) assert.equal(await bench.store.recordStep({ id: row.id, token }, step()), 'lost')
      await bench.settle(row, retrying())
      assert.equal(await bench.store.recordStep(fence(row), step()), 'lost')
      await bench.claim({ token: 'next' })
      assert.equal(await bench.store.recordStep(fence(row), step()), 'lost')
      assert.deepEqual(await bench.store.steps(row.id), [])
    }),

    test('steps outlive a repair, and go with their job', async (bench) => {
      const row = await bench.running()
      await recorded(bench, row, step())
      await bench.settle(row, failed())
      await bench.store.repair([row.id], null)
      assert.equal((await bench.store.steps(row.id)).length, 1)
      const [again] = (await bench.claim({ token: 'again' })).jobs
      await bench.settle(again!, succeeded)
      const other = await bench.running()
      await recorded(bench, other, step())
      bench.clock.advance(1)
      await bench.store.prune({ succeededMs: 0, failedMs: 0, canceledMs: 0 }, 10)
      assert.deepEqual(await bench.store.steps(row.id), [])
      assert.equal((await bench.store.steps(other.id)).length, 1)
    }),

    test('a job that takes the place of a failed or canceled one inherits its effects, and nothing else', async (bench) => {
      for (const settlement of [failed(), canceled()]) {
        const key = settlement.status
        const row = await bench.running({ idempotencyKey: key })
        await recorded(bench, row, effect({ name: 'z' }), step(), effect({ name: 'a' }), effect({ name: 'no' }))
        await recorded(
          bench,
          row,
          effect({ name: 'a', state: 'done', value: '[1.50]' }),
          effect({ name: 'no', state: 'refused', key: 'the next one' }),
        )
        await recorded(bench, row, step({ name: 'rows', kind: 'checkpoint' }))
        await bench.settle(row, settlement)
        const before = await bench.store.steps(row.id)
        bench.clock.advance(1_000)
        const heir = await bench.insertOne({ idempotencyKey: key, supersedes: { id: row.id, status: key } })
        assert.deepEqual(
          await bench.store.steps(heir.id),
          before.filter(({ kind }) => kind === 'effect').map((each) => ({ ...each, jobId: heir.id })),
        )
        assert.deepEqual(await bench.store.steps(row.id), before)
        // And on to the next one.
        await bench.store.cancel([heir.id], null)
        const next = await bench.insertOne({ idempotencyKey: key, supersedes: { id: heir.id, status: 'canceled' } })
        assert.equal((await bench.store.steps(next.id)).length, 3)
      }
    }),

    test('a job that takes the place of a succeeded one inherits nothing, nor does one that comes too late', async (bench) => {
      const row = await bench.running({ idempotencyKey: 'k' })
      await recorded(bench, row, effect({ state: 'done', value: '1' }))
      await bench.settle(row, succeeded)
      const heir = await bench.insertOne({ idempotencyKey: 'k', supersedes: { id: row.id, status: 'succeeded' } })
      const failing = await bench.running({ idempotencyKey: 'other' })
      await recorded(bench, failing, effect())
      await bench.settle(failing, failed())
      const late = bench.job({ idempotencyKey: 'other', supersedes: { id: failing.id, status: 'canceled' } })
      assert.equal((await bench.store.insert([late]))[0]!.type, 'held')
      assert.deepEqual([await bench.store.steps(heir.id), await bench.store.steps(late.id)], [[], []])
    }),

    test('a person resolves an effect of a failed job, and the timeline says who', async (bench) => {
      const row = await held(bench)
      bench.clock.advance(1_000)
      assert.equal(await bench.store.resolveStep(row, { name: 'charge', state: 'done', value: '{"ok":1}' }, 'ann'), true)
      const [now] = await bench.store.steps(row.id)
      assert.deepEqual(now, {
        ...effect({ state: 'done', value: '{"ok":1}', attempt: BY_PERSON }),
        jobId: row.id,
        startedAt: now!.startedAt,
        endedAt: bench.clock.now(),
      })
      const events = await bench.store.events(row.id)
      assert.deepEqual(
        events.map(({ kind, at, attempt }) => [kind, at, attempt]),
        [['resolved', bench.clock.now(), 1]],
      )
      assert.ok(events[0]!.data?.includes('ann'), 'the timeline does not say who')
      assert.deepEqual(await bench.row(row.id), { ...row, held: false })
    }),

    test('a job is held while it has failed and an effect of it is in doubt, whatever its errors say, and is found by that', async (bench) => {
      const found = async (isHeld: boolean): Promise<string[]> => {
        const rows = await bench.store.list({ held: isHeld }, { limit: 10 })
        assert.equal(await bench.store.count({ held: isHeld }), rows.length)
        assert.ok(rows.every((each) => each.held === isHeld))
        return idsOf(rows)
      }
      const row = await bench.running({ idempotencyKey: 'k' })
      await recorded(bench, row, effect(), effect({ name: 'mail' }), step())
      assert.deepEqual([await found(true), await found(false)], [[], [row.id]], 'it runs')
      await bench.settle(row, failed({ code: 'timeout' }))
      const other = await bench.running()
      await recorded(bench, other, effect({ state: 'done', value: '1' }))
      await bench.settle(other, failed({ code: 'effect_unknown' }))
      assert.deepEqual([await found(true), await found(false)], [[row.id], [other.id]])
      assert.deepEqual(idsOf(await bench.store.list({ held: true, type: ['other'] }, { limit: 10 })), [])
      assert.deepEqual(idsOf(await bench.store.list({ held: true, ids: [row.id, other.id] }, { limit: 10 })), [row.id])
      assert.deepEqual(idsOf(await bench.store.list({ held: true, idempotencyKey: 'k' }, { limit: 10 })), [row.id])
      assert.equal((await bench.row(row.id)).held, true)
      await bench.store.resolveStep(await bench.row(row.id), { name: 'charge', state: 'done', value: '1' }, null)
      assert.deepEqual(await found(true), [row.id], 'one of two is in doubt')
      const heir = await bench.insertOne({ idempotencyKey: 'k', supersedes: { id: row.id, status: 'failed' } })
      assert.deepEqual(await found(true), [], 'it goes on in another')
      await bench.settle((await bench.claim()).jobs[0]!, failed())
      assert.deepEqual(await found(true), [heir.id])
      await bench.store.resolveStep(await bench.row(heir.id), { name: 'mail', state: 'refused', value: null }, null)
      assert.deepEqual(await found(true), [])
    }),

    test('nothing but a started effect of a failed job is resolved', async (bench) => {
      const running = await bench.running()
      await recorded(bench, running, effect(), step())
      const resolve = (row: FailedJob, name: string): Promise<boolean> =>
        bench.store.resolveStep(row, { name, state: 'refused', value: null }, null)
      assert.equal(await resolve(running, 'charge'), false)
      await bench.settle(running, failed())
      const row = await bench.row(running.id)
      assert.deepEqual(
        [await resolve(row, 'make'), await resolve(row, 'nothing'), await resolve({ ...row, id: 'nobody' }, 'charge')],
        [false, false, false],
      )
      assert.deepEqual([await resolve(row, 'charge'), await resolve(row, 'charge')], [true, true])
      assert.equal((await bench.store.events(running.id)).length, 2)
    }),

    test('a resolution can be corrected until an attempt has written over it, by the job that inherits it too', async (bench) => {
      const row = await bench.running({ idempotencyKey: 'k' })
      await recorded(bench, row, effect(), effect({ name: 'mail' }))
      await bench.settle(row, failed())
      const resolve = async (id: string, name: string, state: 'done' | 'refused', value: string | null): Promise<boolean> =>
        bench.store.resolveStep(await bench.row(id), { name, state, value }, null)
      assert.deepEqual(
        [await resolve(row.id, 'charge', 'done', '1'), await resolve(row.id, 'mail', 'refused', null)],
        [true, true],
      )
      await bench.store.repair([row.id], null)
      const [again] = (await bench.claim({ token: 'again' })).jobs
      assert.equal(await resolve(row.id, 'charge', 'done', '2'), false, 'it runs')
      await recorded(bench, again!, effect({ name: 'mail', state: 'done', attempt: 1, value: '"sent"' }))
      await bench.settle(again!, failed())
      const heir = await bench.insertOne({ idempotencyKey: 'k', supersedes: { id: row.id, status: 'failed' } })
      await bench.store.cancel([heir.id], null)
      assert.deepEqual(
        [await resolve(heir.id, 'charge', 'done', '2'), await resolve(heir.id, 'mail', 'refused', null)],
        [true, false],
      )
      const rows = await bench.store.steps(heir.id)
      assert.deepEqual(
        rows.map(({ name, state, value, attempt }) => [name, state, value, attempt]),
        [
          ['charge', 'done', '2', BY_PERSON],
          ['mail', 'done', '"sent"', 1],
        ],
      )
    }),

    test('an effect of a canceled job is resolved, and that of a superseded one is not', async (bench) => {
      const row = await bench.running({ idempotencyKey: 'k' })
      await recorded(bench, row, effect(), effect({ name: 'mail' }))
      await bench.settle(row, canceled())
      const resolve = async (id: string, name: string): Promise<boolean> =>
        bench.store.resolveStep(await bench.row(id), { name, state: 'refused', value: null }, null)
      assert.equal(await resolve(row.id, 'charge'), true)
      const heir = await bench.insertOne({ idempotencyKey: 'k', supersedes: { id: row.id, status: 'canceled' } })
      assert.deepEqual([await resolve(row.id, 'mail'), await resolve(heir.id, 'mail')], [false, false])
      await bench.store.cancel([heir.id], null)
      assert.equal(await resolve(heir.id, 'mail'), true)
    }),

    test('a word on a job that has run and failed again since it was looked at is not taken', async (bench) => {
      const row = await held(bench)
      await bench.store.repair([row.id], null)
      bench.clock.advance(1)
      const [again] = (await bench.claim({ token: 'again' })).jobs
      await recorded(bench, again!, effect())
      await bench.settle(again!, failed())
      const refused = { name: 'charge', state: 'refused', value: null } as const
      assert.equal(await bench.store.resolveStep(row, refused, null), false)
      assert.equal((await bench.store.steps(row.id))[0]!.state, 'started')
      assert.equal(await bench.store.resolveStep(await bench.row(row.id), refused, null), true)
    }),
  ],
}
