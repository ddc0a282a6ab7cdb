import assert from 'node:assert/strict'
import type { JobFilter } from '../../store.js'
import { entry, failed, idsOf, retrying, type Bench } from './bench.js'
import { test, type TestGroup } from './suite.js'

/** Lists and counts by one filter, which must agree. */
async function found(bench: Bench, filter: JobFilter): Promise<string[]> {
  const ids = idsOf(await bench.store.list(filter, { limit: 1_000 }))
  assert.equal(await bench.store.count(filter), ids.length)
  return ids.sort()
}

/** All ids as pages of this size give them. */
async function paged(bench: Bench, limit: number): Promise<string[]> {
  const seen: string[] = []
  for (let page = await bench.store.list({}, { limit }); page.length > 0;) {
    assert.ok(page.length <= limit)
    seen.push(...idsOf(page))
    page = await bench.store.list({}, { limit, before: seen.at(-1)! })
  }
  return seen
}

/** As jobtable makes them: a UUIDv7, of the clock's time. */
function timeOrderedId(bench: Bench, count: number): string {
  const time = bench.clock.now().toString(16).padStart(12, '0')
  return `${time.slice(0, 8)}-${time.slice(8)}-7${count.toString(16).padStart(3, '0')}-8000-${'0'.repeat(12)}`
}

async function failedWith(bench: Bench, message: string): Promise<string> {
  const row = await bench.running()
  await bench.settle(row, failed({ message }))
  return row.id
}

