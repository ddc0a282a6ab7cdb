/** The web process, from a `Request` to a `Response`. */
import { Hono } from 'hono'
import { secureHeaders } from 'hono/secure-headers'
import { honoHandler, httpHandler, signToken, type HttpHandler } from 'jobtable/http'
import { activityOf } from '../activity.js'
import { queue } from '../contract.js'
import { secretFor } from '../settings.js'
import { actions } from './actions.js'
import { assets } from './assets.js'
import { inboxPage, studioPage } from './pages.js'
import { problem } from './problems.js'
import { standIns } from './stand-ins.js'
import { stateOf } from './state.js'
import { visit, type Visit } from './visitor.js'
import { webhook } from './webhook.js'

export interface Studio {
  fetch(request: Request): Response | Promise<Response>
  close(): Promise<void>
}

export async function studio(): Promise<Studio> {
  const jobs: HttpHandler = httpHandler(queue, { secrets: [secretFor('tokens')] })
  const app = new Hono<Visit>()
    .use(
      secureHeaders({
        contentSecurityPolicy: {
          defaultSrc: ["'self'"],
          objectSrc: ["'none'"],
          baseUri: ["'none'"],
          frameAncestors: ["'none'"],
        },
        // The job handler has stricter ones for the files that it hands out.
        overwrite: false,
      }),
    )
    .all('/jobs/*', honoHandler(jobs))
    .route('/webhooks', webhook)
    .route('/assets', await assets())
    .use(visit)
    .get('/', (context) => context.html(studioPage(context.var.language)))
    .get('/inbox', async (context) => {
      const { visitor, language } = context.var
      return context.html(inboxPage(language, await standIns.mails(`${visitor}@studio.example`)))
    })
    .get('/state', async (context) => context.json(await stateOf(context.var.visitor, context.var.language)))
    .get('/token', async (context) => context.json({ token: await tokenOf(context.var.visitor) }))
    .route('/actions', actions)
  app.onError(problem)
  return { fetch: app.fetch, close: () => jobs.close() }
}

/** For all jobs of this visitor, and for a short time: the page asks for another one whenever it connects. */
async function tokenOf(visitor: string): Promise<string | null> {
  const jobs = (await activityOf(visitor)).map(({ job }) => job)
  if (jobs.length === 0) return null
  return signToken({ jobs, actions: ['view', 'cancel', 'download'], expiresIn: '15m' }, secretFor('tokens'))
}
