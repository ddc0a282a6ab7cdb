/**
 * Over HTTP/1.1 a browser opens six connections to a host, so elements that have a token each must not have a connection each. Those with the
 * same path share a client, which says all of their tokens at once, joined by `~`.
 */
import type { GetToken } from '../client/handle.js'

/** Proxies refuse headers of more than 8 kB. With a job each, some 25 tokens have room. Characters. */
const MOST = 7_000

/** The tokens that are said together, and for which jobs. */
interface Ring {
  readonly holders: Set<{ job: string; token: string }>
  readonly getToken: NonNullable<GetToken>
}

const rings = new Map<string, Ring[]>()

/** `leave` takes it back. None is said on another path, which may be of another origin. */
export function shareToken(path: string, job: string, token: string): { getToken: NonNullable<GetToken>; leave: () => void } {
  const ofPath = rings.get(path) ?? []
  rings.set(path, ofPath)
  let ring = ofPath.find(({ holders }) => joined([...holders, { token }]).length <= MOST)
  if (!ring) ofPath.push((ring = createRing()))
  const holder = { job, token }
  ring.holders.add(holder)
  return { getToken: ring.getToken, leave: () => void ring.holders.delete(holder) }
}

function createRing(): Ring {
  const holders: Ring['holders'] = new Set()
  const getToken = (ids: readonly string[]): string => {
    const asked = [...holders].filter(({ job }) => ids.includes(job))
    // A job of another tab alone may be of any of them.
    return joined(asked.length > 0 ? asked : [...holders])
  }
  return { holders, getToken }
}

function joined(holders: readonly { token: string }[]): string {
  return [...new Set(holders.map(({ token }) => token))].join('~')
}

interface Claims {
  aud?: unknown
  actions?: unknown
}

/** Whether it is one of `signToken`: what else a product takes it may take alone only. */
export function isSigned(token: string): boolean {
  return claimsOf(token)?.aud === 'jobtable'
}

/** What a token of `signToken` is for. It is not checked here: that is the server's. */
export function actionsOf(token: string | null | undefined): readonly string[] | undefined {
  const actions = claimsOf(token)?.actions
  return Array.isArray(actions) ? (actions as string[]) : undefined
}

function claimsOf(token: string | null | undefined): Claims | undefined {
  try {
    return JSON.parse(atob((token?.split('.')[1] ?? '').replaceAll('-', '+').replaceAll('_', '/'))) as Claims
  } catch {
    return undefined // None, or one of the product's own.
  }
}
