import type { Facts } from './facts.js'
import { inDoubt, lookup, permanent, table, transient, type Verdict } from './verdict.js'

const CODES = table(
  [inDoubt('connection_lost'), 'ERR_NETWORK'],
  [permanent('invalid_request', 'developer'), 'ERR_BAD_REQUEST', 'ERR_BAD_OPTION', 'ERR_BAD_OPTION_VALUE', 'ERR_NOT_SUPPORT'],
  [permanent('invalid_request', 'developer'), 'ERR_FR_TOO_MANY_REDIRECTS', 'ERR_FORM_DATA_DEPTH_EXCEEDED', 'ERR_DEPRECATED'],
  [transient('response_invalid', 'provider', 2), 'ERR_BAD_RESPONSE'],
)

/** axios, where no HTTP status came: its codes for a status (ERR_BAD_REQUEST is any 4xx, 429 too) say less than the status. */
export function axios(facts: Facts): Verdict | undefined {
  if (/^max(?:Content|Body)Length size of /.test(facts.message) || facts.code === 'ERR_FR_MAX_BODY_LENGTH_EXCEEDED') {
    return permanent('too_large', 'developer')
  }
  // The answer had begun.
  if (facts.code === 'ERR_BAD_RESPONSE' && facts.message === 'stream has been aborted') return transient('connection_lost')
  if (facts.code === 'ECONNABORTED' && /aborted/i.test(facts.message)) return inDoubt('connection_lost')
  return lookup([facts.code], CODES)
}
