import { modelStore } from '../model-store.js'
import { Bench } from './bench.js'
import { Player } from './random-player.js'
import { sequences, type FastCheck, type Step } from './random-steps.js'
import { test, type StoreHarness, type TestGroup } from './suite.js'

const DEFAULT_RUNS = 100

async function loadFastCheck(): Promise<FastCheck> {
  try {
    return await import('fast-check')
  } catch (cause) {
    throw new Error('the random sequences need fast-check 4: npm install --save-dev fast-check, or name this test in `skip`', {
      cause,
    })
  }
}

function fromEnvironment(name: string): number | undefined {
  const text = process.env[name]
  if (text === undefined || text === '') return undefined
  const value = Number(text)
  if (!Number.isInteger(value)) throw new Error(`${name} is ${JSON.stringify(text)}, not a whole number`)
  return value
}

async function playAll(harness: StoreHarness, sequence: readonly Step[]): Promise<void> {
  const bench = new Bench(await harness.open({ migrated: true }), harness)
  try {
    const model = modelStore({ clock: bench.clock })
    await Promise.all([bench.store.migrate(), model.migrate()])
    const player = new Player(bench.store, model, bench.clock)
    for (const step of sequence) await player.play(step)
    await player.compareTimelines()
  } finally {
    await bench.close()
  }
}

export const randomTests: TestGroup = {
  name: 'random sequences',
  tests: [
    test(
      'any sequence of operations is answered as the model answers it, and moves no job against the state machine',
      async ({ harness }) => {
        const fc = await loadFastCheck()
        const seed = harness.randomSeed ?? fromEnvironment('JOBTABLE_RANDOM_SEED')
        const numRuns = harness.randomRuns ?? fromEnvironment('JOBTABLE_RANDOM_RUNS') ?? DEFAULT_RUNS
        // A failure prints its seed; with it the same sequences come again.
        await fc.assert(
          fc.asyncProperty(sequences(fc), (sequence) => playAll(harness, sequence)),
          { numRuns, ...(seed !== undefined && { seed }) },
        )
      },
      { timeoutMs: 3_600_000 },
    ),
  ],
}
