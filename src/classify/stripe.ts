import type { Facts } from './facts.js'
import { isObject, read, readPath } from './read.js'
import { inDoubt, limited, lookup, permanent, table, transient, type Verdict } from './verdict.js'

// The class, which Stripe also writes into `type`: its `name` is "Error".
const CLASSES = table(
  [permanent('card_declined', 'user'), 'StripeCardError', 'card_error'],
  [permanent('idempotency_conflict', 'developer'), 'StripeIdempotencyError', 'idempotency_error'],
  [permanent('account_disconnected', 'user'), 'StripeInvalidGrantError'],
  [
    permanent('unauthorized', 'operator'),
    'StripeInvalidClientError',
    'StripeAuthenticationError',
    'StripeSignatureVerificationError',
  ],
  [permanent('forbidden', 'operator'), 'StripePermissionError'],
  [permanent('card_declined', 'user'), 'InsufficientFundsError', 'InvalidPaymentMethodError', 'insufficient_funds'],
  [permanent('quota_exhausted', 'operator'), 'QuotaExceededError'],
  [limited(), 'StripeRateLimitError', 'RateLimitError'],
)

const WORDS = table(
  [transient('conflict'), 'idempotency_key_in_use', 'lock_timeout'],
  [limited(), 'rate_limit'],
  [permanent('not_found', 'developer'), 'resource_missing'],
  [permanent('unauthorized', 'operator'), 'api_key_expired', 'platform_api_key_expired', 'secret_key_required'],
  [permanent('misconfigured', 'operator'), 'livemode_mismatch', 'testmode_charges_only', 'account_invalid'],
  [permanent('quota_exhausted', 'operator'), 'balance_insufficient'],
)

const NO_KEY = /^Neither apiKey nor config\.authenticator provided/

/** Stripe, through its own library or through any HTTP client that keeps the body. */
export function stripe(facts: Facts): Verdict | undefined {
  const type = read(facts.error, 'type')
  if (typeof type === 'string' && type.endsWith('Error') && isObject(read(facts.error, 'raw'))) {
    if (type === 'StripeConnectionError') return connection(facts)
    return lookup(facts.words, WORDS) ?? lookup([type, ...facts.words], CLASSES)
  }
  if (NO_KEY.test(facts.message)) return permanent('misconfigured', 'operator')
  const hasStripeBody = facts.bodies.some(
    (body) => readPath(body, 'error', 'doc_url') !== undefined || readPath(body, 'error', 'decline_code') !== undefined,
  )
  return lookup(facts.words, WORDS) ?? (hasStripeBody ? lookup(facts.words, CLASSES) : lookup(facts.words, SURE))
}

// Words that only Stripe uses, so that they need no further sign of it.
const SURE = table(
  [permanent('card_declined', 'user'), 'card_error'],
  [permanent('idempotency_conflict', 'developer'), 'idempotency_error'],
)

/** The reason is in `detail`, which is looked at by itself; without one, nobody knows how far the request came. */
function connection(facts: Facts): Verdict | undefined {
  if (typeof readPath(facts.error, 'detail', 'code') === 'string') return undefined
  return inDoubt(/timeout/i.test(facts.message) ? 'timeout' : 'connection_lost')
}
