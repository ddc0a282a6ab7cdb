import assert from 'node:assert/strict'
import type { JobRow, Report } from '../../store.js'
import type { StreamAppend, StreamText } from '../../streams/record.js'
import { canceled, failed, fence, retrying, succeeded, type Bench } from './bench.js'
import { test, type TestGroup } from './suite.js'

function piece(text: string, offset = 0, parts: Partial<StreamAppend> = {}): StreamAppend {
  return { name: 'text', offset, text, done: false, ...parts }
}

async function append(bench: Bench, row: JobRow, ...streams: StreamAppend[]): Promise<boolean> {
  const [outcome] = await bench.store.report([{ ...fence(row), streams }])
  return outcome === 'written'
}

function read(bench: Bench, { id }: JobRow, after: [attempt: number, offset: number] | null = null, limit: number | null = null) {
  return bench.store.readStream(id, 'text', after && { attempt: after[0], offset: after[1] }, limit)
}

function text(attempt: number, offset: number, content: string, done = false): StreamText {
  return { attempt, offset, text: content, done }
}

/** The job, claimed again after the present claim has ended so. */
async function again(bench: Bench, row: JobRow, attempts = 1): Promise<JobRow> {
  await bench.settle(row, retrying({ attempts }))
  const { jobs } = await bench.claim()
  return jobs.find(({ id }) => id === row.id)!
}

