/*
 * From a thrown value to a decision: is another attempt worth it, when, and who can mend it?
 *
 * Errors are known by their shape, never by their class, so that no library is imported and any version or copy will do.
 * A thrown value is a tree (`cause`, `errors[]`, `lastError`, `detail`, `originalError`, ...). Sources are asked in the order
 * of how much they know:
 *
 *   1. the reason of the job's own signal, once it has fired
 *   2. jobtable's own errors, so that a handler can always overrule what follows
 *   3. the provider's word in the body of its answer
 *   4. `x-should-retry`, `stripe-should-retry`
 *   5. the HTTP status
 *   6. codes of Node, undici, TLS and DNS
 *   7. timeouts and aborts without a reason, then messages
 *   8. nothing: two retries
 *
 * 2 to 6 are asked of one error after the other, from the outside in, so that the wrapper that says something has its say and
 * the one that says nothing is looked through. 7 is asked only when no error of the tree answered.
 *
 * Doubt. When a connection breaks or a time limit passes, the request may have taken effect. That is `transient` if
 *   - it was surely not sent: refused, DNS, a timeout while connecting, a TLS handshake that failed, no byte written; or
 *   - it was one that changes nothing: the error tells its method, and that is GET, HEAD, OPTIONS or TRACE; or
 *   - the answer had begun and broke off in the middle (`terminated`), or the server itself says that it undid the work.
 * Otherwise, also where the method is not known (a plain `fetch`, an SDK), it is `unknown_outcome`.
 */
import type { Classification } from '../errors.js'
import { aiSdk } from './ai-sdk.js'
import { anthropic } from './anthropic.js'
import { aws } from './aws.js'
import { axios } from './axios.js'
import { factsOf, methodOf, type Facts } from './facts.js'
import { google } from './google.js'
import { waitHint } from './hints.js'
import { byShouldRetry, byStatus } from './http.js'
import { byNodeCode } from './node.js'
import { openai } from './openai.js'
import { ownError, signalVerdict } from './own.js'
import { LAST_RESORTS } from './patterns.js'
import { postgres } from './postgres.js'
import { isInstance } from './read.js'
import { smtp } from './smtp.js'
import { sqlite } from './sqlite.js'
import { stripe } from './stripe.js'
import { flatten, unwrap, type ErrorTree } from './unwrap.js'
import { validation } from './validation.js'
import { mostCautious, transient, type Source, type Verdict } from './verdict.js'

export { CODES } from './codes.js'
export { describeError, MAX_MESSAGE_BYTES, MAX_STACK_BYTES } from './describe.js'

export interface ClassifyContext {
  /** The job's own signal. Once it has fired, its reason counts more than whatever was thrown because of it. */
  signal?: AbortSignal
}

const SOURCES: readonly Source[] = [
  (facts) => ownError(facts.error),
  validation,
  postgres,
  sqlite,
  smtp,
  aws,
  stripe,
  aiSdk,
  google,
  openai,
  anthropic,
  byShouldRetry,
  byStatus,
  axios,
  byNodeCode,
]

const UNKNOWN: Verdict = transient('unknown', 'developer', 2)

/** What a thrown value means for the job. It never throws itself, whatever it is given. */
export function classify(error: unknown, context: ClassifyContext = {}): Classification {
  try {
    return decide(error, context)
  } catch {
    return resolve(UNKNOWN, [])
  }
}

function decide(error: unknown, context: ClassifyContext): Classification {
  const tree = unwrap(error)
  const errors = flatten(tree)
  const verdict = signalVerdict(context.signal) ?? strong(tree) ?? weak(errors) ?? UNKNOWN
  return resolve(verdict, errors)
}

/** The first answer on the way in; of errors side by side, the most cautious one. */
function strong(tree: ErrorTree): Verdict | undefined {
  const facts = factsOf(tree.error)
  const found =
    first(SOURCES, (source) => source(facts)) ??
    first(tree.inner, strong) ??
    mostCautious(tree.members.map(strong).filter((verdict) => verdict !== undefined))
  return found && brokenOff(facts) && found.kind === 'in_doubt' && found.code === 'connection_lost'
    ? transient('connection_lost')
    : found
}

function weak(errors: readonly unknown[]): Verdict | undefined {
  const facts = errors.map(factsOf)
  return first(LAST_RESORTS, (source) => first(facts, source))
}

/** fetch's "terminated": the headers of the answer had arrived. */
function brokenOff(facts: Facts): boolean {
  return facts.message === 'terminated' && isInstance(facts.error, TypeError)
}

const SAFE_METHODS: ReadonlySet<unknown> = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE'])

function resolve(verdict: Verdict, errors: readonly unknown[]): Classification {
  const { kind, ...rest } = withHint(verdict, errors)
  if (kind !== 'in_doubt') return { kind, ...rest }
  return { kind: SAFE_METHODS.has(first(errors, methodOf)) ? 'transient' : 'unknown_outcome', ...rest }
}

/** The error that carries the headers is not always the one that carries the word. */
function withHint(verdict: Verdict, errors: readonly unknown[]): Verdict {
  if (verdict.retryAfterMs !== undefined || verdict.kind === 'permanent' || verdict.kind === 'canceled') return verdict
  const retryAfterMs = first(errors, (error) => waitHint(factsOf(error)))
  return retryAfterMs === undefined ? verdict : { ...verdict, retryAfterMs }
}

function first<T, R>(items: readonly T[], find: (item: T) => R | undefined): R | undefined {
  for (const item of items) {
    const found = find(item)
    if (found !== undefined) return found
  }
  return undefined
}
