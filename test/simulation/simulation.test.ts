import { expect, it, vi } from 'vitest'
import { simulate } from './run.js'
import { search } from './search.js'

// Nothing here waits for anything, so that only a busy machine makes it long.
vi.setConfig({ testTimeout: 300_000 })

const RUNS = 150

it('no invariant breaks, whatever faults many seeds make', async () => {
  const { seed, violation } = await search({ seed: 1, runs: RUNS })
  expect(violation, `npm run simulate -- --seed ${seed} --trace`).toBeUndefined()
})

it('a seed gives the same run again, to the last line of its trace', async () => {
  for (const seed of [3, 11, 192]) {
    const traces: string[][] = [[], [], []]
    for (const trace of traces) await simulate({ seed, trace })
    expect(traces[0]!.length).toBeGreaterThan(50)
    expect(traces[1]).toEqual(traces[0])
    expect(traces[2]).toEqual(traces[0])
  }
})

it('another seed gives another run', async () => {
  const traces: string[][] = [[], []]
  await simulate({ seed: 1, trace: traces[0]! })
  await simulate({ seed: 2, trace: traces[1]! })
  expect(traces[1]!.slice(1)).not.toEqual(traces[0]!.slice(1))
})
