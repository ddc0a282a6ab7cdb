import type { Facts } from './facts.js'
import { byCode } from './node.js'
import { readNumber, readString } from './read.js'
import { inDoubt, lookup, permanent, table, transient, type Verdict } from './verdict.js'

/** A server that greylists takes no second try sooner; and other 4xx replies about a mailbox pass no faster. */
const GREYLIST_MS = 300_000

const REPLIES: Readonly<Record<number, Verdict>> = {
  // The session was in a wrong state; a new connection starts afresh.
  503: transient('provider_error', 'provider', 2),
  500: permanent('invalid_request', 'developer'),
  501: permanent('invalid_request', 'developer'),
  502: permanent('invalid_request', 'developer'),
  504: permanent('invalid_request', 'developer'),
  555: permanent('invalid_request', 'developer'),
  530: permanent('unauthorized', 'operator'),
  534: permanent('unauthorized', 'operator'),
  535: permanent('unauthorized', 'operator'),
  538: permanent('unauthorized', 'operator'),
  523: permanent('too_large', 'user'),
}

const CODES = table(
  [permanent('unauthorized', 'operator'), 'EAUTH', 'EOAUTH2'],
  [permanent('misconfigured', 'operator'), 'ENOAUTH', 'ECONFIG', 'EOTP'],
  [permanent('tls_invalid', 'operator'), 'ETLS', 'EREQUIRETLS'],
  [permanent('recipient_refused', 'user'), 'EENVELOPE'],
  [permanent('invalid_request', 'developer'), 'EMAXRECIPIENTS', 'EFILEACCESS', 'EURLACCESS'],
  [transient('dns_failed', 'operator', 3), 'EDNS'],
  [transient('response_invalid', 'provider', 2), 'EPROTOCOL'],
  [transient('provider_unavailable'), 'EMAXLIMIT', 'EPROXY', 'EFETCH'],
  [inDoubt('connection_lost'), 'ECONNECTION', 'ESOCKET', 'ESENDMAIL'],
  [inDoubt('timeout'), 'ETIMEDOUT'],
  [inDoubt('aborted'), 'EABORT'],
)

const BEFORE_MAIL = /^(?:Connection timeout|Greeting never received|TLS upgrade timeout)/
const CERTIFICATE = /certificate|self[- ]signed|altname|wrong version number/i

/** nodemailer: the server's reply counts first, then what nodemailer says of itself. */
export function smtp(facts: Facts): Verdict | undefined {
  const command = readString(facts.error, 'command')
  const reply = readNumber(facts.error, 'responseCode')
  const isMail =
    command !== undefined || reply !== undefined || /^E(?:ENVELOPE|MESSAGE|DNS|SOCKET|AUTH|NOAUTH|OAUTH2)$/.test(facts.code)
  if (!isMail || !/^E[A-Z0-9]+$/.test(facts.code)) return undefined
  if (reply !== undefined) return byReply(reply, facts)
  if (facts.code === 'EMESSAGE') return permanent(/size/i.test(facts.message) ? 'too_large' : 'invalid_request', 'user')
  return connection(facts) ?? lookup([facts.code], CODES)
}

function byReply(reply: number, facts: Facts): Verdict | undefined {
  if (reply >= 400 && reply < 500) {
    if (facts.code === 'EAUTH') return transient('provider_unavailable')
    return reply === 421
      ? transient('provider_unavailable')
      : { ...transient('provider_unavailable'), retryAfterMs: waitAsked(facts) }
  }
  if (facts.code === 'EAUTH') return permanent('unauthorized', 'operator')
  if (reply === 552 && /\b5\.3\.4\b|size/i.test(facts.message)) return permanent('too_large', 'user')
  return REPLIES[reply] ?? (reply >= 500 ? permanent('recipient_refused', 'user') : transient('response_invalid', 'provider', 2))
}

/** "Greylisted, try again in 15 minutes" says more than the usual five. */
function waitAsked(facts: Facts): number {
  const [, amount, unit] = /\b(?:in|after|for) (\d{1,6}) ?(s|sec|second|m|min|minute|h|hour)s?\b/i.exec(facts.message) ?? []
  const unitMs = { s: 1_000, m: 60_000, h: 3_600_000 }[unit?.[0]?.toLowerCase() ?? ''] ?? 0
  return Math.max(GREYLIST_MS, Number(amount ?? 0) * unitMs)
}

/** nodemailer writes its own code over that of Node, and keeps Node's in `originalCode` in newer versions. */
function connection(facts: Facts): Verdict | undefined {
  if (facts.code === 'ETIMEDOUT') return BEFORE_MAIL.test(facts.message) ? transient('timeout') : undefined
  if (facts.code !== 'ESOCKET' && facts.code !== 'ETLS') return undefined
  const original = byCode(readString(facts.error, 'originalCode') ?? '', facts)
  if (original) return original
  if (facts.syscall === 'connect') return transient('connection_refused')
  return CERTIFICATE.test(facts.message) ? permanent('tls_invalid', 'operator') : undefined
}
