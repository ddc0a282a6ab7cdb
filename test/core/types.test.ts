import { describe, expect, expectTypeOf, it } from 'vitest'
import { z } from 'zod'
import { jobtable, type JobFile } from '../../src/index.js'

// What is stated here is checked by `npm run typecheck`: a line marked as an error fails it when it is none.
const queue = jobtable('sqlite::memory:')
const payload = z.object({ n: z.number(), v: z.string().default('x') })
const none = { none: 'a test' }
interface Named {
  name: string
  note?: string
}

describe('what the compiler knows', () => {
  it('runs from the payload through the handler to the result', async () => {
    const type = queue.define('through', {
      payload,
      idempotency: { key: ['n'], onDuplicate: 'return_previous_result' },
      stages: ['one', 'two'],
      run: async (job) => {
        expectTypeOf(job.payload).toEqualTypeOf<{ n: number; v: string }>()
        await job.stage('one')
        return { twice: job.payload.n * 2 }
      },
    })
    expectTypeOf(type.enqueue).parameter(0).toEqualTypeOf<{ n: number; v?: string | undefined }>()
    const use = async () => (await type.enqueue({ n: 1 })).job.result()
    expectTypeOf(use).returns.resolves.toEqualTypeOf<{ twice: number }>()
    expect(queue.types.get('through')?.stages).toEqual(['one', 'two'])
  })
  it('that a type with files gives files, with and without its handler', () => {
    const made = queue.define('file', {
      payload,
      idempotency: { key: (given) => [given.n], onDuplicate: 'return_existing_file' },
      run: (job) => job.file('a.txt', 'x'),
    })
    const contract = queue.define('contract', { payload, idempotency: { key: ['n'], onDuplicate: 'return_existing_file' } })
    contract.handle((job) => job.file('b.txt', job.payload.v))
    const results = () => Promise.all([made, contract].map(async (type) => (await type.enqueue({ n: 1 })).job.result()))
    expectTypeOf(results).returns.resolves.toEqualTypeOf<JobFile[]>()
    expect(queue.types.has('contract')).toBe(true)
  })
  it('the result that a contract states, where its handler is elsewhere', () => {
    const contract = queue.define('stated', { payload, idempotency: none, result: z.object({ words: z.number() }) })
    contract.handle((job) => ({ words: job.payload.n }))
    // @ts-expect-error the contract says otherwise
    const wrong = () => contract.handle(() => ({ words: 'many' }))
    expectTypeOf(async () => (await contract.enqueue({ n: 1 })).job.result()).returns.resolves.toEqualTypeOf<{ words: number }>()
    expect(wrong).toThrow(/has a handler already/)
  })
  it('that interfaces, nothing, and optional members are JSON', () => {
    const named = queue.define('named', { payload, idempotency: none, run: (): Named => ({ name: 'x' }) })
    const nothing = queue.define('nothing', { payload, idempotency: none, run: () => {} })
    expectTypeOf(async () => (await named.enqueue({ n: 1 })).job.result()).returns.resolves.toEqualTypeOf<Named>()
    expectTypeOf(async () => (await nothing.enqueue({ n: 1 })).job.result()).returns.resolves.toEqualTypeOf<void>()
    expect(queue.types.size).toBeGreaterThanOrEqual(2)
  })
})

describe('what the compiler refuses', () => {
  it('is refused, and none of it is ever run', () => {
    const refused = () => {
      const some = queue.define('some', { payload, idempotency: none })
      // @ts-expect-error the payload has no such field
      void some.enqueue({ m: 1 })
      // @ts-expect-error no idempotency rule, and no reason for having none
      queue.define('a', { payload })
      // @ts-expect-error the key is no field of the payload
      queue.define('b', { payload, idempotency: { key: ['m'], onDuplicate: 'ignore_duplicate' } })
      // @ts-expect-error the type has no such stage
      queue.define('c', { payload, idempotency: none, stages: ['one'], run: (job) => job.stage('two') })
      // @ts-expect-error a Date is no JSON
      queue.define('d', { payload: z.object({ at: z.date() }), idempotency: none })
      // @ts-expect-error a function is no JSON
      queue.define('e', { payload: z.object({ f: z.custom<() => void>() }), idempotency: none })
      // @ts-expect-error a result with a Date is no JSON
      queue.define('f', { payload, idempotency: none, run: () => ({ at: new Date() }) })
      // @ts-expect-error a result with a Map is no JSON
      queue.define('g', { payload, idempotency: none, run: () => new Map([[1, 2]]) })
      // @ts-expect-error return_existing_file needs a handler that returns a file
      queue.define('h', { payload, idempotency: { key: ['n'], onDuplicate: 'return_existing_file' }, run: () => 5 })
      // @ts-expect-error the handler returns what the contract does not say
      queue.define('i', { payload, idempotency: none, result: z.object({ words: z.number() }), run: () => ({ words: 'many' }) })
      // @ts-expect-error a duration has a unit
      void some.enqueue({ n: 1 }, { delay: '5' })
      // @ts-expect-error a duration is no number
      queue.work({ lease: 30_000 })
    }
    expect(refused).toBeTypeOf('function')
  })
})
