import type { IncomingMessage, ServerResponse } from 'node:http'
import type { HttpHandler } from '../handler.js'
import { serve } from './node.js'

/** `app.use('/jobs', expressHandler(handler))`, for Express 4 and 5. */
export function expressHandler(
  handler: HttpHandler,
): (request: IncomingMessage & { originalUrl: string }, response: ServerResponse) => void {
  return (request, response) => void serve(handler, request, response, request.originalUrl)
}
