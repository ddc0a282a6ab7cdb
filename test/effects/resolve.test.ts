/** A person's word on an effect counts for the call that was looked at, and for none that was made meanwhile. */
import { afterEach, expect, it } from 'vitest'
import { z } from 'zod'
import { testQueue } from '../../src/testing/test-queue.js'
import { Provider, brokenOff } from './support.js'

const queue = testQueue()
afterEach(() => queue.close())

it('what was found of a held effect is refused when its job has run again meanwhile', async () => {
  const provider = new Provider()
  const pay = queue.define('pay', {
    payload: z.object({}),
    idempotency: { none: 'a test' },
    run: ({ effect }) =>
      effect('charge', {
        request: { amount: 5 },
        run: (body, { key }) => {
          provider.call(body, key)
          throw brokenOff()
        },
        onUnknown: 'hold',
      }),
  })
  const { job } = await pay.enqueue({})
  await queue.drain()
  const stale = queue.resolve(job.id, {
    effect: 'charge',
    reconcile: async () => {
      queue.clock.advance('1s')
      await queue.resolve(job.id, { effect: 'charge', as: 'not_done' })
      await queue.drain()
      return 'not_done' as const
    },
  })
  await expect(stale).rejects.toMatchObject({ code: 'effect_unknown' })
  expect(await queue.steps(job.id)).toMatchObject([{ name: 'charge', state: 'started' }])
  await queue.drain()
  expect(provider.calls).toHaveLength(2)
  expect((await job.refresh()).held).toBe(true)
})
