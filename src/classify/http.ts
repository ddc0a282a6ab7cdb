import type { Facts } from './facts.js'
import { inDoubt, limited, permanent, transient, type Verdict } from './verdict.js'
import { waitHint } from './hints.js'

const BY_STATUS: Readonly<Record<number, Verdict>> = {
  401: permanent('unauthorized', 'operator'),
  402: permanent('quota_exhausted', 'operator'),
  403: permanent('forbidden', 'operator'),
  404: permanent('not_found', 'developer'),
  407: permanent('unauthorized', 'operator'),
  408: transient('timeout'),
  // A conflict is most often another request that holds the same thing; if it is not, two more tries cost little.
  409: transient('conflict', 'provider', 2),
  410: permanent('not_found', 'developer'),
  412: permanent('conflict', 'developer'),
  413: permanent('too_large', 'user'),
  414: permanent('too_large', 'developer'),
  421: transient('provider_error'),
  423: transient('conflict'),
  425: transient('provider_unavailable'),
  429: limited(),
  431: permanent('too_large', 'developer'),
  451: permanent('content_refused', 'user'),
  499: inDoubt('aborted'),
  501: permanent('invalid_request', 'developer'),
  502: transient('provider_unavailable'),
  503: transient('provider_unavailable'),
  504: transient('timeout'),
  505: permanent('invalid_request', 'developer'),
  508: permanent('provider_error', 'provider'),
  511: permanent('unauthorized', 'operator'),
  // Cloudflare: the origin's certificate.
  526: permanent('tls_invalid', 'operator'),
  529: transient('provider_unavailable'),
}

/** The HTTP status, where it is one of an error. */
export function byStatus(facts: Facts): Verdict | undefined {
  const { status } = facts
  if (status === undefined || status < 300) return undefined
  // GitHub answers its rate limits with 403; and a 503 that names a time asks to wait.
  if (status === 403 && (facts.header('x-ratelimit-remaining') === '0' || facts.header('retry-after') !== undefined))
    return limited()
  if (status === 503 && (waitHint(facts) ?? 0) > 0) return limited('provider_unavailable')
  return BY_STATUS[status] ?? (status < 500 ? permanent('invalid_request', 'developer') : transient('provider_error'))
}

/** Providers that say outright whether to retry: OpenAI and Anthropic in `x-should-retry`, Stripe in its own header. */
export function byShouldRetry(facts: Facts): Verdict | undefined {
  const answer = facts.header('x-should-retry') ?? facts.header('stripe-should-retry')
  if (answer !== 'true' && answer !== 'false') return undefined
  const verdict = byStatus(facts) ?? transient('provider_error')
  const retryable = verdict.kind !== 'permanent'
  if (retryable === (answer === 'true')) return verdict
  if (answer === 'true') return { ...transient('provider_error'), code: verdict.code }
  // "Do not retry" beside a time to wait means "not now".
  if (verdict.kind === 'rate_limited' && (waitHint(facts) ?? 0) > 0) return verdict
  return { kind: 'permanent', code: verdict.code, blame: verdict.blame }
}
