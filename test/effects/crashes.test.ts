/** A worker dies at every await of each verb, and the effects are those that the verb promises. */
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { EffectOptions, JobTransaction, Store } from '../../src/index.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { sqliteStore } from '../../src/stores/sqlite/index.js'
import { temporaryFolder } from '../stores/sqlite/support.js'
import { emptyDatabase } from '../support/postgres/database.js'
import { connectSqlite } from '../support/product-sqlite.js'
import { explore, type Act, type Life, type Scenario, type Stage } from './injector.js'

/** A stage with a table of the product's, and a count of its rows. */
interface Theatre extends Stage {
  write(tx: JobTransaction, mark: string): object[] | Promise<object[]>
  /** In the product's own transaction. */
  writeIn(tx: never, mark: string): void | Promise<void>
  rows(mark: string): Promise<number>
  close(): Promise<void>
}

async function onSqlite(): Promise<Theatre> {
  const { file, remove } = temporaryFolder()
  const store = sqliteStore({ path: file })
  await store.migrate()
  const product = connectSqlite(file)
  product.exec('CREATE TABLE rows (mark TEXT NOT NULL)')
  const insert = 'INSERT INTO rows (mark) VALUES (?)'
  return {
    store,
    transaction: (life) => async (work) => {
      product.exec('BEGIN IMMEDIATE')
      return commit(
        life,
        () => work(product as never),
        (sql) => product.exec(sql),
      )
    },
    write: (tx, mark) => tx.run(insert, [mark]),
    writeIn: (tx: never, mark) => void (tx as typeof product).prepare(insert).run(mark),
    rows: async (mark) => (product.prepare('SELECT count(*) AS n FROM rows WHERE mark = ?').get(mark) as { n: number }).n,
    close: async () => {
      await store.close()
      product.close()
      remove()
    },
  }
}

async function onPostgres(): Promise<Theatre> {
  const url = await emptyDatabase()
  const store = postgresStore({ connection: url })
  await store.migrate()
  const pool = new pg.Pool({ connectionString: url })
  await pool.query('CREATE TABLE rows (mark text NOT NULL)')
  const insert = 'INSERT INTO rows (mark) VALUES ($1)'
  return {
    store,
    transaction: (life) => async (work) => {
      const client = await pool.connect()
      await client.query('BEGIN')
      const say = (sql: string): Promise<unknown> => client.query(sql)
      return commit(
        life,
        () => work(client as never),
        say,
        () => client.release(),
      )
    },
    write: (tx, mark) => tx.query(insert, [mark]),
    writeIn: async (tx: never, mark) => void (await (tx as pg.PoolClient).query(insert, [mark])),
    rows: async (mark) =>
      (await pool.query<{ n: number }>('SELECT count(*)::int AS n FROM rows WHERE mark = $1', [mark])).rows[0]!.n,
    close: async () => {
      await store.close()
      await pool.end()
    },
  }
}

/** To the commit of a transaction that has begun. A death within rolls it back, as the end of its connection does. */
function commit<T>(life: Life, work: () => Promise<T>, say: (sql: string) => unknown, end: () => void = () => {}): Promise<T> {
  const over = async (): Promise<T> => {
    try {
      const answer = await work()
      life.within('before COMMIT')
      await say('COMMIT')
      return answer
    } catch (error) {
      await say('ROLLBACK')
      throw error
    } finally {
      end()
    }
  }
  return life.survive(over()).then(async (answer) => {
    await life.at('after COMMIT')
    return answer
  })
}

/** Who does what he is asked, and keeps books by mark. One that knows its keys does nothing twice for one key. */
class Provider {
  readonly #knowsKeys: boolean
  readonly #done: { mark: string; key: string; body: string }[] = []
  readonly #asked: { mark: string; key: string; body: string }[] = []

  constructor(knowsKeys: boolean) {
    this.#knowsKeys = knowsKeys
  }

