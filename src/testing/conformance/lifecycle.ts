import assert from 'node:assert/strict'
import { JobtableError } from '../../errors.js'
import type { Store } from '../../store.js'
import { idsOf, settling, succeeded, type Bench } from './bench.js'
import { test, type TestGroup } from './suite.js'

/** Every call that needs the database, by name. */
async function calls(bench: Bench): Promise<[name: string, call: (store: Store) => Promise<unknown>][]> {
  const request = { workerId: 'worker-1', token: bench.token(), queues: ['default'], types: ['mail'], limit: 1 }
  const fence = { id: 'nobody', token: 'token' }
  return [
    ['insert', (store) => store.insert([bench.job()])],
    ['get', (store) => store.get(['nobody'])],
    ['list', (store) => store.list({}, { limit: 1 })],
    ['count', (store) => store.count({})],
    ['events', (store) => store.events('nobody')],
    ['overview', (store) => store.overview()],
    ['workers', (store) => store.workers()],
    ['claim', (store) => store.claim(request)],
    ['settle', (store) => store.settle([{ ...fence, settlement: succeeded, maxAttempts: 5, keepForMs: null }])],
    ['report', (store) => store.report([{ ...fence, progress: 0.5 }])],
    ['register', (store) => store.register(bench.worker('worker-9'), 1_000)],
    ['heartbeat', (store) => store.heartbeat('worker-1', 1_000)],
    ['retire', (store) => store.retire('worker-1')],
    ['lost', (store) => store.lost(1)],
    ['cancel', (store) => store.cancel(['nobody'], null)],
    ['repair', (store) => store.repair(['nobody'], null)],
    ['prune', (store) => store.prune({ succeededMs: 0, failedMs: 0, canceledMs: 0 }, 1)],
  ]
}

async function assertRefused(call: () => Promise<unknown>, prefix: 'store_' | 'schema_', name: string): Promise<void> {
  const answer = await call().then(
    () => assert.fail(`${name} was served`),
    (error: unknown) => error,
  )
  assert.ok(answer instanceof JobtableError, `${name} rejected with ${String(answer)}`)
  assert.ok(answer.code.startsWith(prefix), `${name} rejected with the code ${answer.code}`)
}

export const lifecycleTests: TestGroup = {
  name: 'lifecycle',
  tests: [
    test(
      'the first migration makes the tables, the second changes nothing',
      async (bench) => {
        const first = await bench.store.migrate()
        assert.ok(first.to > first.from, `from ${first.from} to ${first.to}`)
        const [row] = await bench.insert({})
        assert.deepEqual(await bench.store.migrate(), { from: first.to, to: first.to })
        assert.deepEqual(await bench.store.get([row!.id]), [row])
      },
      { unmigrated: true },
    ),

    test(
      'migrations at the same time by one handle all end well',
      async (bench) => {
        const answers = await Promise.all(Array.from({ length: 5 }, () => bench.store.migrate()))
        assert.equal(new Set(answers.map(({ to }) => to)).size, 1)
        await bench.insert({})
      },
      { unmigrated: true },
    ),

    test(
      'migrations at the same time by several handles make the tables once',
      async (bench) => {
        const stores = [bench.store]
        for (let i = 0; i < 4; i++) stores.push(await bench.anotherRaw())
        const answers = await Promise.all(stores.map((store) => store.migrate()))
        assert.equal(new Set(answers.map(({ to }) => to)).size, 1)
        assert.equal(answers.filter(({ from, to }) => from !== to).length, 1)
        for (const store of stores) await store.insert([bench.job()])
        assert.equal(await bench.store.count({}), 5)
      },
      { unmigrated: true, needs: 'another' },
    ),

    test(
      'a call before the first migration is refused and says that the schema is missing',
      async (bench) => {
        for (const [name, call] of await calls(bench)) await assertRefused(() => call(bench.store), 'schema_', name)
        await bench.store.migrate()
        for (const [, call] of await calls(bench)) await call(bench.store)
      },
      { unmigrated: true },
    ),

    test('a store may be closed twice, also at the same time', async (bench) => {
      await Promise.all([bench.store.close(), bench.store.close()])
      await bench.store.close()
    }),

    test('a call after close is refused by a typed error', async (bench) => {
      await bench.store.close()
      for (const [name, call] of await calls(bench)) await assertRefused(() => call(bench.store), 'store_', name)
    }),

    test('calls made before close are served or refused, none hangs', async (bench) => {
      const inserts = Array.from({ length: 20 }, () => bench.store.insert([bench.job()]))
      const [answers] = await Promise.all([Promise.allSettled(inserts), bench.store.close()])
      for (const answer of answers) if (answer.status === 'rejected') assert.ok(answer.reason instanceof JobtableError)
    }),

    test(
      'what was written is there for the next handle, after close',
      async (bench) => {
        const next = await bench.another()
        const rows = await bench.insert({}, {})
        await bench.store.close()
        assert.deepEqual(await next.get(idsOf(rows)), rows)
        assert.deepEqual(
          (await next.insert([bench.job()])).map(({ type }) => type),
          ['inserted'],
        )
      },
      { needs: 'another' },
    ),

    test('a handle has a name to be called by', async (bench) => {
      assert.ok(bench.store.name.trim() !== '')
    }),

    test('a database in order has no finding that is an error', async (bench) => {
      const row = await bench.running()
      await bench.store.settle([settling(row, succeeded)])
      const findings = await bench.store.inspect()
      assert.deepEqual(
        findings.filter(({ level }) => level === 'error'),
        [],
      )
    }),
  ],
}
