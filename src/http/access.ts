/**
 * Who may do what. It is decided before anything is looked up, so that a refusal is the same whether the job exists or not, in
 * words and in time.
 */
import { JobtableError } from '../errors.js'
import { refusals } from './respond.js'
import { secretKey, verifyToken, type JobAction } from './token.js'

/** More do not fit into a header. */
const MOST_TOKENS = 100

export interface AccessRequest {
  jobId: string
  action: JobAction
}

/** The product's own decision. Only `true` permits. */
export type Authorize = (request: Request, access: AccessRequest) => boolean | Promise<boolean>

export type AccessOptions =
  | {
      /** The secrets of tokens, newest first: `signToken` signs with one, and a token signed with any of them is taken. */
      secrets: readonly string[]
      authorize?: never
    }
  | {
      /** Decides by whatever the product knows, such as its session's cookie. */
      authorize: Authorize
      secrets?: never
    }

export interface Grant {
  /** The jobs it names, where it names them. */
  readonly jobs: readonly string[] | undefined
  /** No longer than this, in milliseconds since 1970. */
  readonly until: number
  /** Throws a refusal. */
  check(jobId: string, action: JobAction): Promise<void>
}

export type Access = (request: Request, url: URL) => Promise<Grant>

export function prepareAccess({ secrets, authorize }: { secrets?: readonly string[]; authorize?: Authorize }): Access {
  if (secrets !== undefined && authorize === undefined && secrets.length > 0) return byToken(secrets.map(secretKey))
  if (typeof authorize === 'function' && secrets === undefined) return byProduct(authorize)
  throw new JobtableError(
    'config_invalid',
    'say who may see jobs: give either secrets, a list of at least one, for tokens made by signToken, or authorize(request, { jobId, action })',
  )
}

/**
 * Of several tokens, joined by `~`, each permits what it permits alone: never the job of one with the action of another. One that is not good any
 * more takes nothing from the others.
 */
function byToken(keys: readonly Uint8Array[]): Access {
  return async (request, url) => {
    const given = bearer(request) ?? url.searchParams.get('token')
    if (!given) throw refusals.tokenMissing()
    const tokens = given.split('~')
    if (tokens.length > MOST_TOKENS) throw refusals.invalid(`at most ${MOST_TOKENS} tokens`)
    const found = await Promise.all(tokens.map((token) => verifyToken(token, keys)))
    const good = found.filter((claims) => typeof claims !== 'string')
    if (good.length === 0) throw found.includes('expired') ? refusals.tokenExpired() : refusals.tokenInvalid()
    return {
      jobs: good.flatMap(({ jobs }) => jobs),
      until: Math.min(...good.map(({ expiresAt }) => expiresAt)),
      async check(jobId, action) {
        if (!good.some(({ jobs, actions }) => jobs.includes(jobId) && actions.includes(action))) throw refusals.forbidden()
      },
    }
  }
}

function byProduct(authorize: Authorize): Access {
  return async (request) => ({
    jobs: undefined,
    until: Infinity,
    async check(jobId, action) {
      // A cookie comes along with what other sites' pages send; what they ask for is not the user's wish.
      const foreign = request.method === 'POST' && request.headers.get('sec-fetch-site') === 'cross-site'
      const says: unknown = !foreign && (await authorize(request, { jobId, action }))
      if (says !== true) throw refusals.forbidden()
    },
  })
}

function bearer(request: Request): string | undefined {
  return /^Bearer +(\S+)$/i.exec(request.headers.get('authorization') ?? '')?.[1]
}
