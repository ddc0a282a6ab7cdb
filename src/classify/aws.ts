import type { Facts } from './facts.js'
import { isObject, read, readPath } from './read.js'
import { inDoubt, limited, lookup, permanent, table, transient, type Verdict } from './verdict.js'

const NAMES = table(
  [
    limited(),
    'SlowDown',
    'Throttling',
    'ThrottlingException',
    'ThrottledException',
    'TooManyRequestsException',
    'RequestLimitExceeded',
  ],
  [
    limited(),
    'RequestThrottled',
    'RequestThrottledException',
    'ProvisionedThroughputExceededException',
    'BandwidthLimitExceeded',
  ],
  [limited(), 'LimitExceededException', 'PriorRequestNotComplete', 'EC2ThrottledException', 'TransactionInProgressException'],
  // Answered with HTTP 400 by S3, and yet worth another attempt.
  [transient('timeout'), 'RequestTimeout', 'RequestTimeoutException', 'ModelTimeoutException'],
  [transient('provider_unavailable'), 'ServiceUnavailable', 'ServiceUnavailableException', 'ModelNotReadyException'],
  [transient('provider_error'), 'InternalError', 'InternalServerException', 'InternalFailure', 'ModelStreamErrorException'],
  [transient('conflict'), 'OperationAborted', 'ConditionalRequestConflict', 'ConcurrentModificationException'],
  [
    permanent('not_found', 'developer'),
    'NoSuchKey',
    'NoSuchBucket',
    'NoSuchUpload',
    'NoSuchVersion',
    'NotFound',
    'ResourceNotFoundException',
  ],
  [
    permanent('forbidden', 'operator'),
    'AccessDenied',
    'AccessDeniedException',
    'AllAccessDisabled',
    'AccountProblem',
    'OptInRequired',
  ],
  [permanent('forbidden', 'operator'), 'AccountSendingPausedException', 'MailFromDomainNotVerifiedException'],
  [
    permanent('unauthorized', 'operator'),
    'SignatureDoesNotMatch',
    'InvalidAccessKeyId',
    'UnrecognizedClientException',
    'InvalidSignatureException',
  ],
  [permanent('unauthorized', 'operator'), 'InvalidClientTokenId', 'AuthFailure', 'MissingAuthenticationToken', 'InvalidToken'],
  // One more attempt lets the credentials renew themselves, or the SDK set its clock right; after that a person must look.
  [
    transient('credentials_expired', 'operator', 1),
    'ExpiredToken',
    'ExpiredTokenException',
    'TokenRefreshRequired',
    'RequestExpired',
  ],
  [transient('credentials_expired', 'operator', 1), 'RequestTimeTooSkewed', 'RequestInTheFuture'],
  [
    permanent('conflict', 'developer'),
    'PreconditionFailed',
    'ConditionalCheckFailedException',
    'BucketAlreadyExists',
    'InvalidObjectState',
  ],
  [permanent('too_large', 'user'), 'EntityTooLarge', 'RequestEntityTooLargeException'],
  [permanent('content_refused', 'user'), 'MessageRejected'],
  [permanent('quota_exhausted', 'operator'), 'ServiceQuotaExceededException'],
)

/** AWS SDK v3: the name of the error beats the HTTP status. */
export function aws(facts: Facts): Verdict | undefined {
  if (facts.name === 'CredentialsProviderError' || facts.name === 'TokenProviderError')
    return permanent('misconfigured', 'operator')
  const retryable = read(facts.error, '$retryable')
  if (!isObject(read(facts.error, '$metadata')) && !isObject(retryable)) return undefined
  const named = lookup([facts.name], NAMES)
  if (named) return named
  if (isObject(retryable)) return readPath(retryable, 'throttling') === true ? limited() : transient('provider_error')
  // Its HTTP handler gives this name to lost connections too, and leaves Node's code in place.
  return facts.name === 'TimeoutError' && facts.code === '' ? inDoubt('timeout') : undefined
}
