/** The same on PostgreSQL, where the worker's process and the web's meet in the database alone. */
import { beforeEach, afterEach, expect, it } from 'vitest'
import { z } from 'zod'
import { httpHandler, signToken, type HttpHandler, type PublicText } from '../../src/http/index.js'
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

it('a page reads a text while a job of another queue writes it, and goes on from its place', async () => {
  let go = (): void => {}
  const contract = { payload: z.object({}), idempotency: { none: 'a test' }, publicStreams: ['answer'] } as const
  const type = web!.define('ask', contract)
  worker!.define('ask', {
    ...contract,
    run: async (job) => {
      for (const word of ['Once 😀 ', 'upon ']) {
        await job.stream('answer').write(word)
        await new Promise<void>((resolve) => (go = resolve))
      }
    },
  })
  const { job } = await type.enqueue({})
  const token = await signToken({ jobs: [job.id], actions: ['view'], expiresIn: '1h' }, SECRET)
  const open = async (text: string) =>
    new EventReader(await handler(new Request(`http://product.example/jobs/${job.id}/events?token=${token}&text=${text}`)))
  const piece = async (page: EventReader) => {
    for (let event = await page.next(); event; event = await page.next()) {
      if (event.event === 'text') return JSON.parse(event.data!) as PublicText
    }
    throw new Error('the stream ended before')
  }
  const first = await open('answer')
  worker!.work()
  expect(await piece(first)).toMatchObject({ attempt: 1, offset: 0, text: 'Once 😀 ', done: false })
  await first.leave()
  go()
  const second = await open('answer/1/8')
  expect(await piece(second)).toMatchObject({ attempt: 1, offset: 8, text: 'upon ' })
  go()
  expect(await piece(second)).toMatchObject({ offset: 13, text: '', done: true, final: true })
})
