/** Runs the conformance suite by program and tells which of its tests failed. */
import { describeStore, modelStore, type StoreHarness } from '../../src/testing/index.js'
import type { Store } from '../../src/store.js'
import { RULES, type Rules } from '../../src/testing/model-rules.js'

export interface Failure {
  name: string
  error: unknown
}

export interface Collected {
  name: string
  body: () => Promise<void>
}

/** The tests that a harness registers, in order; skipped ones apart. */
export function collect(harness: Omit<StoreHarness, 'runner'>): { tests: Collected[]; skipped: string[] } {
  const tests: Collected[] = []
  const skipped: string[] = []
  const it = Object.assign((name: string, body: () => Promise<void>) => void tests.push({ name, body }), {
    skip: (name: string) => void skipped.push(name),
  })
  describeStore('a collected store', { ...harness, runner: { describe: (_, body) => body(), it } })
  return { tests, skipped }
}

/** Runs the tests one after the other until so many have failed. */
export async function failuresOf(tests: readonly Collected[], most = Infinity): Promise<Failure[]> {
  const failures: Failure[] = []
  for (const { name, body } of tests) {
    if (failures.length >= most) break
    await body().catch((error: unknown) => failures.push({ name, error }))
  }
  return failures
}

/** Replaces some calls of a store. */
export type Alter = (store: Store) => Partial<Store>

/** The model store, or one that breaks some of its rules or answers some calls in another way. */
export function modelHarness(rules: Partial<Rules> = {}, alter: Alter = () => ({})): Omit<StoreHarness, 'runner'> {
  return {
    async open() {
      let now = 1_700_000_000_000
      const clock = { now: () => now, advance: (ms: number) => void (now += ms) }
      const store = modelStore({ clock, rules: { ...RULES, ...rules } })
      return {
        store: altered(store, alter),
        clock,
        another: async () => altered(store.another(), alter),
        rawInsert: async (columns) => store.rawInsert(columns),
        close: async () => {},
      }
    },
    without: { processes: 'the model lives in one process' },
  }
}

function altered(store: Store, alter: Alter): Store {
  const replaced = alter(store)
  return new Proxy(store, {
    get(target, name: keyof Store) {
      const value = replaced[name] ?? target[name]
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}
