import type { Facts } from './facts.js'
import { POSTGRES_CLIENT_MESSAGES, postgresClientCode } from './postgres.js'
import { read, readString } from './read.js'
import { inDoubt, permanent, transient, type Source, type Verdict } from './verdict.js'

/*
 * The last resort, asked only when no error of the whole tree has a code or a status that says more: an abort whose reason
 * nobody tells, and messages.
 */

const ABORTED = inDoubt('aborted')
const TIMEOUT = inDoubt('timeout')
const ABORT_NAMES: ReadonlySet<string> = new Set([
  'AbortError',
  'CanceledError',
  'APIUserAbortError',
  'ABORT_ERR',
  'ERR_CANCELED',
  'UND_ERR_ABORTED',
  'UND_ERR_ABORT',
])

/** A time limit. It is looked for before an abort, since many libraries report the first as the second. */
function byTimeout(facts: Facts): Verdict | undefined {
  // gaxios and axios throw a mere abort, and keep the signal.
  if (readString(facts.error, 'config', 'signal', 'reason', 'name') === 'TimeoutError') return TIMEOUT
  const isTimeout = [facts.name, facts.code].includes('TimeoutError') || facts.className === 'APIConnectionTimeoutError'
  return isTimeout || (facts.numericCode === 23 && facts.className === 'DOMException') ? TIMEOUT : undefined
}

function byAbort(facts: Facts): Verdict | undefined {
  const isAbort = [facts.name, facts.code, facts.className].some((word) => ABORT_NAMES.has(word))
  return isAbort || (facts.numericCode === 20 && facts.className === 'DOMException') ? ABORTED : undefined
}

const MESSAGES: readonly (readonly [RegExp, Verdict])[] = [
  // Bundlers rename the classes by which the SDKs tell these.
  [/^Request was aborted\.$|^(?:This|The) operation was aborted/, ABORTED],
  [/^Could not parse response content as the length limit/, permanent('too_large', 'user')],
  [/^Could not parse response content as the request was rejected by the content filter/, permanent('content_refused', 'user')],
  [
    /^Unexpected token|^Unexpected end of JSON input|is not valid JSON|^Expected .* in JSON at position/,
    transient('response_invalid', 'provider', 2),
  ],
  [/socket hang up|^other side closed$|\bECONNRESET\b/, inDoubt('connection_lost')],
  [/^terminated$/, transient('connection_lost')],
  [/\bECONNREFUSED\b/, transient('connection_refused')],
  [/\b(?:ENOTFOUND|EAI_AGAIN)\b/, transient('dns_failed', 'operator', 3)],
  [/^Invalid URL$|^Failed to parse URL|^unknown scheme$/, permanent('invalid_request', 'developer')],
  [
    /\b(?:request|operation|connection|navigation) timed out\b|\btimeout of \d+ ?ms exceeded\b|^Timeout \d+ ?ms exceeded/i,
    TIMEOUT,
  ],
  [/database is locked|database table is locked/, transient('database_conflict', 'operator')],
  // These say no more than that something failed on the way.
  [/^fetch failed$|^Failed to fetch$|^Network request failed$|^Load failed$|^Connection error\.$/, inDoubt('connection_lost')],
]

/** The AI SDK says of a failure that came without a status whether it would try again. */
function byFlag(facts: Facts): Verdict | undefined {
  return read(facts.error, 'isRetryable') === true ? inDoubt('provider_error') : undefined
}

/** Each is asked of every error before the next one is, so the exact ones come first. */
export const LAST_RESORTS: readonly Source[] = [
  byTimeout,
  byAbort,
  postgresClientCode,
  ...[...POSTGRES_CLIENT_MESSAGES, ...MESSAGES].map(
    ([pattern, verdict]): Source =>
      (facts) =>
        pattern.test(facts.message) ? verdict : undefined,
  ),
  byFlag,
]