export const streamTests: TestGroup = {
  name: 'streams',
  tests: [
    test('pieces are read back to the letter as one text, from the place on that is asked for', async (bench) => {
      const row = await bench.running()
      assert.equal(await append(bench, row, piece("it's ü🙂 \\ % _ $1 ?\n")), true)
      assert.equal(await append(bench, row, piece('"two"', 20), piece('\u2028three\uFFFD', 25)), true)
      const all = 'it\'s ü🙂 \\ % _ $1 ?\n"two"\u2028three\uFFFD'
      assert.deepEqual(await read(bench, row), text(1, 0, all))
      for (const offset of [0, 1, 19, 20, 22, 25, all.length])
        assert.deepEqual(await read(bench, row, [1, offset]), text(1, offset, all.slice(offset)))
      assert.deepEqual(await bench.store.streams(row.id), [{ name: 'text', attempt: 1, length: all.length, done: false }])
    }),

    test('a place of another attempt, or beyond the end, is read from the beginning', async (bench) => {
      const row = await bench.running()
      await append(bench, row, piece('abc'))
      for (const place of [
        [2, 1],
        [1, 4],
        [0, 0],
      ] as const)
        assert.deepEqual(await read(bench, row, [...place]), text(1, 0, 'abc'))
    }),

    test('a limit ends the text, but never between the halves of a surrogate pair', async (bench) => {
      const row = await bench.running()
      await append(bench, row, piece('a🙂'), piece('bc', 3, { done: true }))
      assert.deepEqual(await read(bench, row, null, 1), text(1, 0, 'a'))
      assert.deepEqual(await read(bench, row, null, 2), text(1, 0, 'a'))
      assert.deepEqual(await read(bench, row, [1, 1], 1), text(1, 1, '🙂'))
      assert.deepEqual(await read(bench, row, [1, 2], 9), text(1, 1, '🙂bc', true))
      assert.deepEqual(await read(bench, row, [1, 3], 1), text(1, 3, 'b'))
      assert.deepEqual(await read(bench, row, [1, 4], 1), text(1, 4, 'c', true))
    }),

    test('a stream is done once it was ended, and not before its last text', async (bench) => {
      const row = await bench.running()
      await append(bench, row, piece('abc'))
      await append(bench, row, piece('', 3, { done: true }))
      assert.deepEqual(await read(bench, row), text(1, 0, 'abc', true))
      assert.deepEqual(await read(bench, row, [1, 3]), text(1, 3, '', true))
      assert.deepEqual(await read(bench, row, [1, 0], 2), text(1, 0, 'ab', false))
      await append(bench, row, piece('', 0, { name: 'empty', done: true }))
      assert.deepEqual(await bench.store.readStream(row.id, 'empty', null, null), text(1, 0, '', true))
    }),

    test('the end of the job ends its streams, whatever it is', async (bench) => {
      for (const settlement of [succeeded, failed(), canceled()]) {
        const row = await bench.running()
        await append(bench, row, piece('abc'))
        await bench.settle(row, settlement)
        assert.deepEqual(await read(bench, row), text(1, 0, 'abc', true))
        assert.deepEqual(await bench.store.streams(row.id), [{ name: 'text', attempt: 1, length: 3, done: true }])
      }
    }),

    test('a later attempt replaces the text with its first append, and not before', async (bench) => {
      const first = await bench.running()
      await append(bench, first, piece('old text', 0, { done: true }), piece('kept', 0, { name: 'other' }))
      const second = await again(bench, first)
      assert.deepEqual(await read(bench, second), text(1, 0, 'old text', true))
      await append(bench, second, piece('new'))
      assert.deepEqual(await read(bench, second, [1, 8]), text(2, 0, 'new'))
      assert.deepEqual(await bench.store.streams(second.id), [
        { name: 'other', attempt: 1, length: 4, done: false },
        { name: 'text', attempt: 2, length: 3, done: false },
      ])
    }),

    test('the text of an attempt that was handed back, or repaired, is another attempt than what follows', async (bench) => {
      const first = await bench.running()
      await append(bench, first, piece('one'))
      const second = await again(bench, first, 0)
      assert.equal(second.attempts, 1)
      await append(bench, second, piece('two'))
      assert.deepEqual(await read(bench, second, [1, 3]), text(2, 0, 'two'))
      await bench.settle(second, failed())
      await bench.store.repair([second.id], null)
      assert.deepEqual(await read(bench, second), text(2, 0, 'two'))
      const [third] = (await bench.claim()).jobs
      await append(bench, third!, piece('three'))
      await append(bench, third!, piece('!', 5))
      assert.deepEqual(await read(bench, third!), text(3, 0, 'three!'))
    }),

    test('an append that is made again, since its answer was lost, changes nothing', async (bench) => {
      const row = await bench.running()
      for (const pieces of [[piece('abc')], [piece('abc')], [piece('abc'), piece('def', 3)], [piece('def', 3)]])
        assert.equal(await append(bench, row, ...pieces), true)
      assert.deepEqual(await read(bench, row), text(1, 0, 'abcdef'))
    }),

    test('whoever does not hold the claim appends nothing, and replaces nothing', async (bench) => {
      const row = await bench.running()
      await append(bench, row, piece('abc'))
      const late = [piece('late', 3), piece('late', 0, { name: 'other' })]
      for (const token of ['stale', null])
        assert.deepEqual(await bench.store.report([{ id: row.id, token, streams: late }]), ['lost'])
      const next = await again(bench, row)
      assert.equal(await append(bench, row, ...late), false)
      assert.deepEqual(await read(bench, row), text(1, 0, 'abc'))
      await append(bench, next, piece('new'))
      assert.equal(await append(bench, row, ...late), false)
      await bench.settle(next, succeeded)
      assert.equal(await append(bench, next, ...late), false)
      assert.deepEqual(await read(bench, row), text(2, 0, 'new', true))
      assert.deepEqual(
        (await bench.store.streams(row.id)).map(({ name }) => name),
        ['text'],
      )
      assert.deepEqual(await bench.store.report([{ id: 'nobody', token: row.claimToken, streams: late }]), ['lost'])
      assert.deepEqual(await bench.store.streams('nobody'), [])
    }),

    test('in one call each job has its own pieces, beside its stage and events', async (bench) => {
      const rows = [await bench.running(), await bench.running(), await bench.running()]
      const reports = rows.map((row, i): Report => ({ ...fence(row), streams: [piece(`text ${i}`)] }))
      reports[1]!.token = 'stale'
      reports[2]!.stage = 'writing'
      reports[2]!.events = [{ kind: 'log', attempt: 1, message: 'begun', data: null }]
      assert.deepEqual(await bench.store.report(reports), ['written', 'lost', 'written'])
      const texts = await Promise.all(rows.map((row) => read(bench, row)))
      assert.deepEqual(
        texts.map((found) => found?.text),
        ['text 0', undefined, 'text 2'],
      )
      assert.equal((await bench.row(rows[2]!.id)).stage, 'writing')
      assert.equal((await bench.store.events(rows[2]!.id)).length, 1)
    }),

    test('an append is a change that a reader of the row sees', async (bench) => {
      const row = await bench.running()
      bench.clock.advance(1_000)
      await append(bench, row, piece('abc'))
      assert.deepEqual(await bench.row(row.id), { ...row, rev: row.rev + 1, updatedAt: bench.clock.now() })
    }),

    test('every write that a reader can see makes rev greater by one, and nothing else does', async (bench) => {
      const { id } = await bench.insertOne({ idempotencyKey: 'k' })
      const revs: number[] = []
      const after = async (work: Promise<unknown>): Promise<void> => {
        await work
        revs.push((await bench.row(id)).rev)
      }
      let [row] = [await bench.row(id)]
      await after(bench.claim().then(({ jobs }) => (row = jobs[0]!)))
      await after(bench.store.report([{ ...fence(row), stage: 'a' }]))
      await after(bench.store.report([{ ...fence(row), progress: 0.5 }]))
      await after(bench.store.report([{ ...fence(row), token: 'stale', progress: 0.6 }]))
      await after(bench.store.cancel([id], null))
      await after(bench.store.cancel([id], null))
      await after(bench.settle(row, canceled()))
      await after(bench.settle(row, succeeded))
      await after(bench.store.repair([id], null))
      await after(bench.store.cancel([id], null))
      await after(bench.insert({ idempotencyKey: 'k', supersedes: { id, status: 'canceled' } }))
      assert.equal(row.rev, 1)
      assert.deepEqual(revs, [1, 2, 3, 3, 4, 4, 5, 5, 6, 7, 8])
    }),

    test('streams outlive a repair, and go with their job and with no other', async (bench) => {
      const [gone, kept] = [await bench.running(), await bench.running()]
      await append(bench, gone, piece('gone'))
      await append(bench, kept, piece('kept'))
      await bench.settle(gone, succeeded)
      bench.clock.advance(1)
      await bench.store.prune({ succeededMs: 0, failedMs: 0, canceledMs: 0 }, 10)
      assert.equal(await read(bench, gone), undefined)
      assert.deepEqual(await bench.store.streams(gone.id), [])
      await bench.insert({ id: gone.id })
      assert.equal(await read(bench, gone), undefined)
      assert.equal((await read(bench, kept))?.text, 'kept')
    }),
  ],
}
