import type { IncomingMessage, ServerResponse } from 'node:http'
import type { HttpHandler } from '../handler.js'
import { toRequest } from './node.js'

/** `app.all('/jobs/*', fastifyHandler(handler))`, for Fastify 5. */
export function fastifyHandler(
  handler: HttpHandler,
): (request: { raw: IncomingMessage }, reply: { raw: ServerResponse }) => Promise<Response> {
  return (request, reply) => handler(toRequest(request.raw, reply.raw))
}
