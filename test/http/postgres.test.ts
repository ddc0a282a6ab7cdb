/** The same on PostgreSQL, where the worker's process and the web's meet in the database alone. */
import { beforeEach, afterEach, expect, it } from 'vitest'
import { z } from 'zod'
import { httpHandler, signToken, type HttpHandler } from '../../src/http/index.js'
import { jobtable, type Queue } from '../../src/queue.js'
import { freeSchema, type TestSchema } from '../support/postgres/database.js'
import { EventReader, SECRET } from './support.js'

let place: TestSchema
let [web, worker]: Queue[] = []
let handler: HttpHandler

beforeEach(async () => {
  place = await freeSchema()
  web = jobtable(place.url, { schema: place.schema })
  worker = jobtable(place.url, { schema: place.schema })
  handler = httpHandler(web, { secrets: [SECRET] })
})
afterEach(async () => {
  await handler.close()
  await Promise.all([web!.close(), worker!.close()])
  await place.drop()
})

it('a page sees every stage, and the end, of a job that another queue runs', async () => {
  let go = (): void => {}
  const contract = { payload: z.object({}), idempotency: { none: 'a test' }, stages: ['drawing', 'saving'] } as const
  const type = web!.define('export', contract)
  worker!.define('export', {
    ...contract,
    run: async (job) => {
      for (const stage of contract.stages) {
        await job.stage(stage)
        await new Promise<void>((resolve) => (go = resolve))
      }
      return { pages: 3 }
    },
  })
  const { job } = await type.enqueue({})
  const token = await signToken({ jobs: [job.id], actions: ['view'], expiresIn: '1h' }, SECRET)
  const page = new EventReader(await handler(new Request(`http://product.example/jobs/${job.id}/events?token=${token}`)))
  expect(await page.job()).toMatchObject({ status: 'pending', createdAt: expect.stringMatching(/^20/) as string })
  worker!.work()
  for (const stage of contract.stages) {
    await page.job((now) => now.stage?.key === stage)
    go()
  }
  expect(await page.job(({ final }) => final)).toMatchObject({ status: 'succeeded', result: { pages: 3 } })
  expect((await page.rest()).at(-1)!.event).toBe('end')
})
