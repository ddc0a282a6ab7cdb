/** The simulation must find out whoever breaks a promise: each variant breaks one. */
import { expect, it, vi } from 'vitest'
import { search } from './search.js'
import { VARIANTS } from './variants.js'

// Nothing here waits for anything, so that only a busy machine makes it long.
vi.setConfig({ testTimeout: 300_000 })

/** The same seeds each time, so that what is found once is found always. */
const MOST_RUNS = 1_000

it.each(Object.entries(VARIANTS))('it is noticed when %s', async (_, variant) => {
  const { violation } = await search({ seed: 1, runs: MOST_RUNS, variant })
  expect(violation).toBeDefined()
})