export const readTests: TestGroup = {
  name: 'reading',
  tests: [
    test('rows are answered in the order asked for, with undefined for what does not exist', async (bench) => {
      const [a, b] = await bench.insert({}, {})
      assert.deepEqual(await bench.store.get([b!.id, 'nobody', a!.id, b!.id]), [b, undefined, a, b])
    }),

    test('an id is found exactly: not by another case, a trailing space or a wildcard', async (bench) => {
      await bench.insert({ id: 'Job-A' })
      assert.deepEqual(await bench.store.get(['job-a', 'Job-A ', 'Job-%', '']), [undefined, undefined, undefined, undefined])
    }),

    test('jobs are listed newest first', async (bench) => {
      const ids: string[] = []
      for (let i = 0; i < 5; i++) {
        ids.unshift((await bench.insertOne({ priority: i % 2, runAfter: { delayMs: 100 - i } })).id)
        bench.clock.advance(1_000)
      }
      assert.deepEqual(idsOf(await bench.store.list({}, { limit: 10 })), ids)
    }),

    test('pages follow each other without gap or repeat, also where creation times are equal', async (bench) => {
      const rows = await bench.insert(...Array.from({ length: 10 }, () => ({})))
      bench.clock.advance(1)
      rows.push(...(await bench.insert(...Array.from({ length: 15 }, () => ({})))))
      assert.deepEqual(await paged(bench, 7), idsOf(rows).reverse())
    }),

    test('jobs with ids of jobtable and of others are listed by creation, in pages of any size', async (bench) => {
      const ids: string[] = []
      for (let i = 0; i < 12; i++) {
        // In no order with the others, nor among themselves.
        const id = i % 3 === 0 ? `${'z0A~'[i / 3]}-own` : timeOrderedId(bench, i)
        ids.unshift((await bench.insertOne({ id })).id)
        bench.clock.advance(1)
      }
      for (let limit = 1; limit <= ids.length + 1; limit++) assert.deepEqual(await paged(bench, limit), ids, `by ${limit}`)
    }),

    test('no id is listed twice or left out by pages, in capitals, of one moment, or like another kind of id', async (bench) => {
      const own = ['own', '~', 'customer-2024-7abc-defg-hijklmnopqrs']
      for (let i = 0; i < 4; i++) {
        const [a, b] = [timeOrderedId(bench, 2 * i), timeOrderedId(bench, 2 * i + 1).toUpperCase()]
        await bench.insert(...[a, b, ...own.map((id) => id.replace(/.$/, String(i)))].map((id) => ({ id })))
        bench.clock.advance(i * 1_000)
      }
      const all = idsOf(await bench.store.list({}, { limit: 100 }))
      assert.equal(new Set(all).size, 20)
      for (let limit = 1; limit <= 21; limit++) assert.deepEqual(await paged(bench, limit), all, `by ${limit}`)
    }),

    test('pages hold only what matches the filter', async (bench) => {
      const rows = await bench.insert(...Array.from({ length: 12 }, (_, i) => ({ type: i % 3 === 0 ? 'a' : 'b' })))
      const expected = idsOf(rows.filter(({ type }) => type === 'a')).reverse()
      const first = await bench.store.list({ type: ['a'] }, { limit: 2 })
      const second = await bench.store.list({ type: ['a'] }, { limit: 5, before: first[1]!.id })
      assert.deepEqual(idsOf([...first, ...second]), expected)
    }),

    test('jobs added meanwhile do not shift the next page', async (bench) => {
      const rows = await bench.insert({}, {}, {}, {})
      const first = await bench.store.list({}, { limit: 2 })
      bench.clock.advance(1)
      await bench.insert({}, {})
      const second = await bench.store.list({}, { limit: 2, before: first[1]!.id })
      assert.deepEqual(idsOf([...first, ...second]), idsOf(rows).reverse())
    }),

    test('ids, statuses, types, queues and keys filter alone and together', async (bench) => {
      const running = (await bench.running({ type: 'a' })).id
      const [a, b, c] = idsOf(
        await bench.insert({ type: 'a', queue: 'x' }, { type: 'b', queue: 'x', idempotencyKey: 'k' }, { type: 'b', queue: 'y' }),
      ) as [string, string, string]
      assert.deepEqual(await found(bench, {}), [running, a, b, c])
      assert.deepEqual(await found(bench, { ids: [c, a, 'nobody'] }), [a, c])
      assert.deepEqual(await found(bench, { status: ['running', 'failed'] }), [running])
      assert.deepEqual(await found(bench, { type: ['a'] }), [running, a])
      assert.deepEqual(await found(bench, { type: ['a', 'b'] }), [running, a, b, c])
      assert.deepEqual(await found(bench, { queue: ['x'] }), [a, b])
      assert.deepEqual(await found(bench, { idempotencyKey: 'k' }), [b])
      assert.deepEqual(await found(bench, { type: ['b'], queue: ['x', 'y'], status: ['pending'], ids: [a, b] }), [b])
      assert.deepEqual(await found(bench, { type: ['a'], idempotencyKey: 'k' }), [])
    }),

    test('an empty list in a filter matches no job', async (bench) => {
      await bench.insert({}, {})
      for (const filter of [{ ids: [] }, { status: [] }, { type: [] }, { queue: [] }])
        assert.deepEqual(await found(bench, filter), [])
    }),

    test('a filter value with quotes or wildcards is only a value', async (bench) => {
      const [a] = await bench.insert({ type: `a'b"c\\%_` }, { type: 'plain' })
      assert.deepEqual(await found(bench, { type: [`a'b"c\\%_`] }), [a!.id])
      assert.deepEqual(await found(bench, { type: ['%'] }), [])
      assert.deepEqual(await found(bench, { queue: [`' OR 1=1 --`] }), [])
    }),

    test('error text is found anywhere in the newest error, in any case of letters', async (bench) => {
      const id = await failedWith(bench, 'connect ECONNREFUSED 10.0.0.1:5432')
      await failedWith(bench, 'something else')
      await bench.insert({})
      for (const errorContains of ['connect', '5432', 'econnrefused 10', 'CONNECT E']) {
        assert.deepEqual(await found(bench, { errorContains }), [id], errorContains)
      }
      assert.deepEqual(await found(bench, { errorContains: 'nowhere' }), [])
    }),

    test('only the newest error counts', async (bench) => {
      const row = await bench.running()
      await bench.settle(row, retrying({ entry: entry({ message: 'first' }) }))
      await bench.settle((await bench.claim()).jobs[0]!, failed({ message: 'second' }))
      assert.deepEqual(await found(bench, { errorContains: 'first' }), [])
      assert.deepEqual(await found(bench, { errorContains: 'second' }), [row.id])
    }),

    test('wildcards in error text stand for themselves', async (bench) => {
      const percent = await failedWith(bench, 'disk is 100% full')
      const underscore = await failedWith(bench, 'no column user_id')
      const other = await failedWith(bench, 'no column userXid, 100 of them')
      const special = await failedWith(bench, 'C:\\temp [a-z]*.pdf? it\'s "here"')
      assert.deepEqual(await found(bench, { errorContains: '100%' }), [percent])
      assert.deepEqual(await found(bench, { errorContains: 'user_id' }), [underscore])
      assert.deepEqual(await found(bench, { errorContains: '%' }), [percent])
      assert.deepEqual(await found(bench, { errorContains: '_' }), [underscore])
      assert.deepEqual(await found(bench, { errorContains: '\\' }), [special])
      assert.deepEqual(await found(bench, { errorContains: '[a-z]*.pdf?' }), [special])
      assert.deepEqual(await found(bench, { errorContains: `it's "` }), [special])
      assert.deepEqual(await found(bench, { errorContains: 'no column user' }), [underscore, other])
    }),

    test('age filters take what was created at least, or at most, so long ago', async (bench) => {
      const ids: string[] = []
      for (let i = 0; i < 3; i++) {
        ids.push((await bench.insertOne()).id)
        bench.clock.advance(10_000)
      }
      const [old, middle, young] = ids as [string, string, string]
      assert.deepEqual(await found(bench, { olderThanMs: 20_000 }), [old, middle])
      assert.deepEqual(await found(bench, { olderThanMs: 20_001 }), [old])
      assert.deepEqual(await found(bench, { youngerThanMs: 20_000 }), [middle, young])
      assert.deepEqual(await found(bench, { youngerThanMs: 19_999 }), [young])
      assert.deepEqual(await found(bench, { olderThanMs: 15_000, youngerThanMs: 25_000 }), [middle])
      assert.deepEqual(await found(bench, { olderThanMs: 0 }), ids)
    }),

    test('old finished rows are found behind many new ones', async (bench) => {
      const { id } = await bench.finished('succeeded')
      bench.clock.advance(1_000)
      await bench.insert(...Array.from({ length: 3_000 }, () => ({})))
      assert.deepEqual(await found(bench, { status: ['succeeded'] }), [id])
    }),

    test('the overview counts by type, queue and status', async (bench) => {
      const now = bench.clock.now()
      await bench.running()
      await bench.insert(
        { runAfter: { at: now - 500 } },
        { runAfter: { at: now - 900 } },
        { runAfter: { at: now + 500 } },
        { queue: 'other' },
        { type: 'export' },
      )
      const { counts, now: told } = await bench.store.overview()
      assert.equal(told, now)
      const byGroup = new Map(counts.map(({ type, queue, status, ...rest }) => [`${type} ${queue} ${status}`, rest]))
      assert.deepEqual(byGroup.get('mail default pending'), { count: 3, due: 2, oldestRunAfter: now - 900 })
      assert.deepEqual(byGroup.get('mail other pending'), { count: 1, due: 1, oldestRunAfter: now })
      assert.deepEqual(byGroup.get('export default pending'), { count: 1, due: 1, oldestRunAfter: now })
      const running = byGroup.get('mail default running')
      assert.deepEqual([running?.count, running?.due], [1, 0])
      assert.equal(counts.length, 4)
    }),

    test('the overview of an empty database is empty', async (bench) => {
      assert.deepEqual(await bench.store.overview(), { now: bench.clock.now(), counts: [], workers: [] })
    }),

    test('the workers are listed alone, dead ones too, with the time and as the overview has them', async (bench) => {
      assert.deepEqual(await bench.store.workers(), { now: bench.clock.now(), workers: [] })
      await bench.register('worker-1', 1_000)
      bench.clock.advance(1_000)
      await bench.register('worker-2')
      const { counts: _, ...expected } = await bench.store.overview()
      const listed = await bench.store.workers()
      assert.deepEqual(listed, expected)
      assert.deepEqual(idsOf(listed.workers).sort(), ['worker-1', 'worker-2'])
    }),
  ],
}
