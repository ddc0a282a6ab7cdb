/** What pages that look at jobs cost a database in a file. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import { httpHandler, signToken } from '../../src/http/index.js'
import { jobtable } from '../../src/index.js'
import { openDriver } from '../../src/stores/sqlite/driver.js'
import { SECRET } from './support.js'

it('R119: a page that reads its stream slowly, or not at all, keeps no read transaction open', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'jobtable-readers-'))
  const file = join(folder, 'jobs.db')
  const queue = jobtable(`sqlite:${file}`)
  const handler = httpHandler(queue, { secrets: [SECRET] })
  onTestFinished(async () => {
    await handler.close()
    await queue.close()
    rmSync(folder, { recursive: true })
  })
  const type = queue.define('type', {
    payload: z.string(),
    idempotency: { none: 'a test' },
    publicStreams: ['text'],
    run: (job) => job.stream('text').write(job.payload),
  })
  const { job } = await type.enqueue('x'.repeat(1_000_000))
  const { job: other } = await type.enqueue('', { delay: '1h' })
  await queue.drain()
  const token = await signToken({ jobs: [job.id, other.id], actions: ['view'], expiresIn: '1h' }, SECRET)
  const ask = (path: string): Promise<Response> =>
    handler(new Request(`http://x/jobs/${path}`, { headers: { authorization: `Bearer ${token}` } }))
  const pages = await Promise.all([
    ask(`events?id=${job.id}&id=${other.id}&text=${job.id}/text`),
    ask(`${job.id}/streams/text`),
    ask(job.id),
  ])
  expect(pages.map(({ status }) => status)).toEqual([200, 200, 200])
  const reader = pages[0].body!.getReader()
  expect((await reader.read()).done).toBe(false)
  const connection = openDriver(file)
  const [busy] = connection.prepare('PRAGMA wal_checkpoint(TRUNCATE)').all()[0]!
  expect(busy).toBe(0)
  connection.close()
  await reader.cancel()
})
