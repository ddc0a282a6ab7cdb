/*
 * Secrets are kept out of what jobtable stores about errors and shows about jobs. Error texts are full of them: keys that a
 * provider echoes, connection strings, headers. It is better to mask a harmless word than to show a key.
 *
 * Every repetition in the patterns is bounded or cannot overlap its neighbour, so that time grows with the length of the text
 * and no text can be made to take longer.
 */

const MASK = '[masked]'

const TEXT_RULES: readonly (readonly [RegExp, string])[] = [
  [/-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[^-]*(?:-----END [A-Z ]{0,40}PRIVATE KEY-----)?/g, MASK],
  [/\b(Bearer)(\s{1,4})[\w.~+/=-]{6,}/gi, `$1$2${MASK}`],
  [/\b(Basic)(\s{1,4})[\w+/=-]{12,}/g, `$1$2${MASK}`],
  // user:password@ in a URL, up to the last @ before the path.
  [/\b([a-z][a-z0-9+.-]{0,30}:\/\/[^\s:/?#@]{0,200}):[^\s/?#]{1,500}@/gi, `$1:${MASK}@`],
  [/\b((?:set-)?cookie["']?\s{0,4}[:=]\s{0,4})[^\r\n]+/gi, `$1${MASK}`],
  [/\b(?:sk|rk|pk|whsec|ek)_(?:live_|test_)?\w+/g, MASK],
  [/\bsk-[\w*-]{4,}/g, MASK],
  [/\b(?:gh[pousr]_|github_pat_|glpat-|xox[abeoprs]-|npm_|SG\.|ya29\.|hf_|AIza|re_|dop_v1_)[\w.-]{8,}/g, MASK],
  [/\b(?:AKIA|ASIA)[0-9A-Z]{12,20}\b/g, MASK],
  [/\beyJ[\w-]{5,}\.[\w-]{5,}(?:\.[\w-]{0,})?/g, MASK],
  [
    /((?:password|passwd|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key(?:[_-]?id)?|private[_-]?key|authorization|credentials?|signature)["']?\s{0,4}[=:]\s{0,4})(?:"[^"]*"?|'[^']*'?|[^\s,;&"'(){}[\]]+)/gi,
    `$1${MASK}`,
  ],
]

/** The text with everything that looks like a credential replaced by `[masked]`. */
export function maskSecrets(text: string): string {
  return TEXT_RULES.reduce((masked, [pattern, replacement]) => masked.replace(pattern, replacement), text)
}

// Compared with the key in small letters and without separators.
const SECRET_KEY =
  /password|passwd|passphrase|^pwd$|secret|apikey|accesskey|privatekey|signingkey|encryptionkey|authorization|^auth$|cookie|credential|^jwt$|^session(?:id)?$|^(?:cvc|cvv|pin|otp|ssn)$|cardnumber/
// Counts such as maxTokens and prompt_tokens are no secrets, and tell much about a job.
const TOKEN_KEY = /token(?:s)?$|^token/

const MAX_DEPTH = 50

function isSecret(key: string, value: unknown): boolean {
  if (value === null || value === undefined || value === '') return false
  const plain = key.toLowerCase().replace(/[^a-z0-9]/g, '')
  return SECRET_KEY.test(plain) || (TOKEN_KEY.test(plain) && typeof value !== 'number' && typeof value !== 'boolean')
}

/**
 * A copy of a payload or result for display: the values of keys that name a secret are masked, at any depth, and so are
 * credentials within texts. The value itself is left alone. Never throws.
 */
export function maskPayload(value: unknown): unknown {
  return mask(value, new Set(), 0)
}

function mask(value: unknown, above: Set<object>, depth: number): unknown {
  if (typeof value === 'string') return maskSecrets(value)
  if (typeof value !== 'object' || value === null) return value
  if (above.has(value)) return '[circular]'
  if (depth >= MAX_DEPTH) return '[too deep]'
  above.add(value)
  try {
    if (Array.isArray(value)) return value.map((member) => mask(member, above, depth + 1))
    if (!isPlain(value)) return value
    const entries = Object.keys(value).map((key) => [key, maskEntry(key, value as Record<string, unknown>, above, depth)])
    return Object.fromEntries(entries) as unknown
  } catch {
    return '[unreadable]'
  } finally {
    above.delete(value)
  }
}

function maskEntry(key: string, holder: Record<string, unknown>, above: Set<object>, depth: number): unknown {
  const value = holder[key]
  return isSecret(key, value) ? MASK : mask(value, above, depth + 1)
}

/** Dates and the like stay as they are; a payload has none of them, a value on its way into one may. */
function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === null || prototype === Object.prototype
}
