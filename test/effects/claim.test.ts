/** Between the record that an effect has begun and its call lies the way back from the database, on which the claim may be lost. */
import { expect, it } from 'vitest'
import { z } from 'zod'
import { prepareType } from '../../src/job-type.js'
import { modelStore } from '../../src/testing/model-store.js'
import { newJob } from '../../src/testing/new-job.js'
import type { Outcome } from '../../src/transition.js'
import { Attempt } from '../../src/worker/attempt.js'
import { Reports } from '../../src/worker/reports.js'
import { silent } from '../transactions/places.js'

interface Scene {
  attempt: Attempt
  /** Runs the attempt to its end. */
  run(): Promise<Outcome | null>
  calls: unknown[]
  loseLease(): void
  state(): Promise<string | undefined>
}

/** A claimed job with one effect; `meanwhile` happens once this has been recorded as started, before the worker hears of it. */
async function scene(meanwhile: (scene: Scene) => void): Promise<Scene> {
  const store = modelStore()
  await store.migrate()
  const calls: unknown[] = []
  const type = prepareType('mail', {
    payload: z.object({}),
    idempotency: { none: 'a test' },
    run: (job: Attempt) =>
      job.effect('send', { request: { to: 'ada' }, run: (body) => void calls.push(body), onUnknown: 'hold' }),
  } as never)
  const about = { host: 'h', pid: 1, process: null, queues: ['default'], types: ['mail'], concurrency: 1 }
  await store.register({ id: 'worker', ...about }, 60_000)
  await store.insert([newJob()])
  const { jobs } = await store.claim({ workerId: 'worker', token: 'token', queues: ['default'], types: ['mail'], limit: 1 })
  const record = store.recordStep.bind(store)
  store.recordStep = async (...args) => {
    const answer = await record(...args)
    meanwhile(made)
    return answer
  }
  let leaseHolds = true
  let attempt!: Attempt
  const ended = new Promise<Outcome | null>((resolve) => {
    attempt = new Attempt(jobs[0]!, type, {
      ...{
        store,
        reports: new Reports(store, () => {}),
        logger: silent,
        locale: 'en',
        lease: { holds: () => leaseHolds, closed: false },
      },
      files: undefined as never, // The handler stores none.
      ended: (_, outcome) => resolve(outcome),
      completed: () => resolve(null),
    })
  })
  const made: Scene = {
    attempt,
    calls,
    run: async () => {
      await attempt.run()
      return ended
    },
    loseLease: () => (leaseHolds = false),
    state: async () => (await store.steps(attempt.id))[0]?.state,
  }
  return made
}

it('an effect is called while the claim is held', async () => {
  const { run, calls } = await scene(() => {})
  expect(await run()).toMatchObject({ type: 'succeeded' })
  expect(calls).toEqual([{ to: 'ada' }])
})

it('an effect is not called when the lease ran out while it was recorded, and the job may be tried again', async () => {
  const { run, calls, state } = await scene(({ loseLease }) => loseLease())
  expect(await run()).toMatchObject({ type: 'threw', error: { kind: 'transient', code: 'database_unavailable' } })
  expect(calls).toEqual([])
  expect(await state()).toBe('started')
})

it('an effect is not called by a handler that was cut off while it was recorded', async () => {
  const { run, calls, state } = await scene(({ attempt }) => {
    attempt.abort('timeout')
    attempt.cutOff()
  })
  expect(await run()).toMatchObject({ type: 'threw', error: { code: 'timeout' } })
  expect(calls).toEqual([])
  expect(await state()).toBe('started')
})

it('an effect is not called once the handler was told to stop while it was recorded, and is free to begin anew', async () => {
  const { run, calls, state } = await scene(({ attempt }) => attempt.abort('shutdown'))
  expect(await run()).toMatchObject({ type: 'handed_back' })
  expect(calls).toEqual([])
  expect(await state()).toBe('refused')
})
