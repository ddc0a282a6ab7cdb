/** A server with jobs that do as the test says, and clients in browsers that the test holds in its hand. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'
import { createClient, type JobsClientOptions } from '../../src/client/client.js'
import { browser, type Environment } from '../../src/client/environment.js'
import { nodeListener } from '../../src/http/index.js'
import { place } from '../http/support.js'

export async function served(options: Parameters<typeof place>[0] = {}) {
  const made = await place(options)
  const requests: string[] = []
  const open = new Set<string>()
  const server = createServer((request, response) => {
    requests.push(`${request.method} ${request.url}`)
    if (request.url!.includes('/events')) {
      open.add(request.url!)
      response.once('close', () => open.delete(request.url!))
    }
    nodeListener(made.handler)(request, response)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => server.close().closeAllConnections())
  const { port } = server.address() as AddressInfo
  return { ...made, port, origin: `http://127.0.0.1:${port}`, requests, open }
}

/** Timers that run when the test says so. */
export class Timers {
  readonly waiting = new Set<{ ms: number; run: () => void }>()
  readonly after = (ms: number, run: () => void): (() => void) => {
    const timer = { ms, run }
    this.waiting.add(timer)
    return () => void this.waiting.delete(timer)
  }
}

/** A client of the server, in an environment of its own. */
export function client(origin: string, options: JobsClientOptions, environment: Partial<Environment> = {}) {
  const made = createClient({ path: `${origin}/jobs`, ...options }, () => ({
    ...browser(undefined),
    locks: undefined,
    openChannel: undefined,
    ...environment,
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
