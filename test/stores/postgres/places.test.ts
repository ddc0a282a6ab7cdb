import { describe, expect, it } from 'vitest'
import { Places } from '../../../src/stores/postgres/places.js'
import type { ClaimRequest, JobRow } from '../../../src/store.js'

const request: ClaimRequest = { workerId: 'w', token: 't', queues: ['slow', 'default'], types: ['mail'], limit: 500 }
const job = (runAfter: number, queue = 'default', priority = 0, id = 'job'): JobRow =>
  ({ id, queue, priority, runAfter }) as JobRow

/** What 500 rows take without anybody asking why. */
const USUAL_MS = 10
const SLOW_MS = 60
/** A claim of so few rows is exact unless the way is long. */
const FEW = 10

/** A memory, and the exact claims that it learns from: many rows, unless it says otherwise, of the run_after that is the time. */
function memory() {
  const places = new Places()
  let now = 1_000
  return {
    places,
    now: () => now,
    choose: (limit = request.limit) => places.choose({ ...request, limit }, now),
    wait: (ms: number) => void (now += ms),
    claim: (
      tookMs: number,
      { rows = 500, jobs = [job(now)], exact = true, plenty = false, queues = request.queues, waited = false } = {},
    ): boolean => {
      now += tookMs
      return places.learn({ queues, exact, jobs, plenty, rows, tookMs: waited ? undefined : tookMs }, now)
    },
    scout: (tookMs: number, found: readonly JobRow[] = []): void => {
      expect(places.wantsScout(now)).toBe(true)
      now += tookMs
      places.scouted(found, tookMs, now)
    },
  }
}

/** Five exact claims that took too long. */
function suspicious() {
  const all = memory()
  for (let i = 0; i < 4; i++) expect(all.claim(SLOW_MS)).toBe(false)
  expect(all.claim(SLOW_MS)).toBe(true)
  return all
}

it('claims are exact as long as they take no longer than their rows explain', () => {
  const { claim, choose, places, now } = memory()
  for (let i = 0; i < 1_000; i++) expect(claim(USUAL_MS)).toBe(false)
  expect(choose(FEW)).toBeUndefined()
  expect(places.wantsScout(now())).toBe(false)
  expect(places.againInMs(request.queues, now())).toBe(Infinity)
})

it('one that takes longer now and then says nothing', () => {
  const { claim, choose } = memory()
  for (let i = 0; i < 100; i++) for (const ms of [SLOW_MS, SLOW_MS, USUAL_MS]) expect(claim(ms)).toBe(false)
  expect(choose(FEW)).toBeUndefined()
})

it('one that somebody else has held up says nothing, and is remembered all the same', () => {
  const { claim, choose, places, now } = memory()
  for (let i = 0; i < 100; i++) expect(claim(300, { waited: true })).toBe(false)
  expect(choose(FEW)).toBeUndefined()
  claim(USUAL_MS, { exact: false, waited: true })
  expect(places.againInMs(request.queues, now())).toBe(90)
})

it('of few rows, each may take longer before anybody asks why', () => {
  const { claim, choose } = memory()
  for (let i = 0; i < 100; i++) claim(15, { rows: 1 })
  expect(choose(FEW)).toBeUndefined()
  for (let i = 0; i < 8; i++) claim(30, { rows: 1 })
  expect(choose(FEW)).toBeDefined()
})

it('after several slow ones in a row, claims start a little before where the last ended, level by level', () => {
  const { claim, choose } = memory()
  claim(SLOW_MS, { jobs: [job(5_000), job(7_000), job(6_000)] })
  claim(SLOW_MS, { jobs: [job(4_000, 'slow', 2), job(8_000, 'slow', -1), job(1, 'elsewhere')] })
  for (let i = 0; i < 3; i++) claim(SLOW_MS, { jobs: [] })
  expect(choose()?.places).toEqual([
    { queue: 'slow', priority: -1, runAfter: 7_950, id: '' },
    { queue: 'slow', priority: 2, runAfter: 3_950, id: '' },
    { queue: 'default', priority: 0, runAfter: 6_950, id: '' },
  ])
})

it('a scout is sent at once then, one at a time, and the next after ten times as long as it took', () => {
  const { scout, places, now, wait, choose } = suspicious()
  expect(places.againInMs(request.queues, now())).toBe(0)
  scout(200)
  expect(places.againInMs(request.queues, now())).toBe(2_000)
  wait(1_999)
  expect(places.wantsScout(now())).toBe(false)
  wait(1)
  expect(places.wantsScout(now())).toBe(true)
  expect(places.wantsScout(now())).toBe(false)
  expect(choose()).toBeDefined()
})

it('what a scout finds is claimed by its id, no more at once than the claim may take, and once', () => {
  const { scout, choose } = suspicious()
  scout(
    200,
    Array.from({ length: 501 }, (_, i) => job(1, 'default', 0, `early-${i}`)),
  )
  expect(choose()?.early).toHaveLength(500)
  expect(choose()?.early).toEqual(['early-500'])
  expect(choose()?.early).toEqual([])
})

it('a level that a scout finds is known from then on', () => {
  const { scout, choose } = suspicious()
  scout(200, [job(70, 'slow', 5), job(80, 'slow', 5)])
  expect(choose()?.places).toContainEqual({ queue: 'slow', priority: 5, runAfter: 20, id: '' })
})

it('a quick scout ends it: it was something else, and nobody asks again for a while', () => {
  const { scout, choose, claim, wait } = suspicious()
  scout(4)
  expect(choose(FEW)).toBeUndefined()
  for (let i = 0; i < 100; i++) expect(claim(SLOW_MS)).toBe(false)
  wait(10_000)
  expect(claim(SLOW_MS)).toBe(true)
})

