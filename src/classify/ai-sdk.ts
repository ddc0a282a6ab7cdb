import type { Facts } from './facts.js'
import { readString } from './read.js'
import { lookup, permanent, table, transient, type Verdict } from './verdict.js'

// What a model answers differs from call to call, so a bad answer is worth two more.
const BAD_ANSWER = transient('response_invalid', 'provider', 2)
const WRONG_CALL = permanent('invalid_request', 'developer')

const NAMES = table(
  [permanent('misconfigured', 'operator'), 'AI_LoadAPIKeyError', 'AI_LoadSettingError'],
  // The gateway's other errors carry a status; this one is rewritten on its way out, and loses it.
  [permanent('unauthorized', 'operator'), 'GatewayAuthenticationError'],
  [permanent('not_found', 'developer'), 'AI_NoSuchModelError', 'AI_NoSuchProviderError', 'AI_NoSuchProviderReferenceError'],
  [WRONG_CALL, 'AI_InvalidArgumentError', 'AI_InvalidPromptError', 'AI_InvalidMessageRoleError', 'AI_MessageConversionError'],
  [
    WRONG_CALL,
    'AI_UnsupportedFunctionalityError',
    'AI_UnsupportedModelVersionError',
    'AI_InvalidDataContentError',
    'AI_UIMessageStreamError',
  ],
  [
    WRONG_CALL,
    'AI_MissingToolResultsError',
    'AI_MissingToolResultError',
    'AI_InvalidToolApprovalError',
    'AI_ToolCallNotFoundForApprovalError',
  ],
  [WRONG_CALL, 'AI_InvalidToolApprovalSignatureError'],
  [permanent('too_large', 'developer'), 'AI_TooManyEmbeddingValuesForCallError'],
  [BAD_ANSWER, 'AI_JSONParseError', 'AI_TypeValidationError', 'AI_EmptyResponseBodyError', 'AI_InvalidResponseDataError'],
  [
    BAD_ANSWER,
    'AI_InvalidToolInputError',
    'AI_NoSuchToolError',
    'AI_ToolCallRepairError',
    'AI_InvalidStreamPartError',
    'AI_ToolChoiceViolationError',
  ],
  [
    BAD_ANSWER,
    'AI_NoContentGeneratedError',
    'AI_NoObjectGeneratedError',
    'AI_NoOutputGeneratedError',
    'AI_NoImageGeneratedError',
  ],
  [BAD_ANSWER, 'AI_NoSpeechGeneratedError', 'AI_NoTranscriptGeneratedError', 'AI_NoVideoGeneratedError'],
)

/** Vercel's AI SDK. AI_RetryError and AI_DownloadError say nothing themselves: what they hold is looked at. */
export function aiSdk(facts: Facts): Verdict | undefined {
  if (facts.name === 'AI_NoObjectGeneratedError' && readString(facts.error, 'finishReason') === 'content-filter') {
    return permanent('content_refused', 'user')
  }
  // The answer was a success by its status, and no answer by its content.
  if (facts.name === 'AI_APICallError' && facts.status !== undefined && facts.status < 300) return BAD_ANSWER
  return lookup([facts.name], NAMES)
}
