/** Stands in for a payment provider: tells the product of a payment by a signed webhook, and does so twice, as real ones may. */
import { randomUUID } from 'node:crypto'
import Stripe from 'stripe'
import { z } from 'zod'

export const payment = z.object({ visitor: z.string(), credits: z.int().positive().max(10_000), webhook: z.url() })

const DELIVERIES = 2

export async function pay({ visitor, credits, webhook }: z.output<typeof payment>, secret: string): Promise<void> {
  const event = {
    id: `evt_${randomUUID()}`,
    object: 'event',
    type: 'checkout.session.completed',
    data: { object: { object: 'checkout.session', client_reference_id: visitor, metadata: { credits: String(credits) } } },
  }
  const payload = JSON.stringify(event)
  const signature = Stripe.webhooks.generateTestHeaderString({ payload, secret })
  const deliver = (): Promise<Response> =>
    fetch(webhook, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'stripe-signature': signature },
      body: payload,
    })
  const answers = await Promise.all(Array.from({ length: DELIVERIES }, deliver))
  const refused = answers.find(({ ok }) => !ok)
  if (refused) throw new Error(`the webhook was answered with ${refused.status}`)
}
