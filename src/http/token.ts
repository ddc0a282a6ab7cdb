/**
 * Tokens: JSON Web Tokens signed with HS256, which say which jobs, which actions, and until when. The audience keeps a product's other
 * tokens apart, even those signed with the same secret.
 */
import { errors, jwtVerify, SignJWT } from 'jose'
import { parseDuration, type Duration } from '../duration.js'
import { JobtableError } from '../errors.js'

/** What may be done with a job: see it, ask for its cancellation, download its file. */
export type JobAction = 'view' | 'cancel' | 'download'

const ACTIONS: readonly JobAction[] = ['view', 'cancel', 'download']

export interface TokenScope {
  /** The ids of the jobs. */
  jobs: readonly string[]
  /** `view` for the snapshot, its changes and the texts of public streams, `cancel`, `download` for the file. */
  actions: readonly JobAction[]
  /** How long the token is good for. */
  expiresIn: Duration
}

const AUDIENCE = 'jobtable'
/** What HS256 asks for: a key as long as its hash. Bytes. */
const SHORTEST_SECRET = 32

/** A token for these jobs and actions, to hand to the page of the user who may see them. Sign with the newest secret. */
export async function signToken({ jobs, actions, expiresIn }: TokenScope, secret: string): Promise<string> {
  const unknown = actions.filter((action) => !ACTIONS.includes(action))
  if (unknown.length > 0 || actions.length === 0 || jobs.length === 0) {
    throw new JobtableError('config_invalid', `a token needs jobs, and actions of ${ACTIONS.join(', ')}`, { data: { unknown } })
  }
  const now = Math.floor(Date.now() / 1_000)
  return new SignJWT({ jobs, actions })
    .setProtectedHeader({ alg: 'HS256', typ: 'JWT' })
    .setAudience(AUDIENCE)
    .setIssuedAt(now)
    .setExpirationTime(now + Math.ceil(parseDuration(expiresIn) / 1_000))
    .sign(secretKey(secret))
}

/** What a valid token grants. */
export interface Claims {
  jobs: readonly string[]
  actions: readonly string[]
  /** Milliseconds since 1970. */
  expiresAt: number
}

/** The claims, or why there are none. */
export async function verifyToken(token: string, keys: readonly Uint8Array[]): Promise<Claims | 'expired' | 'invalid'> {
  for (const key of keys) {
    try {
      const { payload } = await jwtVerify(token, key, { algorithms: ['HS256'], audience: AUDIENCE, requiredClaims: ['exp'] })
      if (!isTexts(payload['jobs']) || !isTexts(payload['actions'])) return 'invalid'
      return { jobs: payload['jobs'], actions: payload['actions'], expiresAt: payload.exp! * 1_000 }
    } catch (error) {
      if (error instanceof errors.JWTExpired) return 'expired'
      // Perhaps it was signed with another of the secrets. What is no fault of the token is for the log.
      if (!(error instanceof errors.JOSEError)) throw error
    }
  }
  return 'invalid'
}

export function secretKey(secret: string): Uint8Array {
  const key = new TextEncoder().encode(secret)
  if (key.length >= SHORTEST_SECRET) return key
  throw new JobtableError(
    'config_invalid',
    `a secret for tokens must have at least ${SHORTEST_SECRET} bytes, such as the output of: openssl rand -base64 32`,
  )
}

function isTexts(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((each) => typeof each === 'string')
}
