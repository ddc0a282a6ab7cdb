/** What the page may do with the stand-ins, for its panel of troubles and its inbox. */
import { settings } from '../settings.js'
import type { Mail } from '../standins/mailbox.js'
import type { Troubles } from '../standins/model.js'

export interface TroublesNow {
  kind: Troubles['kind']
  count: number
  /** The id of the worker's process, or null while there is none. */
  worker: number | null
}

async function ask(path: string, body?: object): Promise<Response> {
  const response = await fetch(settings.standIns + path, {
    method: body ? 'POST' : 'GET',
    headers: { authorization: `Bearer ${settings.standInsKey}`, 'content-type': 'application/json' },
    ...(body && { body: JSON.stringify(body) }),
  })
  if (!response.ok) throw new Error(`${path} of the stand-ins answered with ${response.status}`)
  return response
}

export const standIns = {
  troubles: async (visitor: string): Promise<TroublesNow> => (await (await ask(`/troubles/${visitor}`)).json()) as TroublesNow,
  async setTroubles(visitor: string, wanted: Troubles): Promise<void> {
    await ask(`/troubles/${visitor}`, wanted)
  },
  async killWorker(): Promise<void> {
    await ask('/worker/kill', {})
  },
  mails: async (from: string): Promise<Mail[]> => (await (await ask(`/mails?from=${encodeURIComponent(from)}`)).json()) as Mail[],
  /** Resolves once the provider has told the product. */
  async pay(visitor: string, credits: number, webhook: string): Promise<void> {
    await ask('/payments', { visitor, credits, webhook })
  },
}
