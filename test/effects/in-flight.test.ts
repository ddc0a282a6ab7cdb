import { setImmediate as turn } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { PermanentError, type JobContext } from '../../src/index.js'
import { DATABASES } from '../faults/support/databases.js'
import { recordingLog } from '../faults/support/place.js'
import { defineJob } from './support.js'

type AnyJob = JobContext<Record<string, unknown>>
const request = { amount: 5 }

describe.each(DATABASES)('what a handler leaves in flight on $name', ({ place }) => {
  const once = async (run: (job: AnyJob) => unknown, type: object = {}) => {
    const logger = recordingLog()
    const { queue, enqueue, drain } = defineJob(await place(), run, { logger, type: { retry: { maxAttempts: 1 }, ...type } })
    const job = await enqueue()
    await drain()
    const states = (await queue.steps(job.id)).map(({ name, state }) => `${name} ${state}`).toSorted()
    return { ...(await job.refresh()).toJSON(), states, log: JSON.stringify(logger.lines) }
  }
  /** Goes on when it is told to, and some turns after that. */
  function gate() {
    let open!: () => void
    const promise = new Promise<void>((resolve) => (open = resolve))
    const passed = async (): Promise<void> => {
      await promise
      for (let i = 0; i < 5; i++) await turn()
    }
    return { open, passed }
  }

  it('is recorded before the attempt ends, when what ran beside it has thrown', async () => {
    const { open, passed } = gate()
    const ended = await once(async ({ step, effect }) => {
      const all = Promise.all([
        step('fails', () => {
          throw new PermanentError('no such page')
        }),
        effect('charge', { request, run: async () => (await passed(), 'receipt'), onUnknown: 'hold' }),
        step('slow', async () => (await passed(), 1)),
      ])
      all.catch(open)
      await all
    })
    expect(ended).toMatchObject({ status: 'failed', lastError: 'no such page', states: ['charge done', 'slow done'] })
  })

  it('begins nothing new once the handler has thrown', async () => {
    const { open, passed } = gate()
    let begun = 0
    const ended = await once(async ({ step }) => {
      const chain = async (): Promise<void> => {
        await step('first', async () => (await passed(), 1))
        await step('second', () => ++begun)
      }
      const all = Promise.all([step('fails', () => Promise.reject(new PermanentError('no'))), chain()])
      all.catch(open)
      await all
    })
    expect(ended).toMatchObject({ status: 'failed', lastError: 'no', states: ['first done'] })
    expect(begun).toBe(0)
  })

  it('is waited for when the handler has returned, with all that follows, and a warning names it', async () => {
    const { open, passed } = gate()
    const ended = await once(({ step, effect }) => {
      const chain = async (): Promise<void> => {
        await effect('charge', { request, run: async () => (await passed(), 'receipt'), onUnknown: 'hold' })
        await step('then', () => 1)
      }
      void chain()
      setImmediate(open)
      return 'done'
    })
    expect(ended).toMatchObject({ status: 'succeeded', result: 'done', states: ['charge done', 'then done'] })
    expect(ended.log).toContain('returned before the end of the effect charge')
  })

  it('fails the job where nobody has awaited it, before the handler returned or after', async () => {
    const { open, passed } = gate()
    const late = await once(({ step }) => {
      void step('late', async () => {
        await passed()
        throw new PermanentError('late')
      })
      setImmediate(open)
    })
    expect(late).toMatchObject({ status: 'failed', lastError: 'late' })
    const early = await once(async ({ step }) => {
      void step('early', () => Promise.reject(new PermanentError('early')))
      await step('other', () => turn())
      await turn()
    })
    expect(early).toMatchObject({ status: 'failed', lastError: 'early', states: ['other done'] })
    expect(early.log).toContain('without having awaited the step early')
  })

  it('is none of it where the handler has caught its error', async () => {
    const ended = await once(async ({ step }) => {
      await step('caught', () => Promise.reject(new PermanentError('no'))).catch(() => 'caught')
      const kept = step('kept', () => Promise.reject(new PermanentError('no')))
      await step('other', () => turn())
      await expect(kept).rejects.toThrow('no')
    })
    expect(ended).toMatchObject({ status: 'succeeded', states: ['other done'] })
  })

  it('is cut off at the timeout, and what the handler has thrown is told', async () => {
    const ended = await once(
      async ({ step }) => {
        void step('endless', () => new Promise<never>(() => {}))
        throw new PermanentError('thrown before')
      },
      { timeout: '1s' },
    )
    expect(ended).toMatchObject({ status: 'failed', lastError: 'thrown before' })
  })
})
