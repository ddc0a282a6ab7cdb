/** Each adapter with the framework itself, over a real connection. Next.js, which has to be built first, is in next.test.ts. */
import { once } from 'node:events'
import { createServer, request as httpRequest, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { serve as serveHono } from '@hono/node-server'
import express from 'express'
import Fastify from 'fastify'
import { Hono } from 'hono'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import {
  expressHandler,
  fastifyHandler,
  honoHandler,
  nodeListener,
  type HttpHandler,
  type PublicJob,
} from '../../src/http/index.js'
import { EventReader, followed, place, withFile } from './support.js'

function addressOf(server: Server): string {
  onTestFinished(() => server.close().closeAllConnections())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

async function listening(server: Server): Promise<string> {
  if (!server.listening) await once(server, 'listening')
  return addressOf(server)
}

const FRAMEWORKS: Record<string, (handler: HttpHandler) => Promise<string>> = {
  'Node http': (handler) => listening(createServer(nodeListener(handler)).listen(0, '127.0.0.1')),
  Express: (handler) => {
    const app = express()
    app.use(express.json())
    app.use('/jobs', expressHandler(handler))
    return listening(app.listen(0, '127.0.0.1'))
  },
  Fastify: async (handler) => {
    const app = Fastify()
    app.addHook('onRequest', async (_request, reply) => void reply.header('x-of-the-product', 'kept'))
    app.all('/jobs/*', fastifyHandler(handler))
    await app.listen({ port: 0, host: '127.0.0.1' })
    return addressOf(app.server)
  },
  Hono: (handler) => {
    const app = new Hono()
    app.all('/jobs/*', honoHandler(handler))
    return listening(serveHono({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }) as Server)
  },
}

describe.each(Object.entries(FRAMEWORKS))('%s', (_, start) => {
  const bench = async (options: Parameters<typeof place>[0] = {}) => {
    const made = await place(options)
    const address = await start(made.handler)
    const get = (path: string, token?: string, init: RequestInit = {}) => {
      const headers = new Headers(init.headers)
      if (token !== undefined) headers.set('authorization', `Bearer ${token}`)
      return fetch(address + path, { ...init, headers })
    }
    return { ...made, address, get }
  }

  it('answers with snapshots, and refuses outsiders', async () => {
    const { get, enqueue, token } = await bench()
    const job = await enqueue()
    const response = await get(`/jobs/${job.id}?locale=en`, await token(job.id))
    expect([response.status, await response.json()]).toEqual([200, expect.objectContaining({ id: job.id, status: 'pending' })])
    expect((await get(`/jobs/${job.id}`)).status).toBe(401)
    const unchanged = await get(`/jobs/${job.id}?locale=en`, await token(job.id), {
      headers: { 'if-none-match': response.headers.get('etag')! },
    })
    expect(unchanged.status).toBe(304)
  })
  it('streams what happens while it happens', async () => {
    const { get, enqueue, token, queue, lead } = await bench()
    const job = await enqueue()
    const response = await get(`/jobs/${job.id}/events`, await token(job.id))
    expect(response.headers.get('x-accel-buffering')).toBe('no')
    const page = new EventReader(response)
    await page.job()
    queue.work()
    for (const stage of ['drawing', 'saving', 'ready']) {
      await lead(job.id).tell((context) => context.stage(stage))
      await page.job((now) => now.stage?.key === stage)
    }
    lead(job.id).end({ pages: 3 })
    const rest = await page.rest()
    expect(JSON.parse(rest.at(-2)!.data!) as PublicJob).toMatchObject({ status: 'succeeded', result: { pages: 3 } })
    expect(rest.at(-1)!.event).toBe('end')
  })
  it('lets the job go when the page is closed', async () => {
    const made = await bench()
    const now = followed(made)
    const job = await made.enqueue()
    const page = new EventReader(await made.get(`/jobs/${job.id}/events`, await made.token(job.id)))
    await page.job()
    const leaving = new AbortController()
    const poll = made.get(`/jobs/${job.id}?after=${Number.MAX_SAFE_INTEGER}&wait=20`, await made.token(job.id), {
      signal: leaving.signal,
    })
    poll.catch(() => {})
    expect(now()).toBe(1)
    await page.leave()
    leaving.abort()
    await vi.waitFor(() => expect(now()).toBe(0), { timeout: 5_000 })
  })
  it('cancels', async () => {
    const { get, enqueue, token } = await bench()
    const job = await enqueue()
    const response = await get(`/jobs/${job.id}/cancel`, await token(job.id, ['cancel']), { method: 'POST' })
    expect([response.status, await response.json()]).toEqual([200, expect.objectContaining({ status: 'canceled' })])
  })
  it('serves files, whole, in part, and their headers alone', async () => {
    const made = await bench()
    const content = Buffer.alloc(1_000_000, 'content ')
    const job = await withFile(made, '报告.pdf', content)
    const get = async (init: RequestInit = {}) => made.get(`/jobs/${job.id}/file`, await made.token(job.id, ['download']), init)
    const whole = await get()
    expect(whole.headers.get('content-disposition')).toContain(`filename*=UTF-8''%E6%8A%A5%E5%91%8A.pdf`)
    expect(Buffer.from(await whole.arrayBuffer()).equals(content)).toBe(true)
    const part = await get({ headers: { range: 'bytes=999992-' } })
    expect([part.status, await part.text()]).toEqual([206, 'content '])
    const head = await get({ method: 'HEAD' })
    expect([head.status, head.headers.get('content-length'), await head.text()]).toEqual([200, '1000000', ''])
  })
  it('frees the file when the download is broken off', async () => {
    const made = await bench()
    const job = await withFile(made, 'big.bin', Buffer.alloc(8_000_000))
    const read = made.queue.files.readRange!.bind(made.queue.files)
    const closed: Promise<unknown>[] = []
    made.queue.files.readRange = async (...range) => {
      const source = await read(...range)
      closed.push(new Promise((resolve) => source.once('close', resolve)))
      return source
    }
    const path = `${made.address}/jobs/${job.id}/file?token=${await made.token(job.id, ['download'])}`
    const request = httpRequest(path).end()
    const [response] = (await once(request, 'response')) as [IncomingMessage]
    await once(response, 'readable')
    request.destroy()
    await closed[0]
    expect(closed).toHaveLength(1)
  })
  it('lets the product decide by its own cookies', async () => {
    const { address, enqueue } = await bench({
      secrets: undefined,
      authorize: (request: Request) => request.headers.get('cookie') === 'session=ada',
    } as never)
    const job = await enqueue()
    const status = async (cookie: string) => (await fetch(`${address}/jobs/${job.id}`, { headers: { cookie } })).status
    expect([await status('session=ada'), await status('session=eve')]).toEqual([200, 403])
  })
})

describe('the adapter of', () => {
  it.each(['Node http', 'Express'])('%s refuses what no Request can be, and goes on', async (name) => {
    const { handler } = await place()
    const address = await FRAMEWORKS[name]!(handler)
    const request = httpRequest(`${address}/jobs/x`, { method: 'TRACE' }).end()
    const [response] = (await once(request, 'response')) as [IncomingMessage]
    expect(response.statusCode).toBe(400)
    response.resume()
    expect((await fetch(`${address}/jobs/x`)).status).toBe(401)
  })
  it('Node http cuts the connection where something else has begun to answer', async () => {
    const { handler } = await place()
    const listener = nodeListener(handler)
    const server = createServer((request, response) => {
      response.write('the product was faster')
      listener(request, response)
    })
    const address = await listening(server.listen(0, '127.0.0.1'))
    await expect(fetch(`${address}/jobs/x`).then((response) => response.text())).rejects.toThrow()
  })
  it('Fastify keeps the headers that the product has set', async () => {
    const { handler } = await place()
    const response = await fetch(`${await FRAMEWORKS['Fastify']!(handler)}/jobs/x`)
    expect([response.status, response.headers.get('x-of-the-product')]).toEqual([401, 'kept'])
  })
  it('Node http answers odd addresses and hosts with a refusal', async () => {
    const { handler } = await place()
    const address = await FRAMEWORKS['Node http']!(handler)
    for (const [path, host] of [
      ['//elsewhere/x', 'a b'],
      ['/%', 'localhost'],
      ['*', 'localhost'],
    ]) {
      const request = httpRequest(address, { path: path!, headers: { host: host! } }).end()
      const [response] = (await once(request, 'response')) as [IncomingMessage]
      expect(response.statusCode).toBe(404)
      response.resume()
    }
  })
  it('Node http cuts the connection of a reader who takes nothing, when the body is given up', async () => {
    let giveUp = (): void => {}
    const body = new ReadableStream<Uint8Array>(
      {
        // More than lies between the two: the rest waits for a reader.
        pull: (controller) => {
          controller.enqueue(new Uint8Array(32_000_000))
          giveUp = () => controller.error(new Error('the reader takes nothing'))
        },
      },
      { highWaterMark: 0 },
    )
    const handler: HttpHandler = Object.assign(async () => new Response(body), { close: async () => {} })
    const listener = nodeListener(handler)
    const server = createServer(listener)
    const address = await listening(server.listen(0, '127.0.0.1'))
    const request = httpRequest(address).end()
    const [[, response]] = (await Promise.all([once(server, 'request'), once(request, 'response')])) as [
      [never, ServerResponse],
      never,
    ]
    await vi.waitFor(() => expect(response.writableNeedDrain).toBe(true))
    giveUp()
    await vi.waitFor(() => expect(response.closed).toBe(true))
    expect(response.writableFinished).toBe(false)
    request.destroy()
  })
  it('Node http cuts the connection of a download whose file breaks off', async () => {
    const made = await place()
    const address = await FRAMEWORKS['Node http']!(made.handler)
    const job = await withFile(made, 'report.txt', 'whole content')
    made.queue.files.readRange = async () => Readable.from([Buffer.from('whole')])
    const response = await fetch(`${address}/jobs/${job.id}/file?token=${await made.token(job.id, ['download'])}`)
    await expect(response.text()).rejects.toThrow()
  })
})
