import type { Facts } from './facts.js'
import { isObject, read, readPath } from './read.js'
import { inDoubt, limited, lookup, permanent, table, transient, type Verdict } from './verdict.js'

// `reason` words of the JSON APIs, and those of ErrorInfo in capitals.
const REASONS = table(
  [
    limited(),
    'rateLimitExceeded',
    'userRateLimitExceeded',
    'sharingRateLimitExceeded',
    'RATE_LIMIT_EXCEEDED',
    'concurrentRequestsLimitExceeded',
  ],
  [
    permanent('quota_exhausted', 'operator'),
    'dailyLimitExceeded',
    'quotaExceeded',
    'BILLING_DISABLED',
    'billingNotEnabled',
    'variableTermLimitExceeded',
  ],
  [permanent('quota_exhausted', 'user'), 'storageQuotaExceeded', 'teamDriveFileLimitExceeded'],
  [permanent('account_disconnected', 'user'), 'invalid_grant', 'invalid_rapt', 'authError'],
  [
    permanent('unauthorized', 'operator'),
    'invalid_client',
    'unauthorized_client',
    'API_KEY_INVALID',
    'keyInvalid',
    'ACCESS_TOKEN_EXPIRED',
  ],
  [
    permanent('forbidden', 'operator'),
    'forbidden',
    'insufficientPermissions',
    'accessNotConfigured',
    'SERVICE_DISABLED',
    'domainPolicy',
  ],
  [permanent('forbidden', 'operator'), 'ACCESS_TOKEN_SCOPE_INSUFFICIENT', 'insufficientFilePermissions'],
  [transient('provider_error'), 'backendError', 'internalError'],
)

const STATUSES = table(
  [limited(), 'RESOURCE_EXHAUSTED'],
  [transient('provider_unavailable'), 'UNAVAILABLE'],
  [transient('provider_error'), 'INTERNAL', 'DATA_LOSS'],
  [transient('conflict'), 'ABORTED'],
  [inDoubt('timeout'), 'DEADLINE_EXCEEDED'],
  [inDoubt('aborted'), 'CANCELLED'],
  [permanent('forbidden', 'operator'), 'PERMISSION_DENIED'],
  [permanent('unauthorized', 'operator'), 'UNAUTHENTICATED'],
  [permanent('not_found', 'developer'), 'NOT_FOUND'],
  [permanent('conflict', 'developer'), 'ALREADY_EXISTS'],
  [permanent('invalid_request', 'developer'), 'INVALID_ARGUMENT', 'FAILED_PRECONDITION', 'OUT_OF_RANGE', 'UNIMPLEMENTED'],
)

// The numbers of gRPC, in order.
const GRPC = [
  'OK', 'CANCELLED', 'UNKNOWN', 'INVALID_ARGUMENT', 'DEADLINE_EXCEEDED', 'NOT_FOUND', 'ALREADY_EXISTS', 'PERMISSION_DENIED',
  'RESOURCE_EXHAUSTED', 'FAILED_PRECONDITION', 'ABORTED', 'OUT_OF_RANGE', 'UNIMPLEMENTED', 'INTERNAL', 'UNAVAILABLE', 'DATA_LOSS',
  'UNAUTHENTICATED',
] // prettier-ignore

/** Google's APIs over HTTP (gaxios, @google/genai) and gRPC. A reason is more exact than the status beside it. */
export function google(facts: Facts): Verdict | undefined {
  const words = [...facts.words, ...wordsInMessage(facts)]
  const found = lookup(words, REASONS) ?? lookup(words, STATUSES) ?? lookup([grpcStatus(facts)], STATUSES)
  if (found) return found
  return facts.message.startsWith('Could not load the default credentials') ? permanent('misconfigured', 'operator') : undefined
}

/** @google/genai puts the body of the response into the message, as JSON. */
function wordsInMessage(facts: Facts): string[] {
  if (!facts.message.startsWith('{')) return []
  try {
    const status = readPath(JSON.parse(facts.message) as unknown, 'error', 'status')
    return typeof status === 'string' ? [status] : []
  } catch {
    return []
  }
}

function grpcStatus(facts: Facts): string {
  const isGrpc = typeof read(facts.error, 'details') === 'string' && isObject(read(facts.error, 'metadata'))
  return isGrpc ? (GRPC[facts.numericCode ?? -1] ?? '') : ''
}
