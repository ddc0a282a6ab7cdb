/** What a handler, a type or an error says, made fit to be stored. */
import { inspect } from 'node:util'
import { describeError } from '../classify/describe.js'
import { isInstance, read } from '../classify/read.js'
import type { PreparedType } from '../job-type.js'
import { JobtableError, type AbortCause, type Blame, type Classification } from '../errors.js'
import { encodeJson } from '../json.js'
import type { JobLog } from './context.js'
import type { NewEvent } from '../store.js'
import type { Settlement } from '../transition.js'

export const ABORT_MESSAGES: Readonly<Record<AbortCause, string>> = {
  canceled: 'the job was canceled',
  timeout: 'the attempt took longer than the timeout of its type',
  lease_lost: 'the claim on the job was lost',
  shutdown: 'the worker shuts down',
  superseded: 'a newer job has taken the place of this one',
}

/** Why a job's end is not in its row. */
export function notSettled({ status }: Settlement, why: 'lost' | 'locked'): string {
  return why === 'lost'
    ? `the job ended as ${status}, but its claim had been lost: that is not recorded`
    : `the job ended as ${status}, but its row is locked by a transaction that is still open: that is recorded once the row is free`
}

const KINDS: ReadonlySet<string> = new Set(['permanent', 'transient', 'rate_limited', 'canceled', 'unknown_outcome'])

/** What a type's own `classify` answers is stored, so it must be what it says. */
function checkClassification(answer: Classification): Classification {
  if (KINDS.has(answer.kind) && typeof answer.code === 'string' && typeof answer.blame === 'string') return answer
  throw new JobtableError('config_invalid', 'classify must answer with a kind, a code and a blame, or with undefined')
}

/** The stage as it is stored. */
export function checkStage(stage: string, type: string, known: readonly string[]): string {
  if (typeof stage !== 'string' || stage === '' || stage.length > 100 || (known.length > 0 && !known.includes(stage))) {
    const rule = known.length > 0 ? `its stages are ${known.join(', ')}` : 'use 1 to 100 characters'
    throw new JobtableError('config_invalid', `${JSON.stringify(stage)} is no stage of ${type}: ${rule}`)
  }
  return stage.toWellFormed()
}

/** What was said about what. From JavaScript it comes in pino's own order too, and as what is no text or no object. */
export function lineOf(first: unknown, second: unknown): { message: string; facts?: object } {
  const [said, about] = typeof first === 'object' && first !== null ? [second, first] : [first, second]
  const message = said ?? (about instanceof Error ? about.message : '')
  const facts = about instanceof Error ? { err: describeError(about) } : about
  return {
    message: typeof message === 'string' ? message : inspect(message),
    ...((facts ?? null) !== null && { facts: typeof facts === 'object' ? facts! : { value: facts } }),
  }
}

/** A log line in the timeline. */
export function logEvent(attempt: number, level: string, text: string, facts: object | undefined): NewEvent {
  return { kind: 'log', attempt, message: cleanText(text), data: JSON.stringify({ level, ...(facts && storable(facts)) }) }
}

function storable(facts: object): object {
  try {
    const text = encodeJson(facts, 'the facts of a log line', 'payload_invalid')
    return text.length <= 4_000 ? { facts: JSON.parse(text) as unknown } : { facts: 'too long for the timeline' }
  } catch (error) {
    return { facts: error instanceof JobtableError ? error.message : 'not storable' }
  }
}

/** A request that the program got wrong is nothing that its user could enter better. */
export function codeForUser({ code, blame }: { code: string; blame?: Blame }): string {
  return code === 'invalid_request' && blame === 'developer' ? 'unknown' : code
}

export function ownUserMessage(error: unknown): string | undefined {
  const own = isInstance(error, Error) ? read(error, 'userMessage') : undefined
  return typeof own === 'string' && own !== '' ? cleanText(own.slice(0, 1_000)) : undefined
}

export function logOf(line: (level: keyof JobLog, ...said: [message: string, facts?: object]) => void): JobLog {
  return {
    debug: (...said) => line('debug', ...said),
    info: (...said) => line('info', ...said),
    warn: (...said) => line('warn', ...said),
    error: (...said) => line('error', ...said),
  }
}

/** Text that both databases store: no half surrogates, no U+0000. */
export function cleanText(text: string): string {
  return text.toWellFormed().replaceAll('\0', '\uFFFD')
}

/** What the type's own `classify` says of an error, where it has one that says something. */
export function ownVerdict(
  type: PreparedType,
  error: unknown,
  warn: (message: string, facts: object) => void,
): Classification | undefined {
  try {
    const answer = type.classify?.(error)
    return answer && checkClassification(answer)
  } catch (cause) {
    warn("the type's own classify threw; the built-in classifier answers instead", { err: cause })
    return undefined
  }
}
