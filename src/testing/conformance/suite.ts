/**
 * What a conformance test is. Tests are data, so that they run under any test runner, can be listed and skipped by name,
 * and can be run by a program to see that they fail on a wrong store.
 */
import type { Store } from '../../store.js'
import type { RawColumns } from '../model-rules.js'
import type { Bench } from './bench.js'

/** A clock that stands still until it is moved. */
export interface TestClock {
  now(): number
  advance(ms: number): void
}

/** The functions of vitest, node:test, Mocha or Jest; a body that throws or rejects is a failure. */
export interface TestRunner {
  describe(name: string, body: () => void): unknown
  it: {
    (name: string, body: () => Promise<void>, timeoutMs: number): unknown
    skip?(name: string, body: () => Promise<void>): unknown
  }
}

export interface OpenedStore {
  /** A store on a database of its own, empty. */
  store: Store
  /** The time of that database as the store sees it. */
  clock: TestClock
  /** Another handle on the same database and clock, as a second process would have. */
  another?(): Promise<Store>
  /** Runs a plain `INSERT INTO jobs (id, type, payload, status)` past the store. */
  rawInsert?(columns: RawColumns): Promise<void>
  /** How other processes open this same database. */
  processes?: ProcessModule
  /** Removes the database. Every handle has been closed before. */
  close(): Promise<void>
}

/**
 * How a child process opens the database: `module` exports `open(...args): Store | Promise<Store>`. Children live on the
 * real clock, whatever the test's clock says.
 */
export interface ProcessModule {
  /** An absolute path or a `file:` URL. */
  module: string
  /** Passed to `open`; must survive JSON. */
  args: readonly unknown[]
  /** For the `node` of the child processes, such as `['--import', 'tsx']` where the module is TypeScript. */
  execArgv?: readonly string[]
}

/** What a database may not have. */
export type Need = 'another' | 'rawInsert' | 'processes'

export interface StoreHarness {
  runner: TestRunner
  /**
   * Called once for each test, most of which migrate first. Where `migrated` is false the database must not be migrated yet; else
   * it may be, as long as its tables are empty, which spares making them for each test.
   */
  open(test: { migrated: boolean }): Promise<OpenedStore>
  /** What this database does not have, and why. Tests that need it are reported as skipped, with this reason. */
  without?: Partial<Record<Need, string>>
  /** Tests that are not run: their names, each with the reason. */
  skip?: Readonly<Record<string, string>>
  /** How long a watcher may take to be called; else 20 seconds. Milliseconds. */
  watchTimeoutMs?: number
  /** How often the random sequences run; else `JOBTABLE_RANDOM_RUNS`, else 100. */
  randomRuns?: number
  /** Repeats the random sequences of a failure; else `JOBTABLE_RANDOM_SEED`. */
  randomSeed?: number
}

export interface StoreTest {
  /** The promise that it proves. */
  name: string
  run(bench: Bench): Promise<void>
  needs?: Need
  timeoutMs?: number
  /** Starts before `migrate` was called. */
  unmigrated?: true
}

export interface TestGroup {
  name: string
  tests: readonly StoreTest[]
}

export function test(name: string, run: StoreTest['run'], options: Omit<StoreTest, 'name' | 'run'> = {}): StoreTest {
  return { name, run, ...options }
}
