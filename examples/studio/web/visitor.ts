/** Who asks, and in which language: two cookies. A visitor is whoever has the cookie; there is no password in this example. */
import { randomUUID } from 'node:crypto'
import type { Context } from 'hono'
import { getCookie, getSignedCookie, setCookie, setSignedCookie } from 'hono/cookie'
import { createMiddleware } from 'hono/factory'
import { secretFor } from '../settings.js'
import { isLanguage, type Language } from '../words.js'

export interface Visit {
  Variables: { visitor: string; language: Language }
}

const KEEP = { httpOnly: true, sameSite: 'Lax', path: '/', maxAge: 365 * 24 * 3_600 } as const

export const visit = createMiddleware<Visit>(async (context, next) => {
  const secret = secretFor('sessions')
  const known = await getSignedCookie(context, secret, 'studio')
  const visitor = known || randomUUID()
  if (!known) await setSignedCookie(context, 'studio', visitor, secret, KEEP)
  context.set('visitor', visitor)
  context.set('language', languageOf(context))
  await next()
})

/** The one asked for by `?lang=`, which is remembered; else the remembered one, else the browser's. */
function languageOf(context: Context): Language {
  const asked = context.req.query('lang')
  if (isLanguage(asked)) {
    setCookie(context, 'lang', asked, KEEP)
    return asked
  }
  const kept = getCookie(context, 'lang')
  if (isLanguage(kept)) return kept
  return /^\s*zh\b/i.test(context.req.header('accept-language') ?? '') ? 'zh' : 'en'
}