  do(mark: string, key: string, body: unknown): { receipt: string } {
    const call = { mark, key, body: JSON.stringify(body) }
    this.#asked.push(call)
    if (!this.#knowsKeys || !this.find(mark, key)) this.#done.push(call)
    return { receipt: key }
  }

  find(mark: string, key: string): { receipt: string } | undefined {
    return this.#done.some((call) => call.mark === mark && call.key === key) ? { receipt: key } : undefined
  }

  count(mark: string): number {
    return this.#done.filter((call) => call.mark === mark).length
  }

  /** How many different calls it saw: one, however often. */
  kinds(mark: string): number {
    return new Set(this.#asked.filter((call) => call.mark === mark).map(({ key, body }) => `${key} ${body}`)).size
  }
}

describe.each([
  ['SQLite', onSqlite],
  ['PostgreSQL', onPostgres],
] as const)('on %s', { timeout: 60_000 }, (_, open) => {
  let theatre: Theatre
  beforeAll(async () => {
    theatre = await open()
  })
  afterAll(() => theatre?.close())

  const succeeded = (status: string): string[] => (status === 'succeeded' ? [] : [`the job is ${status}`])
  const once = async (mark: string): Promise<string[]> => {
    const rows = await theatre.rows(mark)
    return rows === 1 ? [] : [`the rows are there ${rows} times`]
  }

  /** A step with an effect in its middle, which counts. */
  function stepping(): { scenario: Scenario; count: (mark: string) => number } {
    const counts = new Map<string, number>()
    const count = (mark: string): number => counts.get(mark) ?? 0
    const scenario: Scenario = {
      leastAwaits: 8,
      run: ({ job, life, mark }) =>
        job.step('once', async () => {
          await life.at('in the function')
          counts.set(mark, count(mark) + 1)
          await life.at('in the function, after the effect')
          return count(mark)
        }),
      check: ({ row, mark, deaths }) => {
        // It runs again exactly when it was not recorded.
        const last = deaths.at(-1)
        const expected = last ? (last.done.includes('once') ? last.count : last.count + 1) : 1
        const problems = succeeded(row.status)
        if (count(mark) < 1) problems.push('the step did not run')
        if (count(mark) !== expected) problems.push(`the step ran ${count(mark)} times, not ${expected}`)
        return problems
      },
    }
    return { scenario, count }
  }

  const UNKNOWN = ['same_key', 'reconcile', 'hold'] as const

  /** An effect, and a person who looks into the provider's books where it is held. */
  function charging(onUnknown: (typeof UNKNOWN)[number], keyOf = (key: string, _: Act): string => key): Scenario {
    const provider = new Provider(onUnknown === 'same_key')
    return {
      leastAwaits: 10,
      run: async (act) => {
        const { job, life, mark } = act
        const answer = await job.effect('charge', {
          request: async () => {
            await life.at('while the request is made')
            return { mark, made: Math.random() }
          },
          run: async (body, { key }) => {
            await life.at('before the call')
            const receipt = provider.do(mark, keyOf(key, act), body)
            await life.at('after the call')
            return receipt
          },
          onUnknown,
          ...(onUnknown === 'reconcile' && {
            reconcile: async (_: unknown, { key }: { key: string }) => {
              await life.at('while it is asked')
              const done = provider.find(mark, key)
              return done ? { done } : 'not_done'
            },
          }),
        } as EffectOptions<{ mark: string; made: number }, { receipt: string }>)
        await life.at('after the effect')
        return answer
      },
      mend: async (store, row, mark) => {
        const held = (await store.steps(row.id)).find((step) => step.state === 'started')
        if (row.history.at(-1)?.code !== 'effect_unknown' || !held) return false
        const found = provider.find(mark, held.key!)
        await store.resolveStep(
          row,
          { name: 'charge', state: found ? 'done' : 'refused', value: found ? JSON.stringify(found) : null },
          'a person',
        )
        await store.repair([row.id], 'a person')
        return true
      },
      check: ({ row, mark }) => {
        const problems = succeeded(row.status)
        const done = provider.count(mark)
        if (done !== 1) problems.push(`the effect happened ${done} times`)
        // A request that was never begun, or was found not to be done, may be made anew.
        if (onUnknown !== 'hold' && provider.kinds(mark) !== 1) problems.push(`the provider saw ${provider.kinds(mark)} requests`)
        const result = JSON.parse(row.result ?? 'null') as { receipt?: string } | null
        if (result?.receipt === undefined) problems.push('the receipt is not there')
        return problems
      },
    }
  }

  const after = <T, U>(value: T | Promise<T>, then: (value: T) => U): U | Promise<U> =>
    value instanceof Promise ? value.then(then) : then(value)

  const TRANSACTIONS: Record<string, Scenario> = {
    'job.transaction with a name': {
      leastAwaits: 9,
      run: async ({ job, life, mark }) => {
        await job.transaction('rows', (tx) => {
          life.within('in the transaction')
          return after(theatre.write(tx, mark), () => (life.within('in the transaction, after the rows'), 1))
        })
        await life.at('after the transaction')
      },
      check: async ({ row, mark }) => [...succeeded(row.status), ...(await once(mark))],
    },
    'job.transaction that completes': {
      leastAwaits: 7,
      run: async ({ job, life, mark }) => {
        await job.transaction((tx) => {
          life.within('in the transaction')
          return after(theatre.write(tx, mark), () => (life.within('in the transaction, after the rows'), 'done'))
        })
        await life.at('after the transaction')
      },
      check: async ({ row, mark }) => [
        ...succeeded(row.status),
        ...(await once(mark)),
        ...(row.result === '"done"' ? [] : ['the result is not there']),
      ],
    },
    "job.complete in the product's transaction": {
      leastAwaits: 7,
      run: async ({ job, life, mark, transaction }) => {
        await transaction(async (tx) => {
          life.within('in the transaction')
          await theatre.writeIn(tx, mark)
          await job.complete(tx, 'done')
        })
        await life.at('after the transaction')
      },
      check: async ({ row, mark }) => [...succeeded(row.status), ...(await once(mark))],
    },
    "job.checkpoint in the product's transaction": {
      leastAwaits: 9,
      run: async ({ job, life, mark, transaction }) => {
        if (!(await job.recorded('rows'))) {
          await transaction(async (tx) => {
            life.within('in the transaction')
            await theatre.writeIn(tx, mark)
            await job.checkpoint(tx, 'rows')
          })
        }
        await life.at('after the transaction')
      },
      check: async ({ row, mark }) => [...succeeded(row.status), ...(await once(mark))],
    },
  }

  it('job.step: at least once, and not again once it is recorded', async () => {
    const { scenario, count } = stepping()
    const { awaits, violations } = await explore(theatre, scenario, { count })
    expect(violations).toEqual([])
    expect(awaits.length).toBeGreaterThanOrEqual(scenario.leastAwaits)
  })

  it.each(UNKNOWN)('job.effect with %s: exactly once, by one key', async (onUnknown) => {
    const scenario = charging(onUnknown)
    const { awaits, violations } = await explore(theatre, scenario)
    expect(violations).toEqual([])
    expect(awaits.length).toBeGreaterThanOrEqual(scenario.leastAwaits)
  })

  it.each(Object.keys(TRANSACTIONS))('%s: exactly once', async (which) => {
    const scenario = TRANSACTIONS[which]!
    const { awaits, violations } = await explore(theatre, scenario)
    expect(violations).toEqual([])
    expect(awaits.length).toBeGreaterThanOrEqual(scenario.leastAwaits)
  })

  describe('a variant that breaks the promise is caught:', () => {
    const forgets = (store: Store): Store => ({ ...store, recordStep: async () => 'recorded' })
    const tooEarly = (store: Store): Store => ({
      ...store,
      recordStep: (fence, step) =>
        store.recordStep(fence, { ...step, state: 'done', value: step.value ?? '{"receipt":"early"}' }),
    })
    /** Commits the product's rows, and nothing beside them. */
    const without = (store: Store): Store => ({ ...store, recordIn: () => 'recorded' })

    it('a step that is not recorded', async () => {
      const { scenario, count } = stepping()
      // The deaths see what is recorded: nothing, so that every further run is allowed. It is the recorded one that must not repeat.
      const remembered: Scenario = {
        ...scenario,
        check: (end) =>
          scenario.check({ ...end, deaths: end.deaths.map((death) => ({ ...death, done: sawRecord(death.await) })) }),
      }
      expect((await explore(theatre, remembered, { count, alter: forgets })).violations).not.toEqual([])
      expect((await explore(theatre, remembered, { count })).violations).toEqual([])
    })

    it('an effect that is recorded before it happens', async () => {
      expect((await explore(theatre, charging('hold'), { alter: tooEarly })).violations).not.toEqual([])
    })

    it('an effect that is not recorded, whose provider does not know keys', async () => {
      expect((await explore(theatre, charging('hold'), { alter: forgets })).violations).not.toEqual([])
    })

    it('a key that is made of the attempt', async () => {
      const byAttempt = charging('same_key', (key, { job }) => `${key}-${job.attempt}`)
      expect((await explore(theatre, byAttempt)).violations).not.toEqual([])
    })

    it.each(Object.keys(TRANSACTIONS))('%s, where the commit holds the rows alone', async (which) => {
      expect((await explore(theatre, TRANSACTIONS[which]!, { alter: without })).violations).not.toEqual([])
    })
  })
})

/** Whether the answer to the record had come, or the attempt had gone on, when it died there. */
function sawRecord(death: string): string[] {
  return death === 'after done once' || death.endsWith('settle') ? ['once'] : []
}
