/** The payment provider tells of a payment, at least once. Its signature is checked, and its event is the job's key. */
import { Hono } from 'hono'
import Stripe from 'stripe'
import { start } from '../activity.js'
import { addCredits } from '../contract.js'
import { secretFor } from '../settings.js'

export const webhook = new Hono().post('/payments', async (context) => {
  const event = verified(await context.req.text(), context.req.header('stripe-signature') ?? '')
  if (!event) return context.json({ error: 'the signature is missing or wrong' }, 400)
  if (event.type !== 'checkout.session.completed') return context.json({ received: true })
  const { client_reference_id: visitor, metadata } = event.data.object
  const payload = { event: event.id, visitor: visitor ?? '', credits: Number(metadata?.['credits']) }
  const { duplicate } = await start(payload.visitor, String(payload.credits), (tx) => addCredits.enqueue(payload, { tx }))
  return context.json({ received: true, duplicate })
})

function verified(body: string, signature: string): Stripe.Event | undefined {
  try {
    return Stripe.webhooks.constructEvent(body, signature, secretFor('webhooks'))
  } catch (error) {
    if (error instanceof Stripe.errors.StripeSignatureVerificationError) return undefined
    throw error
  }
}
