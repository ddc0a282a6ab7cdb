import { describe, expect, it } from 'vitest'
import { JobtableError, PermanentError, RetryAfter, TransientError, type EffectOptions } from '../../src/index.js'
import { DATABASES } from '../faults/support/databases.js'
import { answered, brokenOff, defineJob, Provider } from './support.js'

const request = { amount: 5, currency: 'eur' }

describe.each(DATABASES)('job.effect on $name', ({ place }) => {
  /** One job with one effect; `run` is what the provider does at each call. */
  async function charging(
    options: Partial<EffectOptions<unknown, unknown>> & { onUnknown: 'same_key' | 'reconcile' | 'hold' },
    answers: ((provider: Provider) => void)[] = [],
  ) {
    const here = await place()
    const provider = new Provider()
    const job = defineJob(here, ({ effect }) =>
      effect('charge', {
        request,
        run: (body, { key }) => {
          const receipt = provider.call(body, key)
          answers[provider.calls.length - 1]?.(provider)
          return receipt
        },
        ...options,
      } as EffectOptions<typeof request, { receipt: number }>),
    )
    return { here, provider, ...job }
  }
  const throws = (error: Error) => (): never => {
    throw error
  }

  it('an effect that is done is not called again, whatever fails after it', async () => {
    const provider = new Provider()
    const { queue, enqueue, drain } = defineJob(await place(), async ({ effect, attempt }) => {
      const receipt = await effect('charge', { request, run: (body, { key }) => provider.call(body, key), onUnknown: 'hold' })
      if (attempt < 3) throw new TransientError('the rest failed')
      return receipt
    })
    const job = await enqueue()
    await drain()
    expect(await job.result()).toEqual({ receipt: 1 })
    expect(provider.calls).toHaveLength(1)
    expect(await queue.steps(job.id)).toMatchObject([
      { name: 'charge', kind: 'effect', state: 'done', attempt: 1, request: JSON.stringify(request), key: provider.keys[0] },
    ])
  })

  it('the key is that of type, business key and name: the same for a new job in place of a failed one', async () => {
    const { provider, queue, enqueue, drain } = await charging({ onUnknown: 'same_key' }, [
      throws(brokenOff()),
      throws(answered(400)),
    ])
    const first = await enqueue()
    await drain()
    expect((await first.refresh()).status).toBe('failed')
    const second = await enqueue()
    expect(second.id).not.toBe(first.id)
    await drain()
    expect(await second.result()).toEqual({ receipt: 3 })
    expect(provider.keys).toEqual([expect.stringMatching(/^jobtable-[0-9a-f]{40}$/)])
    expect(await queue.steps(first.id)).toMatchObject([{ state: 'started', key: provider.keys[0] }])
  })

  describe('with a provider that answers a key with what it has answered before, be it a refusal', () => {
    /** Refuses, with this error, until somebody has repaired the cause. */
    async function remembering(error: Error) {
      const answers = new Map<string, { error: Error } | { receipt: string }>()
      const keys: string[] = []
      const provider = { repaired: false, keys }
      const job = defineJob(await place(), ({ effect }) =>
        effect('charge', {
          request,
          run: (_, { key }) => {
            keys.push(key)
            const now = provider.repaired ? { receipt: key } : { error }
            const known = answers.get(key) ?? now
            answers.set(key, known)
            if ('error' in known) throw known.error
            return known.receipt
          },
          onUnknown: 'same_key',
        }),
      )
      const first = await job.enqueue()
      await job.drain()
      provider.repaired = true
      return { ...job, provider, first }
    }
    const declined = Object.assign(new Error('your card was declined'), { status: 402 })
    const expected = (key: string) => [key, `${key}-2`]

    it('a job that is retried when the cause of a refusal is repaired is served', async () => {
      const { queue, provider, first, drain } = await remembering(declined)
      const [key] = provider.keys
      expect(await queue.steps(first.id)).toMatchObject([{ state: 'refused', key: `${key}-2` }])
      await first.retry()
      await drain()
      expect(await first.result()).toBe(`${key}-2`)
      expect(provider.keys).toEqual(expected(key!))
      expect(await queue.steps(first.id)).toMatchObject([{ state: 'done', key: `${key}-2` }])
    })

    it('and so is a new job under its idempotency key', async () => {
      const { provider, first, enqueue, drain } = await remembering(declined)
      const second = await enqueue()
      await drain()
      expect(second.id).not.toBe(first.id)
      expect(await second.result()).toBe(`${provider.keys[0]}-2`)
      expect(provider.keys).toEqual(expected(provider.keys[0]!))
    })

    it('each refusal for good gives the next call another key', async () => {
      const { provider, first, drain } = await remembering(declined)
      provider.repaired = false
      for (const repaired of [false, true]) {
        provider.repaired = repaired
        await first.retry()
        await drain()
      }
      const [key] = provider.keys
      expect(provider.keys).toEqual([key, `${key}-2`, `${key}-3`])
      expect((await first.refresh()).status).toBe('succeeded')
    })

    it('an outcome that nobody knows keeps the key, until a person says that it was not done', async () => {
      const { queue, provider, first, drain } = await remembering(answered(500))
      expect((await first.refresh()).status).toBe('failed')
      await first.retry()
      await drain()
      expect(new Set(provider.keys).size).toBe(1)
      const [key] = provider.keys
      await queue.resolve(first.id, { effect: 'charge', as: 'not_done' })
      // The word can still be corrected, and then the record has the key that was looked up.
      expect(await queue.steps(first.id)).toMatchObject([{ state: 'refused', key }])
      await drain()
      expect(await first.result()).toBe(`${key}-2`)
    })

    it.each([
      ['its cause', (cause: Error) => new PermanentError('the provider is too slow', { code: 'too_slow', cause }), undefined],
      [
        'the error itself, which only the type calls permanent',
        (error: Error) => error,
        () => ({ kind: 'permanent', code: 'too_slow', blame: 'provider' }) as const,
      ],
    ])('what is called permanent keeps the key where it may have happened all the same: %s', async (_, thrown, classify) => {
      const keys: string[] = []
      const { enqueue, drain } = defineJob(
        await place(),
        ({ effect }) =>
          effect('charge', {
            request: { n: 1 },
            run: async (_body, { key }) => {
              keys.push(key)
              if (keys.length === 1) throw thrown(brokenOff())
              return null
            },
            onUnknown: 'same_key',
          }),
        { type: { classify } },
      )
      const job = await enqueue()
      await drain()
      expect((await job.refresh()).status).toBe('failed')
      await job.retry()
      await drain()
      expect((await job.refresh()).status).toBe('succeeded')
      expect(keys).toEqual([keys[0], keys[0]])
    })

    it.each([
      ['the same one', false, (key: string) => [key, key]],
      ['another one where its request is another', true, (key: string) => [key, `${key}-2`]],
    ])('a refusal for now leaves the next call its key: %s', async (_, drawn, keys) => {
      let calls = 0
      const seen: string[] = []
      const { enqueue, drain } = defineJob(await place(), ({ effect }) =>
        effect<{ n: number }, null>('charge', {
          request: drawn ? () => ({ n: ++calls }) : { n: 1 },
          run: (_body, { key }) => {
            seen.push(key)
            if (seen.length === 1) throw answered(429)
            return null
          },
          onUnknown: 'same_key',
        }),
      )
      await enqueue()
      await drain()
      expect(seen).toEqual(keys(seen[0]!))
    })
  })

  it.each(['failed', 'canceled'] as const)(
    'what is in doubt of a %s job stays so for the job that takes its place',
    async (status) => {
      const { queue, provider, enqueue, drain } = await charging({ onUnknown: 'hold' }, [throws(brokenOff())])
      const first = await enqueue()
      await drain()
      if (status === 'canceled') {
        await first.retry()
        await first.cancel()
      }
      const second = await enqueue()
      await drain()
      expect(second.id).not.toBe(first.id)
      expect(await second.refresh()).toMatchObject({ status: 'failed', held: true })
      expect(provider.calls).toHaveLength(1)
      await expect(queue.resolve(first.id, { effect: 'charge', as: 'not_done' })).rejects.toMatchObject({
        code: 'key_superseded',
        message: expect.stringContaining(second.id) as string,
      })
      await queue.resolve(second.id, { effect: 'charge', as: 'done', result: { receipt: 9 } })
      await drain()
      expect(await second.result()).toEqual({ receipt: 9 })
    },
  )

  it('a job that takes the place of a failed one is answered by what is done, asks for what is in doubt, and sends one request', async () => {
    const seen: unknown[] = []
    const provider = new Provider()
    let built = 0
    const { queue, enqueue, drain } = defineJob(
      await place(),
      async ({ effect }) => {
        const call = (body: unknown, { key }: { key: string }): unknown => provider.call(body, key)
        const first = await effect('first', { request: { n: 1 }, run: call as () => number, onUnknown: 'same_key' })
        const second = await effect('second', {
          request: () => ({ built: ++built }),
          run: (body, { key }) => {
            provider.call(body, key)
            throw brokenOff()
          },
          onUnknown: 'reconcile',
          reconcile: (body, { key }) => (seen.push([body, key]), { done: 'found' as never }),
        })
        return { first, second }
      },
      { type: { retry: { maxAttempts: 1 } } },
    )
    await enqueue()
    await drain()
    const job = await enqueue()
    await drain()
    expect(await job.result()).toEqual({ first: { receipt: 1 }, second: 'found' })
    expect(provider.calls).toHaveLength(2)
    expect(seen).toEqual([[{ built: 1 }, provider.calls[1]!.key]])
    expect((await queue.steps(job.id)).map(({ name, state }) => [name, state])).toEqual([
      ['first', 'done'],
      ['second', 'done'],
    ])
  })

  it('a canceled job whose effect is resolved stays canceled, until it is retried', async () => {
    const { queue, enqueue, drain } = await charging({ onUnknown: 'hold' }, [throws(brokenOff())])
    const job = await enqueue()
    await drain()
    await job.retry()
    await job.cancel()
    const resolved = await queue.resolve(job.id, { effect: 'charge', as: 'done', result: { receipt: 9 } })
    expect(resolved.status).toBe('canceled')
    await job.retry()
    await drain()
    expect(await job.result()).toEqual({ receipt: 9 })
  })

  it('the request is frozen before the call, and a function of it is called once', async () => {
    const provider = new Provider()
    let built = 0
    const seen: string[] = []
    const { queue, enqueue, drain } = defineJob(await place(), ({ id, effect }) =>
      effect('charge', {
        request: () => ({ number: ++built }),
        run: async (body, { key }) => {
          seen.push((await queue.steps(id))[0]!.request!)
          provider.call(body, key)
          if (provider.calls.length < 3) throw brokenOff()
        },
        onUnknown: 'same_key',
      }),
    )
    const job = await enqueue()
    await drain()
    expect((await job.refresh()).status).toBe('succeeded')
    expect(built).toBe(1)
    expect(seen).toEqual(['{"number":1}', '{"number":1}', '{"number":1}'])
    expect(provider.calls.map(({ body }) => body)).toEqual([{ number: 1 }, { number: 1 }, { number: 1 }])
    expect(provider.keys).toHaveLength(1)
  })

  it('what a handler does to the body changes neither the record nor the next call', async () => {
    const provider = new Provider()
    const { queue, enqueue, drain } = defineJob(await place(), ({ effect }) => {
      const call = (body: { n: number }, { key }: { key: string }): void => {
        provider.call({ ...body }, key)
        body.n = 9
      }
      return effect('charge', {
        request: { n: 1 },
        run: (body, options) => {
          call(body, options)
          if (provider.calls.length === 1) throw brokenOff()
        },
        onUnknown: 'reconcile',
        reconcile: (body, options) => (call(body, options), 'not_done'),
      })
    })
    const job = await enqueue()
    await drain()
    expect((await job.refresh()).status).toBe('succeeded')
    expect(provider.calls.map(({ body }) => body)).toEqual([{ n: 1 }, { n: 1 }, { n: 1 }])
    expect(await queue.steps(job.id)).toMatchObject([{ request: '{"n":1}' }])
  })

  it('a refusal frees it to begin anew, with another request too', async () => {
    const provider = new Provider()
    let amount = 5
    const { queue, enqueue, drain } = defineJob(await place(), ({ effect }) =>
      effect('charge', {
        request: { amount },
        run: (body, { key }) => {
          provider.call(body, key)
          if (provider.calls.length === 1) throw answered(422)
          return null
        },
        onUnknown: 'hold',
      }),
    )
    const job = await enqueue()
    await drain()
    expect((await job.refresh()).status).toBe('failed')
    expect(await queue.steps(job.id)).toMatchObject([{ state: 'refused' }])
    amount = 6
    await job.retry()
    await drain()
    expect((await job.refresh()).status).toBe('succeeded')
    expect(provider.calls.map(({ body }) => body)).toEqual([{ amount: 5 }, { amount: 6 }])
  })

  it.each([
    ['a rate limit', answered(429), 'refused'],
    ['a wait that it asks for itself', new RetryAfter('1s'), 'refused'],
    ['a word of its own that it cannot be', new PermanentError('no such customer'), 'refused'],
    ['a connection that never came about', Object.assign(new Error('refused'), { code: 'ECONNREFUSED' }), 'refused'],
    ['a broken connection', brokenOff(), 'started'],
    ['a server error', answered(500), 'started'],
    ['a conflict', answered(409), 'started'],
    ['an answer that does not fit its schema', Object.assign(new Error('invalid'), { name: 'ZodError', issues: [] }), 'started'],
    ['a fault of its own code', new TypeError('x is not a function'), 'started'],
    ['a transaction of its own that was not committed', new JobtableError('transaction_uncommitted', 'not committed'), 'started'],
    ['a transaction of its own that is over', new JobtableError('transaction_over', 'over'), 'started'],
  ])('after %s the record says whether it may have happened', async (_, error, state) => {
    const states: string[] = []
    const { queue, enqueue, drain } = defineJob(await place(), async ({ id, effect }) => {
      const charge = effect('charge', { request, run: throws(error), onUnknown: 'same_key' })
      await expect(charge).rejects.toBe(error)
      states.push((await queue.steps(id))[0]!.state)
    })
    await enqueue()
    await drain()
    expect(states).toEqual([state])
  })

  it('a refusal of a call that is made again says nothing of the one before it', async () => {
    const { queue, provider, enqueue, drain } = await charging({ onUnknown: 'same_key' }, [
      throws(brokenOff()),
      throws(answered(401)),
    ])
    const job = await enqueue()
    await drain()
    expect((await job.refresh()).status).toBe('failed')
    expect(await queue.steps(job.id)).toMatchObject([{ state: 'started', attempt: 2 }])
    await job.retry()
    await drain()
    expect(await job.result()).toEqual({ receipt: 3 })
    expect(provider.keys).toHaveLength(1)
  })

  it.each([
    ['done', { done: { receipt: 70 } }, { status: 'succeeded', calls: 1, result: { receipt: 70 } }],
    ['not done', 'not_done', { status: 'succeeded', calls: 2, result: { receipt: 2 } }],
    ['unknown', 'unknown', { status: 'failed', calls: 1, result: null }],
  ])('reconcile that finds it %s decides', async (_, answer, expected) => {
    const asked: unknown[] = []
    const { provider, enqueue, drain } = await charging(
      {
        onUnknown: 'reconcile',
        reconcile: (body: unknown, { key }: { key: string }) => (asked.push([body, key]), answer),
      } as never,
      [throws(brokenOff())],
    )
    const job = await enqueue()
    await drain()
    const { status, history } = await job.refresh()
    expect({ status, calls: provider.calls.length, result: (await job.refresh()).toJSON()['result'] }).toEqual(expected)
    expect(asked).toEqual([[request, provider.keys[0]]])
    if (status === 'failed') expect(history.at(-1)).toMatchObject({ code: 'effect_unknown', kind: 'permanent' })
  })

  it('hold: the job fails at once, and a repair alone does not call again', async () => {
    const { provider, enqueue, drain } = await charging({ onUnknown: 'hold' }, [throws(brokenOff())])
    const job = await enqueue()
    await drain()
    expect(await job.refresh()).toMatchObject({
      status: 'failed',
      attempts: 1,
      held: true,
      lastError: expect.stringContaining('queue.resolve') as string,
      userMessage: expect.stringContaining('please do not start it again') as string,
    })
    await job.retry()
    await drain()
    expect(await job.refresh()).toMatchObject({ status: 'failed', held: true })
    expect(provider.calls).toHaveLength(1)
  })

  it.each([
    ['done', { as: 'done', result: { receipt: 9 } }, 1, { receipt: 9 }],
    ['not done', { as: 'not_done' }, 2, { receipt: 2 }],
    ['done, by asking', { reconcile: (body: unknown) => ({ done: { body } }) }, 1, { body: request }],
  ] as const)('a person who finds a held effect %s lets the job go on', async (_, found, calls, result) => {
    const { queue, provider, enqueue, drain } = await charging({ onUnknown: 'hold' }, [throws(brokenOff())])
    const job = await enqueue()
    await drain()
    const resolved = await queue.resolve(job.id, { effect: 'charge', by: 'ada', ...found })
    expect([resolved.status, resolved.held]).toEqual(['pending', false])
    await drain()
    expect(await job.result()).toEqual(result)
    expect(provider.calls).toHaveLength(calls)
    expect(await job.events()).toMatchObject([
      { kind: 'resolved', message: expect.stringContaining('by ada') as string, data: expect.stringContaining('"by"') as string },
      { kind: 'repaired', message: expect.stringContaining('by ada') as string },
    ])
  })

  it('a resolution that says nothing for certain is refused, and says what to pass', async () => {
    const { queue, enqueue, drain } = await charging({ onUnknown: 'hold' }, [throws(brokenOff())])
    const job = await enqueue()
    await drain()
    const reconcile = (): 'unknown' => 'unknown'
    for (const wrong of [
      undefined,
      null,
      {},
      { effect: 'charge' },
      { effect: 'charge', as: undefined },
      { effect: 'charge', as: 'maybe' },
      { effect: 'charge', as: 'done' },
      { effect: 'charge', as: 'done', result: 1, reconcile },
      { effect: 'charge', reconcile: 'unknown' },
    ]) {
      await expect(queue.resolve(job.id, wrong as never), JSON.stringify(wrong)).rejects.toMatchObject({
        code: 'config_invalid',
        message: expect.stringContaining("{ effect, as: 'not_done' }") as string,
      })
    }
    expect(await queue.steps(job.id)).toMatchObject([{ state: 'started' }])
    await queue.resolve(job.id, { effect: 'charge', as: 'done', result: undefined })
    expect(await queue.steps(job.id)).toMatchObject([{ state: 'done', value: null }])
  })

  it('a resolution that was wrong can be corrected when the handler has failed of it', async () => {
    const provider = new Provider()
    const { queue, enqueue, drain } = defineJob(await place(), async ({ effect }) => {
      const receipt = await effect('charge', {
        request,
        run: (body, { key }): { id: string } => {
          provider.call(body, key)
          throw brokenOff()
        },
        onUnknown: 'hold',
      })
      if (!receipt) throw new PermanentError('there is no receipt')
      return receipt.id
    })
    const job = await enqueue()
    await drain()
    await queue.resolve(job.id, { effect: 'charge', as: 'done', result: null })
    await drain()
    expect((await job.refresh()).status).toBe('failed')
    await queue.resolve(job.id, { effect: 'charge', as: 'done', result: { id: 'ch_1' }, by: 'ada' })
    await drain()
    expect(await job.result()).toBe('ch_1')
    expect(provider.calls).toHaveLength(1)
  })

  it('what is not in doubt cannot be resolved, and is named', async () => {
    const { queue, enqueue, drain } = await charging({ onUnknown: 'hold' }, [throws(brokenOff())])
    const job = await enqueue()
    const resolve = (effect: string) => queue.resolve(job.id, { effect, as: 'not_done' })
    await expect(resolve('charge')).rejects.toMatchObject({ code: 'status_final' })
    await drain()
    await expect(resolve('other')).rejects.toMatchObject({ code: 'step_not_found', data: { started: ['charge'] } })
    await expect(queue.resolve(job.id, { effect: 'charge', reconcile: () => 'unknown' })).rejects.toMatchObject({
      code: 'effect_unknown',
    })
    await expect(queue.resolve('nobody', { effect: 'charge', as: 'not_done' })).rejects.toMatchObject({ code: 'job_not_found' })
    expect(await queue.steps(job.id)).toMatchObject([{ state: 'started' }])
  })

  describe('a handler that a deploy has changed fails visibly', () => {
    /** Runs one attempt of `before`, which fails after its own, and then `after`. */
    const deployed = async (before: Parameters<typeof defineJob>[1], after: Parameters<typeof defineJob>[1]) => {
      const here = await place()
      const { enqueue, drain } = defineJob(here, async (job) => {
        if (job.attempt > 1) return after(job)
        await before(job)
        throw new TransientError('a deploy came')
      })
      const job = await enqueue()
      await drain()
      return job.refresh()
    }
    const effect = (name: string, body: unknown = request, run: () => unknown = () => 1) =>
      (({ effect: call }) => call(name, { request: body, run, onUnknown: 'same_key' })) as Parameters<typeof defineJob>[1]
    const failed = (message: RegExp) => ({
      status: 'failed',
      history: [{}, { code: 'steps_changed', kind: 'permanent', message: expect.stringMatching(message) as string }],
    })

    it('where a step became an effect', async () => {
      expect(await deployed((job) => job.step('charge', () => 1), effect('charge'))).toMatchObject(
        failed(/recorded as step.*asked for as effect/),
      )
    })

    it('where the request of an effect is another one, and not where its members only changed places', async () => {
      expect(await deployed(effect('charge'), effect('charge', { ...request, amount: 6 }))).toMatchObject(failed(/not the one/))
      expect(await deployed(effect('charge'), effect('charge', { currency: 'eur', amount: 5 }))).toMatchObject({
        status: 'succeeded',
      })
    })

    it('where an effect was renamed, and not where two effects have one request', async () => {
      expect(await deployed(effect('charge'), effect('charge_card'))).toMatchObject(failed(/very request of charge/))
      const two = await deployed(effect('a'), async (job) => {
        await effect('a')(job)
        await effect('b')(job)
      })
      expect(two).toMatchObject({ status: 'succeeded' })
    })

    it('where an effect of unknown outcome is not asked for any more', async () => {
      const before: Parameters<typeof defineJob>[1] = async (job) => {
        await effect('charge', request, throws(brokenOff()))(job)
      }
      expect(await deployed(before, (job) => job.step('other', () => 1))).toMatchObject(failed(/charge is unknown/))
    })

    it('where such an effect is not asked for by a handler that completes the job in a transaction', async () => {
      const before: Parameters<typeof defineJob>[1] = async (job) => {
        await effect('charge', request, throws(brokenOff()))(job)
      }
      const completes: Parameters<typeof defineJob>[1] = async (job) => {
        await job.step('other', () => 1)
        await job.transaction(() => 'done')
      }
      expect(await deployed(before, completes)).toMatchObject(failed(/charge is unknown/))
    })
  })
})