it('a scout that fails is sent again after a second', () => {
  const { places, now, wait } = suspicious()
  expect(places.wantsScout(now())).toBe(true)
  places.scoutFailed(now())
  expect(places.againInMs(request.queues, now())).toBe(1_000)
  wait(1_000)
  expect(places.wantsScout(now())).toBe(true)
})

it('what is inserted here before the place is claimed by its id, and a new level is known', () => {
  const { places, choose, now } = suspicious()
  places.inserted([job(0, 'default', 0, 'past'), job(1_000_000, 'default', 0, 'later'), job(30, 'slow', 9, 'new')], now())
  expect(choose()).toMatchObject({ early: ['past'] })
  expect(choose()?.places).toContainEqual({ queue: 'slow', priority: 9, runAfter: -20, id: '' })
})

it('the oldest of more than a thousand levels is forgotten', () => {
  const { claim, choose } = suspicious()
  for (let i = 1; i <= 1_000; i++) claim(USUAL_MS, { jobs: [job(100_000 + i, 'default', i)] })
  expect(choose()?.places).toHaveLength(1_000)
  expect(choose()?.places.some(({ priority }) => priority === 0)).toBe(false)
})

it('so it is where jobs are inserted here, too', () => {
  const { places, choose, now } = suspicious()
  const levels = Array.from({ length: 1_500 }, (_, i) => job(100_000, 'default', i + 1))
  places.inserted(levels, now())
  expect(choose()?.places).toHaveLength(1_000)
})

describe('after an exact claim of many rows, others of many rows', () => {
  const plenty = true

  it('start right behind the last job, for a tenth of a second, while each is answered in full', () => {
    const { claim, choose, wait } = memory()
    claim(USUAL_MS, { plenty, jobs: [job(5_000)] })
    expect(choose()?.places).toEqual([{ queue: 'default', priority: 0, runAfter: 5_000, id: 'job' }])
    claim(USUAL_MS, { plenty, jobs: [job(6_000)], exact: false })
    expect(choose()?.places).toEqual([{ queue: 'default', priority: 0, runAfter: 6_000, id: 'job' }])
    wait(90)
    expect(choose()).toBeUndefined()
  })

  it('start a little before it when the last one was not, for commits that were late', () => {
    const { claim, choose } = memory()
    claim(USUAL_MS, { jobs: [job(5_000)] })
    expect(choose()?.places).toEqual([{ queue: 'default', priority: 0, runAfter: 4_950, id: '' }])
  })

  it('do so for ten times as long as it took, and no longer than a second', () => {
    const { claim, choose, wait } = memory()
    claim(15, { plenty })
    wait(149)
    expect(choose()).toBeDefined()
    wait(1)
    expect(choose()).toBeUndefined()
    claim(500, { plenty })
    wait(1_000)
    expect(choose()).toBeUndefined()
  })

  it('are exact again where that one, or they themselves, are of few rows', () => {
    const { claim, choose } = memory()
    claim(USUAL_MS, { rows: 99 })
    expect(choose()).toBeUndefined()
    claim(USUAL_MS, { plenty })
    expect(choose(99)).toBeUndefined()
    expect(choose(100)).toBeDefined()
  })

  it('start behind what was claimed, though the first job that was inserted here into the level is far from due', () => {
    const { claim, choose, places, now } = memory()
    claim(USUAL_MS, { plenty })
    places.inserted([job(86_400_000, 'default', 5, 'delayed')], now())
    claim(USUAL_MS, { plenty, jobs: [job(2_000, 'default', 5, 'due')] })
    expect(choose()?.places).toContainEqual({ queue: 'default', priority: 5, runAfter: 2_000, id: 'due' })
  })

  it('of other queues, or in another order, are exact in their turn', () => {
    const { claim, places, now, wait } = memory()
    const some = { ...request, queues: ['default'] }
    claim(USUAL_MS, { plenty })
    claim(USUAL_MS, { plenty, queues: some.queues })
    wait(80)
    claim(USUAL_MS, { plenty })
    // The other worker, or the other turn, has had the claim that was due.
    wait(10)
    expect(places.choose(request, now())).toBeDefined()
    expect(places.choose(some, now())).toBeUndefined()
    expect(places.choose({ ...request, queues: request.queues.toReversed() }, now())).toBeUndefined()
  })

  it('that found too little are followed by an exact one as soon as there may be one', () => {
    const { claim, places, now, wait } = memory()
    claim(USUAL_MS, { plenty })
    expect(places.againInMs(request.queues, now())).toBe(Infinity)
    claim(USUAL_MS, { exact: false })
    expect(places.againInMs(request.queues, now())).toBe(90)
    wait(95)
    expect(places.againInMs(request.queues, now())).toBe(0)
    claim(USUAL_MS)
    expect(places.againInMs(request.queues, now())).toBe(Infinity)
  })

  it('bring what was inserted here before their place, or into a new level', () => {
    const { claim, choose, places, now } = memory()
    claim(USUAL_MS, { plenty, jobs: [job(5_000)] })
    places.inserted([job(4_000, 'default', 0, 'early'), job(9_000, 'default', -1, 'urgent')], now())
    expect(choose()).toEqual({
      places: [
        { queue: 'default', priority: -1, runAfter: 9_000, id: '' },
        { queue: 'default', priority: 0, runAfter: 5_000, id: 'job' },
      ],
      early: ['early'],
    })
  })
})
