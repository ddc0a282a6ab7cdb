import type { HttpHandler } from '../handler.js'

/** `app.all('/jobs/*', honoHandler(handler))`. */
export function honoHandler(handler: HttpHandler): (context: { req: { raw: Request } }) => Promise<Response> {
  return (context) => handler(context.req.raw)
}
