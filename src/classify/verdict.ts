import type { Blame, ErrorKind } from '../errors.js'
import type { FailureCode } from './codes.js'
import type { Facts } from './facts.js'

/**
 * What one family of libraries says about one error. `in_doubt` means that the request may or may not have taken effect;
 * `resolve` turns it into `transient` or `unknown_outcome`, by what the rest of the error tells about the request.
 */
export interface Verdict {
  kind: ErrorKind | 'in_doubt'
  /** One of `FailureCode`, or the word that a handler chose. */
  code: string
  blame: Blame
  retryAfterMs?: number
  maxRetries?: number
}

/** One place to look for an answer. */
export type Source = (facts: Facts) => Verdict | undefined

type Table = Readonly<Record<string, Verdict>>

function make(kind: Verdict['kind'], code: FailureCode, blame: Blame, maxRetries?: number): Verdict {
  return maxRetries === undefined ? { kind, code, blame } : { kind, code, blame, maxRetries }
}

export const permanent = (code: FailureCode, blame: Blame): Verdict => make('permanent', code, blame)

export const transient = (code: FailureCode, blame: Blame = 'provider', maxRetries?: number): Verdict =>
  make('transient', code, blame, maxRetries)

export const limited = (code: FailureCode = 'rate_limited'): Verdict => make('rate_limited', code, 'provider')

export const inDoubt = (code: FailureCode, blame: Blame = 'provider', maxRetries?: number): Verdict =>
  make('in_doubt', code, blame, maxRetries)

/** One verdict for many words: `table([permanent(...), 'a', 'b'], [transient(...), 'c'])`. */
export function table(...rows: readonly (readonly [Verdict, ...string[]])[]): Table {
  const entries: Record<string, Verdict> = Object.create(null) as Record<string, Verdict>
  for (const [verdict, ...words] of rows) for (const word of words) entries[word] = verdict
  return entries
}

/** The verdict of the first word that the table knows. */
export function lookup(words: readonly string[], verdicts: Table): Verdict | undefined {
  for (const word of words) {
    const found = verdicts[word]
    if (found) return found
  }
  return undefined
}

// From the one that asks for most care to the one that gives up.
const CAUTION: readonly Verdict['kind'][] = ['unknown_outcome', 'in_doubt', 'rate_limited', 'transient', 'canceled', 'permanent']

/** Of several failures together: while one of them is worth another attempt, so is the whole. */
export function mostCautious(verdicts: readonly Verdict[]): Verdict | undefined {
  for (const kind of CAUTION) {
    const found = verdicts.find((verdict) => verdict.kind === kind)
    if (found) return found
  }
  return undefined
}
