import { expect, it } from 'vitest'
import { Places } from '../../../src/stores/postgres/places.js'
import type { ClaimRequest, JobRow } from '../../../src/store.js'

const request: ClaimRequest = { workerId: 'w', token: 't', queues: ['slow', 'default'], types: ['mail'], limit: 500 }
const job = (runAfter: number, queue = 'default', priority = 0): JobRow => ({ queue, priority, runAfter }) as JobRow

/** A memory, and the claims that it learns from: many rows, unless it says otherwise, of the run_after that is the time. */
function memory() {
  const places = new Places()
  let now = 1_000
  return {
    places,
    choose: () => places.choose(request, now),
    wait: (ms: number) => void (now += ms),
    exactInMs: () => places.exactInMs(now),
    claim: (tookMs: number, { exact = true, rows = 500, jobs = [job(now)] } = {}): void => {
      now += tookMs
      places.learn(exact, jobs, rows, tookMs, now)
    },
  }
}

/** What 500 rows take without anybody asking why. */
const USUAL_MS = 10
const SLOW_MS = 60

/** Three slow exact claims, and the claim from here that they are compared with. */
function suspicious() {
  const all = memory()
  for (let i = 0; i < 3; i++) all.claim(SLOW_MS)
  expect(all.choose()).toHaveLength(1)
  all.claim(USUAL_MS, { exact: false })
  expect(all.choose()).toBeUndefined()
  all.claim(SLOW_MS)
  return all
}

it('claims are exact at first, and as long as they take no longer than their rows explain', () => {
  const { claim, choose, places } = memory()
  expect(choose()).toBeUndefined()
  for (let i = 0; i < 1_000; i++) claim(USUAL_MS)
  expect(choose()).toBeUndefined()
  expect(places.slow).toBe(false)
})

it('one that takes longer now and then says nothing', () => {
  const { claim, choose } = memory()
  for (let i = 0; i < 100; i++) {
    claim(SLOW_MS)
    claim(SLOW_MS)
    claim(USUAL_MS)
  }
  expect(choose()).toBeUndefined()
})

it('of few rows, each may take longer before anybody asks why', () => {
  const { claim, choose } = memory()
  for (let i = 0; i < 100; i++) claim(15, { rows: 1 })
  expect(choose()).toBeUndefined()
  for (let i = 0; i < 8; i++) claim(30, { rows: 1 })
  expect(choose()).toHaveLength(1)
})

it('several slow ones in a row are compared with one from a little before where the last one ended', () => {
  const { claim, choose, places } = memory()
  claim(SLOW_MS, { jobs: [job(5_000), job(7_000), job(6_000)] })
  claim(SLOW_MS, { jobs: [job(4_000, 'slow', 2), job(8_000, 'slow', -1), job(1, 'elsewhere')] })
  claim(SLOW_MS, { jobs: [] })
  expect(places.slow).toBe(true)
  expect(choose()).toEqual([
    { queue: 'slow', priority: -1, runAfter: 7_950 },
    { queue: 'slow', priority: 2, runAfter: 3_950 },
    { queue: 'default', priority: 0, runAfter: 6_950 },
  ])
})

it('then claims are from here for ten times what an exact one costs more, and the next is exact', () => {
  const { choose, exactInMs, wait } = suspicious()
  // 60 ms less the 20 that 500 rows explain, less the 3 that nobody asks about.
  expect(exactInMs()).toBe((60 - 20 - 3) * 10)
  expect(choose()).toHaveLength(1)
  wait(369)
  expect(choose()).toHaveLength(1)
  wait(1)
  expect(exactInMs()).toBe(0)
  expect(choose()).toBeUndefined()
})

it('and when the exact one is quick again, all are', () => {
  const { claim, choose, places, wait } = suspicious()
  wait(370)
  for (let i = 0; i < 10; i++) {
    claim(USUAL_MS)
    expect(choose()).toBeUndefined()
  }
  expect(places.slow).toBe(false)
})

it('where claims from here are as slow, exact ones go on: the machine is, and not the claim', () => {
  const all = memory()
  for (let i = 0; i < 3; i++) all.claim(SLOW_MS)
  all.claim(SLOW_MS, { exact: false })
  for (let i = 0; i < 10; i++) {
    all.claim(SLOW_MS)
    expect(all.choose()).toBeUndefined()
  }
})

it('from here is measured again now and then', () => {
  const all = memory()
  let fromHere = 0
  for (let i = 0; i < 100; i++) {
    const exact = all.choose() === undefined
    if (!exact) fromHere++
    all.claim(SLOW_MS, { exact })
  }
  expect(fromHere).toBeGreaterThan(4)
  expect(fromHere).toBeLessThan(10)
})

it('a job that was inserted here before the place, or into a new level, is not passed over', () => {
  const { places, choose } = suspicious()
  places.inserted([job(3), job(9_999_999), job(500, 'slow', 7)])
  expect(choose()).toEqual([
    { queue: 'slow', priority: 7, runAfter: 500 },
    { queue: 'default', priority: 0, runAfter: 3 },
  ])
})

it('without a place in the queues that are asked for, the claim is exact', () => {
  const { places } = suspicious()
  expect(places.choose({ ...request, queues: ['elsewhere'] }, 0)).toBeUndefined()
})

it('remembers a thousand levels, and forgets the one that was used longest ago', () => {
  const { places, claim } = suspicious()
  claim(USUAL_MS, { exact: false, jobs: Array.from({ length: 1_000 }, (_, i) => job(1, 'many', i)) })
  const known = places.choose({ ...request, queues: ['default', 'many'] }, 0)!
  expect(known).toHaveLength(1_000)
  expect(known.every(({ queue }) => queue === 'many')).toBe(true)
})
