import type { Facts } from './facts.js'
import { read } from './read.js'
import { inDoubt, lookup, permanent, table, transient, type Verdict } from './verdict.js'

const REJECTED = permanent('database_rejected', 'developer')
const UNAVAILABLE = transient('database_unavailable', 'operator')
const CONFLICT = transient('database_conflict')

const STATES = table(
  [CONFLICT, '40001', '40P01', '55P03', '55006'],
  [inDoubt('database_unavailable', 'operator'), '40003', '08006', '08007'],
  [UNAVAILABLE, '53300', '57P01', '57P02', '57P03', '57P05', '25006'],
  [transient('disk_full', 'operator'), '53100'],
  // A statement that was canceled: by a timeout, a person or a conflict with recovery. More of the same helps little.
  [transient('timeout', 'operator', 2), '57014', '25P03', '25P04'],
  [transient('database_unavailable', 'operator', 2), '26000', '58030'],
  [permanent('forbidden', 'operator'), '42501'],
  [permanent('unauthorized', 'operator'), '28000', '28P01'],
  [permanent('misconfigured', 'operator'), '3D000', '57P04'],
)

/** The first two characters of an SQLSTATE are its class. */
const CLASSES = table(
  [UNAVAILABLE, '08', '53', '57', '58'],
  [CONFLICT, '40', '55'],
  [permanent('unauthorized', 'operator'), '28'],
  [permanent('misconfigured', 'operator'), '3D', '3F', 'F0'],
  [transient('database_unavailable', 'operator', 2), 'XX'],
)

/**
 * PostgreSQL, by SQLSTATE, through pg, postgres.js or PGlite. `EPIPE` has the shape of an SQLSTATE, so the fields that only
 * the server sends are asked for first.
 */
export function postgres(facts: Facts): Verdict | undefined {
  if (typeof read(facts.error, 'severity') !== 'string' && typeof read(facts.error, 'routine') !== 'string') return undefined
  if (!/^[0-9A-Z]{5}$/.test(facts.code)) return undefined
  return lookup([facts.code], STATES) ?? lookup([facts.code.slice(0, 2)], CLASSES) ?? REJECTED
}

/** What pg says without a code. The first two are said before anything was sent. */
export const POSTGRES_CLIENT_MESSAGES: readonly (readonly [RegExp, Verdict])[] = [
  [/^timeout exceeded when trying to connect|^Connection terminated due to connection timeout|^timeout expired$/, UNAVAILABLE],
  [
    /^Cannot use a pool after calling end|^Client was closed and is not queryable|has encountered a connection error and is not queryable/,
    UNAVAILABLE,
  ],
  [
    /^Connection terminated(?: unexpectedly)?$|^Connection ended unexpectedly|^write CONNECTION_(?:CLOSED|ENDED|DESTROYED)/,
    inDoubt('database_unavailable', 'operator'),
  ],
  [/^Query read timeout$/, inDoubt('timeout', 'operator')],
  [/^The server does not support SSL connections/, permanent('tls_invalid', 'operator')],
]

const POSTGRES_JS = table(
  [inDoubt('database_unavailable', 'operator'), 'CONNECTION_CLOSED', 'CONNECTION_ENDED', 'CONNECTION_DESTROYED'],
  [UNAVAILABLE, 'CONNECT_TIMEOUT'],
)

/** The codes of postgres.js for its own connection. */
export function postgresClientCode(facts: Facts): Verdict | undefined {
  return lookup([facts.code], POSTGRES_JS)
}
