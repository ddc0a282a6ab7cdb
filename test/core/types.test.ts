import { describe, expect, expectTypeOf, it } from 'vitest'
import { z } from 'zod'
import { jobtable, type JobFile, type JobType, type JsonValue } from '../../src/index.js'

// What is stated here is checked by `npm run typecheck`: a line marked as an error fails it when it is none.
const queue = jobtable('sqlite::memory:')
const payload = z.object({ n: z.number(), v: z.string().default('x') })
const none = { none: 'a test' }
interface Named {
  name: string
  note?: string
}
interface Tree {
  name: string
  children: Tree[]
}
interface DatedTree {
  at: Date
  children: DatedTree[]
}
interface Folder {
  files: { in: Folder; size: number }[]
}
interface Link {
  to: Link | null
  after?: Link
}
type Nested = Named | Nested[]
interface Part {
  part?: DatedPart
}
interface DatedPart extends Part {
  at: Date
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
  it('which stages can have a label', () => {
    const stages = ['one', 'two'] as const
    queue.define('labelled', { payload, idempotency: none, stages, stageLabels: { one: 'One', two: { en: 'Two', zh: '二' } } })
    // @ts-expect-error there is no stage three
    queue.define('mislabelled', { payload, idempotency: none, stages, stageLabels: { three: 'Three' } })
    expect(queue.types.get('labelled')?.stageLabels).toEqual({ one: 'One', two: { en: 'Two', zh: '二' } })
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
  it('that a handler may return one thing or another, or nothing', () => {
    const either = queue.define('either', { payload, idempotency: none, run: (job) => (job.attempt > 1 ? null : { n: 1 }) })
    const maybe = queue.define('maybe', {
      payload,
      idempotency: none,
      run: async (job) => {
        if (job.attempt > 1) return
        return { n: 1 }
      },
    })
    const file = queue.define('maybe-file', {
      payload,
      idempotency: none,
      run: async (job) => (job.attempt > 1 ? null : job.file('a.txt', 'x')),
    })
    type ResultOf<T> = T extends { enqueue(...args: never[]): Promise<{ job: { result(): Promise<infer R> } }> } ? R : never
    expectTypeOf<ResultOf<typeof either>>().toEqualTypeOf<{ n: number } | null>()
    expectTypeOf<ResultOf<typeof maybe>>().toEqualTypeOf<{ n: number } | undefined>()
    expectTypeOf<ResultOf<typeof file>>().toEqualTypeOf<JobFile | null>()
  })
  it('that JSON may hold itself', () => {
    queue.define('json', { payload: z.json(), idempotency: none, run: (job) => job.payload })
    queue.define('tree', { payload: z.custom<Tree>(), idempotency: none, run: (job) => job.payload.children })
    queue.define('folder', { payload: z.custom<Folder>(), idempotency: none, run: (job): Folder => job.payload })
    queue.define('link', { payload: z.custom<Link>(), idempotency: none, run: (job) => job.payload.to })
    queue.define('nested', { payload: z.custom<Nested>(), idempotency: none, run: (job) => job.payload })
    const json = z.object({ data: z.record(z.string(), z.json()), tree: z.custom<Tree>().optional() })
    queue.define('json-inside', { payload: json, idempotency: none, run: (job) => job.payload })
    queue.define('json-returned', { payload, idempotency: none, run: (): { data: JsonValue } => ({ data: [1, { a: null }] }) })
    expect(queue.types.has('json-returned')).toBe(true)
  })
  it('what a handler returns that is given later, and that a contract without a result leaves it free', () => {
    const free = (name: string) => queue.define(name, { payload, idempotency: none })
    free('free').handle((job) => ({ n: job.payload.n }))
    free('free-async').handle(async (job) => (job.attempt > 1 ? null : [job.payload.v]))
    free('free-nothing').handle(() => {})
    free('free-file').handle((job) => job.file('a.txt', 'x'))
    free('free-any').handle((): Promise<unknown> => Promise.resolve(1))
    const kind = queue.define('kind', { payload, idempotency: none, result: z.object({ kind: z.enum(['a', 'b']) }) })
    kind.handle(async (job) => (job.attempt > 1 ? { kind: 'a' } : { kind: 'b' }))
    const general: JobType<{ n: number }, { n: number; v: string }, unknown> = kind
    expect(general.name).toBe('kind')
  })
  it('which fields a key can be made of, and which can be compared', () => {
    const key = z.object({
      text: z.string(),
      maybe: z.number().optional(),
      kind: z.enum(['a', 'b']),
      brand: z.string().brand<'id'>(),
      any: z.any(),
      unknown: z.unknown(),
    })
    const onDuplicate = 'ignore_duplicate'
    queue.define('fields', {
      payload: key,
      idempotency: { key: ['text', 'maybe', 'kind', 'brand', 'any', 'unknown'], compare: ['maybe', 'any'], onDuplicate },
    })
    queue.define('any-fields', { payload: z.any(), idempotency: { key: ['a'], compare: ['b'], onDuplicate } })
    queue.define('unknown-fields', { payload: z.unknown(), idempotency: { key: ['a'], compare: ['b'], onDuplicate } })
    queue.define('record', { payload: z.record(z.string(), z.string()), idempotency: { key: ['a'], onDuplicate } })
    const either = z.union([z.object({ id: z.string(), a: z.number() }), z.object({ id: z.number(), b: z.number() })])
    queue.define('union', { payload: either, idempotency: { key: ['id'], compare: ['id'], onDuplicate } })
    const split = z.object({ at: z.string(), tags: z.array(z.string()) }).transform(({ at }) => ({ day: at.slice(0, 10) }))
    queue.define('split', { payload: split, idempotency: { key: ['day'], compare: ['at', 'tags'], onDuplicate } })
    queue.define('split-by-function', { payload: split, idempotency: { key: ({ day }) => [day], compare: ['at'], onDuplicate } })
    expect(queue.types.get('split')?.rule?.compared).toEqual(['at', 'tags'])
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
      // @ts-expect-error a part of the result is no JSON
      queue.define('j', { payload, idempotency: none, run: (job) => (job.attempt > 1 ? null : { at: new Date() }) })
      // @ts-expect-error the contract states a result that is no JSON
      queue.define('k', { payload, idempotency: none, result: z.object({ at: z.date() }) })
      // @ts-expect-error a tree of Dates is no JSON
      queue.define('l', { payload: z.custom<DatedTree>(), idempotency: none })
      // @ts-expect-error a Date is no JSON, in a narrower type of the same kind either
      queue.define('s', { payload: z.custom<Part>(), idempotency: none })
      // @ts-expect-error a Map is no JSON
      some.handle(() => new Map())
      // @ts-expect-error a Date is no JSON, and a part of the result may be one
      some.handle(async (job) => (job.attempt > 1 ? null : { at: new Date() }))
      const files = queue.define('m', { payload, idempotency: { key: ['n'], onDuplicate: 'return_existing_file' } })
      // @ts-expect-error return_existing_file needs a handler that returns a file
      files.handle(() => ({ n: 1 }))
      const rich = z.object({
        o: z.object({ a: z.string() }),
        arr: z.array(z.string()),
        nil: z.string().nullable(),
        id: z.string(),
      })
      // @ts-expect-error an object makes no key
      queue.define('n', { payload: rich, idempotency: { key: ['o'], onDuplicate: 'ignore_duplicate' } })
      // @ts-expect-error an array makes no key
      queue.define('o', { payload: rich, idempotency: { key: ['id', 'arr'], onDuplicate: 'ignore_duplicate' } })
      // @ts-expect-error null makes no key
      queue.define('p', { payload: rich, idempotency: { key: ['nil'], onDuplicate: 'ignore_duplicate' } })
      const renamed = z.object({ at: z.string() }).transform(({ at }) => ({ day: at.slice(0, 10) }))
      // @ts-expect-error the input is compared, and has no such field
      queue.define('q', { payload: renamed, idempotency: { key: ['day'], compare: ['day'], onDuplicate: 'ignore_duplicate' } })
      // @ts-expect-error the key is made from the output, which has no such field
      queue.define('r', { payload: renamed, idempotency: { key: ['at'], onDuplicate: 'ignore_duplicate' } })
      // @ts-expect-error a duration has a unit
      void some.enqueue({ n: 1 }, { delay: '5' })
      // @ts-expect-error a duration is no number
      queue.work({ lease: 30_000 })
    }
    expect(refused).toBeTypeOf('function')
  })
})
