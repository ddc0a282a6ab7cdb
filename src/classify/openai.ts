import type { Facts } from './facts.js'
import { limited, lookup, permanent, table, transient, type Verdict } from './verdict.js'

const WORDS = table(
  [
    permanent('quota_exhausted', 'operator'),
    'insufficient_quota',
    'billing_hard_limit_reached',
    'billing_not_active',
    'budget_exceeded',
  ],
  [
    permanent('unauthorized', 'operator'),
    'invalid_api_key',
    'account_deactivated',
    'access_terminated',
    'organization_deactivated',
  ],
  [
    permanent('unauthorized', 'operator'),
    'mismatched_organization',
    'mismatched_project',
    'invalid_organization',
    'invalid_project',
  ],
  [permanent('forbidden', 'operator'), 'unsupported_country_region_territory', 'ip_not_authorized'],
  [permanent('not_found', 'operator'), 'model_not_found', 'DeploymentNotFound'],
  [
    permanent('too_large', 'user'),
    'context_length_exceeded',
    'string_above_max_length',
    'array_above_max_length',
    'image_too_large',
  ],
  [
    permanent('content_refused', 'user'),
    'content_filter',
    'content_policy_violation',
    'moderation_blocked',
    'image_content_policy_violation',
  ],
  [permanent('content_refused', 'user'), 'ResponsibleAIPolicyViolation', 'bio_policy', 'cyber_policy_violation'],
  [permanent('invalid_request', 'user'), 'invalid_image', 'invalid_image_format', 'invalid_base64_image', 'image_parse_error'],
  [
    permanent('invalid_request', 'user'),
    'empty_image_file',
    'image_too_small',
    'unsupported_image_media_type',
    'invalid_image_mode',
  ],
  [limited(), 'rate_limit_exceeded', 'requests_per_minute_exceeded', 'slow_down'],
  [transient('provider_unavailable'), 'engine_overloaded', 'model_overloaded', 'server_is_overloaded', 'service_unavailable'],
  [transient('provider_error'), 'server_error', 'internal_server_error', 'vector_store_timeout', 'failed_to_download_image'],
)

const NO_CREDENTIALS = /^Missing credentials\b|The OPENAI_API_KEY environment variable is missing|^Failed to get token from /

/** OpenAI and the many servers that speak its protocol. Its `name` is "Error", so the class counts where there is no body. */
export function openai(facts: Facts): Verdict | undefined {
  const verdict = lookup(facts.words, WORDS)
  if (verdict) return verdict
  if (NO_CREDENTIALS.test(facts.message)) return permanent('misconfigured', 'operator')
  switch (facts.className) {
    case 'ContentFilterFinishReasonError':
      return permanent('content_refused', 'user')
    case 'LengthFinishReasonError':
      return permanent('too_large', 'user')
    case 'InvalidWebhookSignatureError':
      return permanent('unauthorized', 'operator')
    case 'OAuthError':
      return facts.status !== undefined && facts.status < 500 ? permanent('unauthorized', 'operator') : undefined
    case 'SubjectTokenProviderError':
      return transient('unauthorized', 'operator', 1)
    default:
      return undefined
  }
}
