/** A server with jobs that do as the test says, and clients in browsers that the test holds in its hand. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'
import { createClient, type JobsClient, type JobsClientOptions } from '../../src/client/client.js'
import { nodeListener } from '../../src/http/index.js'
import { place } from '../http/support.js'
import { Tab } from './browser.js'

export async function served(options: Parameters<typeof place>[0] = {}) {
  const made = await place(options)
  const requests: string[] = []
  const connections = new Set<object>()
  const server = createServer((request, response) => {
    requests.push(`${request.method} ${request.url}`)
    if (request.url!.includes('/events')) {
      connections.add(request)
      response.once('close', () => connections.delete(request))
    }
    nodeListener(made.handler)(request, response)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => server.close().closeAllConnections())
  const { port } = server.address() as AddressInfo
  return { ...made, port, origin: `http://127.0.0.1:${port}`, requests, connections }
}

/** A client of the server, on a page of its own unless the test has one. */
export function client(origin: string, options: JobsClientOptions, tab = new Tab(undefined)): JobsClient {
  const made = createClient({ path: `${origin}/jobs`, ...options }, () => ({
    ...tab.environment,
    ...(options.fetch && { fetch: options.fetch }),
  }))
  onTestFinished(() => made.close())
  return made
}

/** What came so far, and the next of which something holds. */
export class Seen<Value> {
  readonly all: Value[] = []
  #wake = (): void => {}
  readonly add = (value: Value): void => {
    this.all.push(value)
    this.#wake()
  }

  async find(is: (value: Value) => boolean): Promise<Value> {
    for (;;) {
      const found = this.all.find(is)
      if (found !== undefined) return found
      await new Promise<void>((resolve) => (this.#wake = resolve))
    }
  }
}
