/**
 * Node's own `http`: a `Request` from what came in, and the `Response` written out as fast as its reader takes it. When the reader leaves,
 * the request's signal aborts and the body is canceled.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { HttpHandler } from '../handler.js'

/** `createServer(nodeListener(handler))`. What is thrown is answered by the handler itself. */
export function nodeListener(handler: HttpHandler): (request: IncomingMessage, response: ServerResponse) => void {
  return (request, response) => void serve(handler, request, response)
}

/** Answers one request, and never rejects. `path` is its address, where a framework has taken a part of it away. */
export async function serve(
  handler: HttpHandler,
  request: IncomingMessage,
  response: ServerResponse,
  path?: string,
): Promise<void> {
  try {
    await send(await handler(toRequest(request, response, path)), response)
  } catch {
    // No `Request` can be made of it, such as of TRACE; or something else has begun to answer it.
    if (response.headersSent) response.destroy()
    else response.writeHead(400).end()
  }
}

/** None of the routes reads a body, so none is passed on. */
export function toRequest(request: IncomingMessage, response: ServerResponse, path: string = request.url ?? '/'): Request {
  const headers = new Headers()
  for (const [name, value] of Object.entries(request.headers)) {
    if (name.startsWith(':') || value === undefined) continue
    headers.set(name, typeof value === 'string' ? value : value.join(', '))
  }
  const controller = new AbortController()
  response.once('close', () => controller.abort())
  return new Request(addressOf(request, path), { method: request.method ?? 'GET', headers, signal: controller.signal })
}

function addressOf(request: IncomingMessage, path: string): URL {
  const origin = `http://${request.headers.host ?? 'localhost'}`
  const base = URL.canParse(origin) ? origin : 'http://localhost'
  // Not `new URL(path, base)`, for which //elsewhere is a host.
  return new URL(URL.canParse(base + path) ? base + path : base)
}

async function send(answer: Response, response: ServerResponse): Promise<void> {
  response.writeHead(answer.status, Object.fromEntries(answer.headers))
  if (!answer.body) return void response.end()
  response.flushHeaders()
  const reader: ReadableStreamDefaultReader<Uint8Array> = answer.body.getReader()
  const leave = (): void => void reader.cancel().catch(() => {}) // Canceling what has failed fails as it did, which is told below.
  if (response.destroyed) return leave()
  response.once('close', leave)
  // A body that breaks off may do so because nobody takes it: then there is no room again, which the loop would wait for.
  reader.closed.catch(() => response.destroy())
  try {
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      if (!response.write(part.value)) await drained(response)
    }
    response.end()
  } catch {
    // The body broke off, and its headers are out: a connection that is cut is the only way left to say so.
    response.destroy()
  }
}

/** Until there is room again, or nobody to make any. */
function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      response.off('drain', done).off('close', done)
      resolve()
    }
    response.on('drain', done).on('close', done)
    if (response.destroyed) done()
  })
}
