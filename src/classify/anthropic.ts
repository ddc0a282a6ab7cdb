import type { Facts } from './facts.js'
import { inDoubt, limited, lookup, permanent, table, transient, type Verdict } from './verdict.js'

const WORDS = table(
  [transient('provider_unavailable'), 'overloaded_error'],
  [limited(), 'rate_limit_error'],
  [permanent('quota_exhausted', 'operator'), 'billing_error'],
  [permanent('unauthorized', 'operator'), 'authentication_error'],
  [permanent('forbidden', 'operator'), 'permission_error'],
  [permanent('not_found', 'developer'), 'not_found_error'],
  [permanent('too_large', 'user'), 'request_too_large'],
  [transient('timeout'), 'timeout_error'],
)

const NO_CREDENTIALS = /^Could not resolve authentication method\b|^Profile ".*" could not be resolved|^The `apiKey` function /

/** Anthropic. An error in the middle of a stream has no status, or that of the stream, 200; the type is what counts. */
export function anthropic(facts: Facts): Verdict | undefined {
  const verdict = lookup(facts.words, WORDS)
  if (verdict) return verdict
  if (facts.words.includes('invalid_request_error')) {
    // Two reasons share the word with every other bad request.
    if (/credit balance is too low/i.test(facts.message)) return permanent('quota_exhausted', 'operator')
    if (/prompt is too long|exceed context limit/i.test(facts.message)) return permanent('too_large', 'user')
    return facts.status === undefined || facts.status < 300 ? permanent('invalid_request', 'developer') : undefined
  }
  // `api_error` is also Stripe's word. The headers and the status of a plain response say more.
  if (facts.words.includes('api_error') && (facts.status === undefined || facts.status < 300)) return transient('provider_error')
  if (facts.name === 'RetryableError') return transient('provider_error')
  if (facts.className === 'APIConnectionTimeoutError') return inDoubt('timeout')
  return NO_CREDENTIALS.test(facts.message) ? permanent('misconfigured', 'operator') : undefined
}
