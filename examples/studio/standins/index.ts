/**
 * The other systems of the product, in small, so that it runs without any account and without a network: a language model, a mail server and
 * a payment provider. One key opens them, for pages of other sites can reach 127.0.0.1 too.
 */
import { once } from 'node:events'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { serve } from '@hono/node-server'
import { Hono } from 'hono'
import { bearerAuth } from 'hono/bearer-auth'
import { Mailbox } from './mailbox.js'
import { Model, troubles } from './model.js'
import { pay, payment } from './payments.js'

export interface StandIns {
  /** Where they answer over HTTP. */
  url: string
  smtp: string
  close(): Promise<void>
}

export interface StandInOptions {
  key: string
  webhookSecret: string
  /** The worker that runs at the moment, and its sudden end. */
  worker: { pid(): number | undefined; kill(): void }
}

export async function startStandIns({ key, webhookSecret, worker }: StandInOptions): Promise<StandIns> {
  const model = new Model()
  const mailbox = new Mailbox()
  const app = new Hono()
    .use(bearerAuth({ token: key }))
    .route('/v1', model.routes)
    .get('/troubles/:visitor', (context) =>
      context.json({ ...model.now(context.req.param('visitor')), worker: worker.pid() ?? null }),
    )
    .post('/troubles/:visitor', async (context) => {
      model.set(context.req.param('visitor'), troubles.parse(await context.req.json()))
      return context.body(null, 204)
    })
    .post('/worker/kill', (context) => {
      worker.kill()
      return context.body(null, 204)
    })
    .get('/mails', (context) => context.json(mailbox.sentBy(context.req.query('from') ?? '')))
    .post('/payments', async (context) => {
      await pay(payment.parse(await context.req.json()), webhookSecret)
      return context.body(null, 204)
    })
  const server = serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }) as Server
  if (!server.listening) await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    smtp: await mailbox.listen(),
    async close() {
      server.close()
      server.closeAllConnections()
      await mailbox.close()
    },
  }
}
