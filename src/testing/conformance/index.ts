/**
 * The conformance suite: every promise of the Store contract as a test. A store's own test file opens databases and
 * calls `describeStore`; what is common to the stores is tested here alone.
 */
import assert from 'node:assert/strict'
import { Bench } from './bench.js'
import { claimTests } from './claim.js'
import { idempotencyTests } from './idempotency.js'
import { concurrencyTests } from './concurrency.js'
import { insertTests } from './insert.js'
import { leaseTests } from './lease.js'
import { lifecycleTests } from './lifecycle.js'
import { peopleTests } from './people.js'
import { processTests } from './processes.js'
import { pruneTests } from './prune.js'
import { randomTests } from './random.js'
import { readTests } from './read.js'
import { reportTests } from './report.js'
import { settleTests } from './settle.js'
import { stepTests } from './steps.js'
import { streamTests } from './streams.js'
import type { StoreHarness, StoreTest, TestGroup } from './suite.js'
import { watchTests } from './watch.js'

const GROUPS: readonly TestGroup[] = [
  insertTests,
  idempotencyTests,
  claimTests,
  settleTests,
  reportTests,
  leaseTests,
  peopleTests,
  stepTests,
  streamTests,
  readTests,
  pruneTests,
  watchTests,
  lifecycleTests,
  concurrencyTests,
  processTests,
  randomTests,
]

const TIMEOUT_MS = 60_000

/**
 * Registers the whole suite with the harness's test runner:
 *
 *     import { describe, it } from 'vitest'
 *     import { describeStore } from 'jobtable/testing'
 *
 *     describeStore('my store', {
 *       runner: { describe, it },
 *       async open() {
 *         const { database, clock } = await freshDatabase()
 *         return { store: myStore(database, clock), clock, another: async () => myStore(database, clock), close: () => database.drop() }
 *       },
 *       without: { rawInsert: 'the database has no SQL', processes: 'it lives in this process' },
 *     })
 */
export function describeStore(name: string, harness: StoreHarness): void {
  const { describe, it } = harness.runner
  describe(`${name} keeps the Store contract`, () => {
    it('every skip names a test and gives a reason', async () => checkSkips(harness), TIMEOUT_MS)
    for (const group of GROUPS) {
      describe(group.name, () => {
        for (const test of group.tests) register(test, harness)
      })
    }
  })
}

function register(test: StoreTest, harness: StoreHarness): void {
  const { it } = harness.runner
  const reason = harness.skip?.[test.name] ?? (test.needs && harness.without?.[test.needs])
  if (reason === undefined) {
    it(test.name, () => run(test, harness), test.timeoutMs ?? TIMEOUT_MS)
  } else {
    const name = `${test.name} (skipped: ${reason})`
    const nothing = async (): Promise<void> => {}
    if (it.skip) it.skip(name, nothing)
    else it(name, nothing, TIMEOUT_MS)
  }
}

async function run(test: StoreTest, harness: StoreHarness): Promise<void> {
  const bench = new Bench(await harness.open({ migrated: !test.unmigrated }), harness)
  try {
    if (!test.unmigrated) await bench.store.migrate()
    await test.run(bench)
  } finally {
    await bench.close()
  }
}

async function checkSkips({ skip = {}, without = {} }: StoreHarness): Promise<void> {
  const names = GROUPS.flatMap((group) => group.tests.map((test) => test.name))
  assert.equal(new Set(names).size, names.length, 'two conformance tests have one name')
  for (const [name, reason] of Object.entries(skip)) {
    assert.ok(names.includes(name), `no conformance test is called ${JSON.stringify(name)}`)
    assert.ok(reason.trim() !== '', `the skip of ${JSON.stringify(name)} gives no reason`)
  }
  for (const [need, reason] of Object.entries(without)) {
    assert.ok(reason.trim() !== '', `\`without.${need}\` gives no reason`)
  }
}
