/** The order of lists over rows whose ids carry their time, and rows whose ids do not. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { isTimeOrdered, newestFirst, TIME_ORDERED } from '../../../src/stores/postgres/order.js'
import { postgresStore } from '../../../src/stores/postgres/index.js'
import { freeSchema, quoted } from '../../support/postgres/database.js'

const place = await freeSchema()
const jobs = `${quoted(place.schema)}.jobs`
const store = postgresStore({ connection: place.url, schema: place.schema })
beforeAll(() => store.migrate())
afterEach(() => place.query(`TRUNCATE ${jobs}`))
afterAll(async () => {
  await store.close()
  await place.drop()
})

const START = 1_700_000_000_000

function uuid(time: number, count = 0): string {
  const digits = time.toString(16).padStart(12, '0')
  return `${digits.slice(0, 8)}-${digits.slice(8)}-7${count.toString(16).padStart(3, '0')}-8000-000000000000`
}

async function add(...rows: (readonly [id: string, createdAt: number | string])[]): Promise<string[]> {
  for (const [id, at] of rows) {
    const time = typeof at === 'string' ? at : new Date(at).toISOString()
    await place.query(`INSERT INTO ${jobs} (id, type, created_at) VALUES ($1, 'mail', $2)`, [id, time])
  }
  return rows.map(([id]) => id)
}

const remove = (...ids: string[]) => place.query(`DELETE FROM ${jobs} WHERE id = ANY ($1)`, [ids])

async function listed(page: { limit?: number; before?: string } = {}): Promise<string[]> {
  return (await store.list({}, { limit: 1_000, ...page })).map(({ id }) => id)
}

describe('a list', () => {
  it('goes by the id where it carries its time, whatever created_at is, and by created_at where it does not', async () => {
    await add([uuid(START + 1), START + 9], ['own-a', START + 2], [uuid(START + 3), START], ['own-b', START + 4])
    expect(await listed()).toEqual(['own-b', uuid(START + 3), 'own-a', uuid(START + 1)])
  })

  it('has those of one millisecond together, whose ids carry their time before the others', async () => {
    await add(['b', START], [uuid(START, 2), START], ['a', START], [uuid(START, 1), START], ['z', START - 1], ['0', START + 1])
    expect(await listed()).toEqual(['0', uuid(START, 2), uuid(START, 1), 'b', 'a', 'z'])
  })

  it('continues rightly behind every row, in pages of every size, whatever the ids and times', async () => {
    const forms = [uuid(START), uuid(START + 1).toUpperCase(), uuid(0), uuid(0x0fff_ffff_ffff), uuid(START, 1)]
    const replaced = ['/', ':', 'A', 'F', 'G', 'a', 'f', 'g', '-', ' ', '\n', 'é', '👍', '~'].flatMap((character) =>
      [1, 3, 7, 9, 12, 20].map((at) => uuid(START).slice(0, at) + character + uuid(START).slice(at + 1)),
    )
    const zeros = ['/', ' ', '-', ':'].map((character) => uuid(0).slice(0, 5) + character + uuid(0).slice(6))
    const timed = [...new Set([...forms, ...replaced, ...zeros])].filter((id) => isTimeOrdered(id))
    const times = [
      START - 1,
      START,
      START,
      START,
      START + 1,
      START + 16,
      START - 0x1000,
      START + 0x1000_0000,
      0,
      1,
      -1,
      -86_400_000,
    ]
    const edges = ['infinity', '-infinity', '9999-12-31T23:59:59.999Z', '20000-01-01T00:00:00Z', '2527-06-24T00:00:00Z']
    await add(...timed.map((id) => [id, START] as const))
    await add(...[...times, ...edges].map((time, i) => [`${'z0Aé~'[i % 5]}${i}`, time] as const))
    // Of the form, but for one thing.
    const unlike = [
      uuid(START).replace('-7', '-4'),
      `1${uuid(START).slice(1)}`,
      `${uuid(START)}0`,
      uuid(START).slice(1),
      uuid(START).replaceAll('-', ''),
    ]
    await add(...unlike.map((id, i) => [id, START + i] as const))

    const classes = await place.query<{ id: string; timed: boolean }>(`SELECT id, ${TIME_ORDERED} AS timed FROM ${jobs}`)
    for (const row of classes) expect([row.id, isTimeOrdered(row.id)]).toEqual([row.id, row.timed])
    const all = await listed()
    expect(new Set(all).size).toBe(classes.length)
    expect((await store.list({}, { limit: 1_000 })).toSorted(newestFirst).map(({ id }) => id)).toEqual(all)
    for (const [i, before] of all.entries()) {
      expect(await listed({ before }), before).toEqual(all.slice(i + 1))
      for (const limit of [1, 2, 7]) expect(await listed({ before, limit }), before).toEqual(all.slice(i + 1, i + 1 + limit))
    }
  })

  it('continues where it was when the last row, whose id carries its time, was pruned meanwhile', async () => {
    const ids = await add(
      [uuid(START), START],
      ['b', START],
      ['a', START + 1],
      [uuid(START + 2), START],
      [uuid(START + 2, 1), START],
      ['c', START + 3],
    )
    ids.reverse()
    await remove(uuid(START + 2), uuid(START + 2, 1))
    for (const before of [uuid(START + 2), uuid(START + 2, 1)]) expect(await listed({ before })).toEqual(['a', uuid(START), 'b'])
    expect(await listed({ before: uuid(START + 2).toUpperCase() })).toEqual([])
  })

  it('continues by the neighbours of the last row, whose id does not carry its time, when it was pruned meanwhile', async () => {
    const rows = Array.from(
      { length: 4 },
      (_, i) =>
        [
          [`own-${i}`, START + 10 * i],
          [uuid(START + 10 * i + 5), START],
        ] as const,
    ).flat()
    await add(...rows)
    expect(await listed({ before: 'own-2' })).toEqual([uuid(START + 15), 'own-1', uuid(START + 5), 'own-0'])
    await remove('own-2')
    expect(await listed({ before: 'own-2' })).toEqual(['own-1', uuid(START + 5), 'own-0'])
    await remove('own-0', 'own-1')
    expect(await listed({ before: 'own-2' })).toEqual([uuid(START + 25), uuid(START + 15), uuid(START + 5)])
    await remove('own-3')
    expect(await listed({ before: 'own-2' })).toEqual([35, 25, 15, 5].map((ms) => uuid(START + ms)))
  })

  it('has what matches a filter, of either kind of ids', async () => {
    const ids = Array.from({ length: 20 }, (_, i) => (i % 2 === 0 ? uuid(START + i) : `own-${(i * 7) % 20}`))
    await add(...ids.map((id, i) => [id, START + i] as const))
    const wanted = ids.filter((_, i) => i % 5 < 2).toReversed()
    await place.query(
      `UPDATE ${jobs} SET queue = 'q', idempotency_key = 'k', type = id, status = 'failed', last_error = 'Broken' WHERE id = ANY ($1)`,
      [wanted],
    )
    await place.query(
      `INSERT INTO ${quoted(place.schema)}.job_steps (job_id, name, kind, state, attempt, started_at)
      SELECT id, 'charge', 'effect', 'started', 1, now() FROM ${jobs} WHERE id = ANY ($1)`,
      [wanted],
    )
    const filters = [
      { ids: wanted },
      { queue: ['q'] },
      { status: ['failed'] },
      { type: wanted },
      { idempotencyKey: 'k' },
      { held: true },
      { errorContains: 'broken' },
    ] as const
    for (const filter of filters) {
      for (const limit of [1, 3, 20]) {
        const seen: string[] = []
        for (let page = await store.list(filter, { limit }); page.length > 0;) {
          seen.push(...page.map(({ id }) => id))
          page = await store.list(filter, { limit, before: seen.at(-1)! })
        }
        expect(seen, JSON.stringify(filter)).toEqual(wanted)
      }
    }
    const age = Date.now() - START
    expect(await store.list({ olderThanMs: age + 60_000 }, { limit: 100 })).toEqual([])
    expect(await store.list({ youngerThanMs: age + 60_000 }, { limit: 100 })).toHaveLength(20)
  })
})
