import { createServer as createHttpServer, type OutgoingHttpHeaders, type RequestListener } from 'node:http'
import { createServer as createHttpsServer } from 'node:https'
import { createServer as createTcpServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { readFileSync } from 'node:fs'
import { expect, onTestFinished, test } from 'vitest'
import { classify } from '../../src/classify/index.js'
import type { Classification } from '../../src/errors.js'

/** A row of the table: the promise, how the error comes about, and what the classifier makes of it. */
export type Row = readonly [promise: string, fail: () => unknown, expected: Classification]

export function rows(list: readonly Row[]): void {
  for (const [promise, fail, expected] of list) {
    test(promise, async () => {
      expect(classify(await caught(fail))).toEqual(expected)
    })
  }
}

/** What the function throws or its promise rejects with. */
export async function caught(fail: () => unknown): Promise<unknown> {
  try {
    await fail()
  } catch (error) {
    return error
  }
  throw new Error('nothing was thrown')
}

type Decision = (...args: [code: string, blame: Classification['blame'], more?: Partial<Classification>]) => Classification

const decision =
  (kind: Classification['kind']): Decision =>
  (code, blame, more) => ({ kind, code, blame, ...more })

export const permanent = decision('permanent')
export const transient = decision('transient')
export const limited = decision('rate_limited')
export const canceled = decision('canceled')
export const unknownOutcome = decision('unknown_outcome')
export const unknown = transient('unknown', 'developer', { maxRetries: 2 })

export interface Local {
  url: string
  port: number
}

async function listen(server: Server, scheme: string, sockets: Set<Socket>): Promise<Local> {
  server.on('connection', (socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => sockets.delete(socket))
  })
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  onTestFinished(async () => {
    for (const socket of sockets) socket.destroy()
    await new Promise<unknown>((resolve) => void server.close(resolve))
  })
  return { url: `${scheme}://127.0.0.1:${port}`, port }
}

export const http = (listener: RequestListener): Promise<Local> => listen(createHttpServer(listener), 'http', new Set())

/** An HTTP server that gives every request the same answer. */
export function answering(status: number, body: unknown = '', headers: OutgoingHttpHeaders = {}): Promise<Local> {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  const type = typeof body === 'string' ? 'text/html' : 'application/json'
  return http((request, response) => {
    request.resume()
    response.writeHead(status, { 'content-type': type, ...headers }).end(text)
  })
}

/** A server that takes the request and then closes the connection, in silence or with a reset. */
export const hangingUp = (how: 'close' | 'reset' = 'close'): Promise<Local> =>
  tcp((socket) => socket.once('data', () => (how === 'close' ? socket.end() : socket.resetAndDestroy())))

/** A server that takes the request and never answers. */
export const silent = (): Promise<Local> => http(() => {})

/** A server whose answer breaks off in the middle. */
export const breakingOff = (): Promise<Local> =>
  http((_, response) => {
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': 1_000 })
    response.write('{"a":', () => response.destroy())
  })

export const tcp = (onSocket: (socket: Socket) => unknown): Promise<Local> =>
  listen(
    createTcpServer((socket) => void onSocket(socket)),
    'http',
    new Set(),
  )

// Made with `openssl ca -selfsign`; valid from 2020 to 2120, but for "expired", which ended in 2020.
export const certificate = (name: 'localhost' | 'other' | 'expired'): string => fixture(`${name}-cert.pem`)
const fixture = (file: string): string => readFileSync(new URL(`fixtures/${file}`, import.meta.url), 'utf8')

export const https = (name: 'localhost' | 'other' | 'expired'): Promise<Local> =>
  listen(
    createHttpsServer({ cert: certificate(name), key: fixture(`${name}-key.pem`) }, (_, response) => response.end('ok')),
    'https',
    new Set(),
  )

/** An address where nothing listens. */
export async function refusing(): Promise<Local> {
  const server = createTcpServer()
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise<unknown>((resolve) => void server.close(resolve))
  return { url: `http://127.0.0.1:${port}`, port }
}

/** A host that the system refuses to look up, so that no name server is asked: a label has at most 63 characters. */
export const NO_SUCH_HOST = `${'a'.repeat(64)}.test`
