/** What is answered where something cannot be done: the same JSON whatever it was, and the same as of the job handler. */
import type { Context } from 'hono'
import { HTTPException } from 'hono/http-exception'
import { UnknownVersion } from '../documents.js'

const CODES: Readonly<Record<number, string>> = {
  400: 'invalid_request',
  404: 'not_found',
  409: 'changed_elsewhere',
  415: 'unsupported_media_type',
}

export function problem(error: Error, context: Context): Response {
  if (error instanceof UnknownVersion) return context.json({ error: 'not_found', message: error.message }, 404)
  const code = error instanceof HTTPException && CODES[error.status]
  if (code) return context.json({ error: code, message: error.message }, error.status)
  console.error(error)
  return context.json({ error: 'internal', message: 'something went wrong' }, 500)
}
