/** What is between the server and the page: a proxy that gathers, and connections that break. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { nodeListener } from '../../src/http/index.js'
import { absence, Nginx } from '../support/nginx.js'
import { TcpProxy } from '../support/tcp-proxy.js'
import { EventReader, followed, place, withFile } from './support.js'

async function served() {
  const made = await place()
  const server = createServer(nodeListener(made.handler)).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => server.close().closeAllConnections())
  return { ...made, port: (server.address() as AddressInfo).port }
}

const missing = absence()

describe('through nginx with its default buffering, and compression', () => {
  const bench = async () => {
    const made = await served()
    const nginx = await Nginx.create(made.port)
    onTestFinished(() => nginx.remove())
    const get = (path: string, token: string) =>
      fetch(`http://127.0.0.1:${nginx.port}/jobs/${path}`, {
        headers: { authorization: `Bearer ${token}`, 'accept-encoding': 'gzip' },
      })
    return { ...made, get }
  }

  it.skipIf(missing)(`a page sees each stage while it is the present one${missing ? `: ${missing}` : ''}`, async () => {
    const { get, enqueue, token, queue, lead } = await bench()
    const job = await enqueue()
    const page = new EventReader(await get(`${job.id}/events`, await token(job.id)))
    await page.job()
    queue.work()
    for (const stage of ['drawing', 'saving', 'ready']) {
      await lead(job.id).tell((context) => context.stage(stage))
      await page.job((now) => now.stage?.key === stage) // The job goes no further before the page has seen it.
    }
    lead(job.id).end()
    expect((await page.rest()).at(-1)!.event).toBe('end')
  })
  it.skipIf(missing)(`a page that is closed lets its job go${missing ? `: ${missing}` : ''}`, async () => {
    const made = await bench()
    const now = followed(made)
    const job = await made.enqueue()
    const page = new EventReader(await made.get(`${job.id}/events`, await made.token(job.id)))
    await page.job()
    expect(now()).toBe(1)
    await page.leave()
    await vi.waitFor(() => expect(now()).toBe(0), { timeout: 5_000 })
  })
  it.skipIf(missing)(`a download arrives whole${missing ? `: ${missing}` : ''}`, async () => {
    const made = await bench()
    const content = Buffer.alloc(3_000_000, 'content ')
    const job = await withFile(made, 'report.txt', content)
    const response = await made.get(`${job.id}/file`, await made.token(job.id, ['download']))
    expect(Buffer.from(await response.arrayBuffer()).equals(content)).toBe(true)
  })
})

describe('over connections that break', () => {
  it('a page that comes back with the last id it saw misses no end, goes never back and sees nothing twice', async () => {
    const { port, enqueue, token, queue, lead } = await served()
    const proxy = await TcpProxy.create(port)
    onTestFinished(() => proxy.remove())
    const job = await enqueue()
    const headers: Record<string, string> = { authorization: `Bearer ${await token(job.id)}` }
    const open = async () => new EventReader(await fetch(`http://127.0.0.1:${proxy.port}/jobs/${job.id}/events`, { headers }))
    const revs: number[] = []
    const see = async (page: EventReader, stage: string | null) => {
      const { rev } = await page.job((now) => {
        revs.push(now.rev)
        return now.status !== 'pending' && (now.stage?.key ?? null) === stage
      })
      headers['last-event-id'] = String(rev)
    }
    let page = await open()
    queue.work()
    for (const stage of ['drawing', 'saving', 'ready']) {
      await lead(job.id).tell((context) => context.stage(stage))
      await see(page, stage)
      proxy.cut()
      await expect(page.rest()).rejects.toThrow()
      page = await open()
    }
    lead(job.id).end({ pages: 3 })
    const rest = await page.rest()
    expect(rest.at(-1)!.event).toBe('end')
    revs.push(...rest.filter(({ event }) => event === 'job').map(({ id }) => Number(id)))
    expect(revs).toEqual([...new Set(revs)].toSorted((a, b) => a - b))
  })
})
