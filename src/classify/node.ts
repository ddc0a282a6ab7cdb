import type { Facts } from './facts.js'
import { readNumber } from './read.js'
import { inDoubt, lookup, permanent, table, transient, type Verdict } from './verdict.js'

const DNS = transient('dns_failed', 'operator', 3)
/** What came back was no HTTP. */
const NO_HTTP = inDoubt('response_invalid', 'provider', 2)
const REFUSED = transient('connection_refused')
const LOST = inDoubt('connection_lost')
const WRONG_CALL = permanent('invalid_request', 'developer')

const CODES = table(
  [
    REFUSED,
    'ECONNREFUSED',
    'EHOSTUNREACH',
    'ENETUNREACH',
    'EHOSTDOWN',
    'ENETDOWN',
    'EADDRNOTAVAIL',
    'ConnectionRefused',
    'FailedToOpenSocket',
  ],
  [DNS, 'ENOTFOUND', 'EAI_AGAIN', 'EAI_NODATA', 'EAI_NONAME', 'EAI_FAIL', 'ENODATA', 'ESERVFAIL', 'EREFUSED', 'ETIMEOUT'],
  [LOST, 'ECONNRESET', 'EPIPE', 'ERR_STREAM_PREMATURE_CLOSE', 'ERR_SOCKET_CLOSED', 'ERR_STREAM_DESTROYED', 'ConnectionClosed'],
  [LOST, 'ERR_HTTP2_STREAM_ERROR', 'ERR_HTTP2_SESSION_ERROR', 'ERR_HTTP2_GOAWAY_SESSION', 'ERR_HTTP2_STREAM_CANCEL'],
  [
    inDoubt('timeout'),
    'ETIMEDOUT',
    'ESOCKETTIMEDOUT',
    'ECONNABORTED',
    'ERR_HTTP_REQUEST_TIMEOUT',
    'ERR_SOCKET_CONNECTION_TIMEOUT',
  ],
  [transient('local_resources', 'operator'), 'EMFILE', 'ENFILE', 'ENOMEM', 'EAGAIN', 'EBUSY', 'ERR_WORKER_OUT_OF_MEMORY'],
  [transient('disk_full', 'operator'), 'ENOSPC', 'EDQUOT'],
  [permanent('file_missing', 'developer'), 'ENOENT'],
  [permanent('forbidden', 'operator'), 'EACCES', 'EPERM', 'EROFS', 'ERR_ACCESS_DENIED'],
  [
    permanent('misconfigured', 'developer'),
    'ERR_MODULE_NOT_FOUND',
    'MODULE_NOT_FOUND',
    'ERR_PACKAGE_PATH_NOT_EXPORTED',
    'EISDIR',
    'ENOTDIR',
  ],
  [WRONG_CALL, 'ERR_INVALID_URL', 'ERR_INVALID_ARG_TYPE', 'ERR_INVALID_ARG_VALUE', 'ERR_MISSING_ARGS', 'ERR_OUT_OF_RANGE'],
  [
    WRONG_CALL,
    'ERR_INVALID_CHAR',
    'ERR_HTTP_INVALID_HEADER_VALUE',
    'ERR_INVALID_HTTP_TOKEN',
    'ERR_INVALID_PROTOCOL',
    'ERR_UNESCAPED_CHARACTERS',
  ],
  [permanent('too_large', 'developer'), 'ERR_STRING_TOO_LONG', 'ERR_BUFFER_TOO_LARGE', 'EFBIG', 'ENAMETOOLONG'],
  [transient('timeout'), 'ERR_TLS_HANDSHAKE_TIMEOUT'],
)

const UNDICI = table(
  [transient('timeout'), 'UND_ERR_CONNECT_TIMEOUT'],
  [inDoubt('timeout'), 'UND_ERR_HEADERS_TIMEOUT', 'UND_ERR_BODY_TIMEOUT'],
  [LOST, 'UND_ERR_SOCKET', 'UND_ERR_INFO', 'UND_ERR_DESTROYED'],
  [REFUSED, 'UND_ERR_CLOSED', 'UND_ERR_MAX_ORIGINS_REACHED', 'UND_ERR_SOCKS5'],
  [
    WRONG_CALL,
    'UND_ERR_INVALID_ARG',
    'UND_ERR_INVALID_RETURN_VALUE',
    'UND_ERR_NOT_SUPPORTED',
    'UND_ERR_REQ_CONTENT_LENGTH_MISMATCH',
  ],
  [permanent('misconfigured', 'developer'), 'UND_ERR_BPL_MISSING_UPSTREAM'],
  [
    permanent('too_large', 'developer'),
    'UND_ERR_RES_EXCEEDED_MAX_SIZE',
    'UND_ERR_HEADERS_OVERFLOW',
    'UND_ERR_WS_MESSAGE_SIZE_EXCEEDED',
  ],
  [transient('connection_lost'), 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH'],
)

const TLS =
  /^(?:CERT_|CRL_|UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_|ERROR_IN_CERT|INVALID_(?:CA|PURPOSE)$|HOSTNAME_MISMATCH$|PATH_LENGTH_|ERR_TLS_|ERR_SSL_|EPROTO$)/
// Alerts that a server sends when it is in trouble itself, and bytes garbled on the way.
const TLS_PASSING = /ALERT_INTERNAL_ERROR|BAD_RECORD_MAC|UNEXPECTED_EOF|DECRYPTION_FAILED/
// Node says so when the connection ends during the TLS handshake, so before any request.
const TLS_CUT_OFF = /before secure TLS connection was established/

/** Codes of Node's own system, stream, HTTP and TLS errors, and of undici, which is also the built-in `fetch`. */
export function byNodeCode(facts: Facts): Verdict | undefined {
  return byCode(facts.code, facts)
}

export function byCode(code: string, facts: Facts): Verdict | undefined {
  // undici's parser of Node 24 gives no code.
  if (code === '') return facts.name === 'HTTPParserError' ? NO_HTTP : undefined
  const verdict = missing(code, facts) ?? lookup([code], CODES) ?? lookup([code], UNDICI) ?? tls(code) ?? parser(code)
  if (verdict?.kind === 'in_doubt' && neverSent(code, facts))
    return transient(verdict.code === 'timeout' ? 'timeout' : 'connection_refused')
  return verdict
}

/** ENOENT may also be a server that does not listen on its socket file, or a program that is not installed. */
function missing(code: string, facts: Facts): Verdict | undefined {
  if (code !== 'ENOENT') return undefined
  if (facts.syscall === 'connect') return REFUSED
  return facts.syscall?.startsWith('spawn') ? permanent('misconfigured', 'operator') : undefined
}

function tls(code: string): Verdict | undefined {
  if (!TLS.test(code)) return undefined
  return TLS_PASSING.test(code) ? transient('connection_refused', 'provider', 3) : permanent('tls_invalid', 'operator')
}

/** llhttp. */
function parser(code: string): Verdict | undefined {
  return code.startsWith('HPE_') ? NO_HTTP : undefined
}

function neverSent(code: string, facts: Facts): boolean {
  if (facts.syscall === 'connect' || facts.syscall === 'getaddrinfo') return true
  if (TLS_CUT_OFF.test(facts.message)) return true
  if (code === 'ERR_HTTP2_STREAM_ERROR') return facts.message.includes('NGHTTP2_REFUSED_STREAM')
  // undici notes how much it wrote on the connection that broke.
  return code === 'UND_ERR_SOCKET' && readNumber(facts.error, 'socket', 'bytesWritten') === 0
}
