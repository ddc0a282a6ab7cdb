import { expectTypeOf, test } from 'vitest'
import type { JobContext, JobTransaction } from '../../src/index.js'

// What is stated here is checked by `npm run typecheck`: a line marked as an error fails it when it is none.
declare const job: JobContext<{ n: number }>

test('the compiler knows the values of steps, and refuses what is no JSON', () => {
  const steps = async () => {
    expectTypeOf(await job.step('a', () => ({ made: 1 }))).toEqualTypeOf<{ made: number }>()
    expectTypeOf(await job.step('b', async () => 'text')).toEqualTypeOf<string>()
    expectTypeOf(await job.transaction('c', (tx: JobTransaction) => tx.query<{ n: number }>('SELECT 1 AS n'))).toEqualTypeOf<
      { n: number }[]
    >()
    // @ts-expect-error a Date is no JSON
    await job.step('d', () => ({ at: new Date() }))
    // @ts-expect-error nor is a Map
    await job.transaction('e', () => new Map())
  }
  expectTypeOf(steps).returns.resolves.toBeVoid()
})

test('the compiler knows the request of an effect, and what each onUnknown needs', () => {
  const effects = async () => {
    const receipt = await job.effect('a', {
      request: () => ({ amount: 5 }),
      run: (body, { key }) => ({ paid: body.amount, key }),
      onUnknown: 'reconcile',
      reconcile: (body) => ({ done: { paid: body.amount, key: 'k' } }),
    })
    expectTypeOf(receipt).toEqualTypeOf<{ paid: number; key: string }>()
    // @ts-expect-error reconcile is missing
    await job.effect('b', { request: 1, run: () => 1, onUnknown: 'reconcile' })
    // @ts-expect-error nobody says what to do about an unknown outcome
    await job.effect('c', { request: 1, run: () => 1 })
    // @ts-expect-error a function is no JSON
    await job.effect('d', { request: { call: () => 1 }, run: () => 1, onUnknown: 'hold' })
  }
  expectTypeOf(effects).returns.resolves.toBeVoid()
})
