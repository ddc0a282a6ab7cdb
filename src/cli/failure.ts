/** From an error to what the user reads and the exit code. */
import { CommanderError } from 'commander'
import { JobtableError } from '../errors.js'
import { maskSecrets } from '../mask.js'
import { clean } from './format.js'

/** The exit codes, as documented. */
export const EXIT = { ok: 0, failed: 1, usage: 2 } as const

/** Something that the user can mend: the message, and what to do. No stack is needed to understand it. */
export class CliError extends Error {
  override readonly name = 'CliError'
  readonly exitCode: number
  readonly hint: string | undefined

  constructor(message: string, options: { exitCode?: number; hint?: string | undefined; cause?: unknown } = {}) {
    super(message, 'cause' in options ? { cause: options.cause } : undefined)
    this.exitCode = options.exitCode ?? EXIT.failed
    this.hint = options.hint
  }
}

export function usageError(message: string, hint?: string): CliError {
  return new CliError(message, { exitCode: EXIT.usage, hint })
}

/** Codes that say the command was given wrongly; nothing was tried then. */
const USAGE_CODES: ReadonlySet<string> = new Set([
  'config_invalid',
  'duration_invalid',
  'key_missing',
  'payload_invalid',
  'payload_too_large',
])

export function exitCodeOf(error: unknown): number {
  if (error instanceof CliError) return error.exitCode
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage
  return codeOf(error) !== undefined && USAGE_CODES.has(codeOf(error)!) ? EXIT.usage : EXIT.failed
}

/** `jobtable: <message>`, the hint on a line of its own, and the stack only when asked for. Holds no secrets. */
export function describeFailure(error: unknown, verbose: boolean): string {
  const lines = [`jobtable: ${oneLine(messageOf(error))}`]
  if (error instanceof CliError && error.hint !== undefined) lines.push(`  ${maskSecrets(error.hint)}`)
  if (verbose) lines.push(...stacksOf(error))
  return `${lines.join('\n')}\n`
}

export function messageOf(error: unknown): string {
  if (error instanceof Error) return error.message === '' ? error.name : error.message
  return typeof error === 'string' ? error : `a value was thrown that is no Error (${typeof error})`
}

/** The stack of an error, as it may be shown. */
export function stackOf(error: unknown): string {
  return maskSecrets(error instanceof Error ? (error.stack ?? error.message) : messageOf(error))
}

function oneLine(text: string): string {
  return clean(maskSecrets(text))
}

function stacksOf(error: unknown): string[] {
  const stacks: string[] = []
  // A cause may point back to its error.
  for (let next = error; next !== undefined && stacks.length < 5; next = next instanceof Error ? next.cause : undefined) {
    stacks.push(stackOf(next))
  }
  return stacks.flatMap((stack, i) => `${i === 0 ? '' : 'caused by: '}${stack}`.split('\n').map((line) => `  ${line}`))
}

/** Also of an error that another copy of jobtable threw: a module may have brought its own. */
function codeOf(error: unknown): string | undefined {
  if (error instanceof JobtableError) return error.code
  const named = error instanceof Error && error.name === 'JobtableError' && 'code' in error ? error.code : undefined
  return typeof named === 'string' ? named : undefined
}
