import type { HttpHandler } from '../handler.js'

type RouteHandler = (request: Request) => Promise<Response>

/** In `app/jobs/[...path]/route.ts`: `export const { GET, HEAD, POST } = nextHandlers(handler)`. */
export function nextHandlers(handler: HttpHandler): Record<'GET' | 'HEAD' | 'POST', RouteHandler> {
  const answer: RouteHandler = (request) => handler(request)
  return { GET: answer, HEAD: answer, POST: answer }
}
