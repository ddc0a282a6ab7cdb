/** What a worker can be told, and what it tells. */
import { parseDuration, type Duration } from '../duration.js'
import { JobtableError } from '../errors.js'
import { checkQueue } from '../job-type.js'
import { checkOptionNames, type OptionNames } from '../options.js'

export interface WorkerOptions {
  /** Jobs that run at the same time. Default 10. */
  concurrency?: number
  /** Queues in order of preference. Default: those of the types that have a handler, in turn. */
  queues?: readonly string[]
  /** Short jobs that may be claimed ahead, at most; 0 for none. Long jobs are never claimed ahead. Default 200. */
  prefetch?: number
  /** How often to look for jobs when nothing tells of any: the net below the notifications. Default `1s`. */
  pollInterval?: Duration
  /** How long a claim outlives a worker that is silent; at least `1s`. Default `30s`. */
  lease?: Duration
  /** How long `stop` lets running jobs go on before it aborts them. Default `25s`. */
  stopTimeout?: Duration
}

export interface AttemptFacts {
  id: string
  type: string
  attempt: number
}

/** What a worker tells its listeners. */
export interface WorkerEvents {
  succeeded: AttemptFacts
  /** `code` and `message` are null where nothing failed: a wait that the handler asked for, or a hand-back. */
  retrying: AttemptFacts & { delayMs: number; code: string | null; message: string | null }
  failed: AttemptFacts & { code: string; message: string }
  canceled: AttemptFacts
  lease_lost: AttemptFacts
  /** The database failed; the worker goes on trying. */
  error: unknown
}

export interface PreparedOptions {
  concurrency: number
  queues: readonly string[] | undefined
  prefetch: number
  pollIntervalMs: number
  leaseMs: number
  stopTimeoutMs: number
}

const NAMES: OptionNames<Required<WorkerOptions>> = {
  concurrency: true,
  queues: true,
  prefetch: true,
  pollInterval: true,
  lease: true,
  stopTimeout: true,
}

export function prepareOptions(options: WorkerOptions): PreparedOptions {
  checkOptionNames('a worker', options, NAMES)
  const leaseMs = parseDuration(options.lease ?? '30s')
  if (leaseMs < 1_000) throw new JobtableError('config_invalid', 'lease must be at least 1s')
  return {
    concurrency: checkCount('concurrency', options.concurrency ?? 10, 1),
    queues: options.queues === undefined ? undefined : checkQueues(options.queues),
    prefetch: checkCount('prefetch', options.prefetch ?? 200, 0),
    pollIntervalMs: Math.max(10, parseDuration(options.pollInterval ?? '1s')),
    leaseMs,
    stopTimeoutMs: parseDuration(options.stopTimeout ?? '25s'),
  }
}

function checkQueues(queues: readonly string[]): readonly string[] {
  if (Array.isArray(queues) && queues.length > 0) return queues.map(checkQueue)
  throw new JobtableError(
    'config_invalid',
    'queues must name at least one queue, or the worker would do nothing: leave it out to serve those of every type that has a handler',
  )
}

function checkCount(name: string, value: number, least: number): number {
  if (Number.isInteger(value) && value >= least && value <= 10_000) return value
  throw new JobtableError('config_invalid', `${name} must be a whole number from ${least} to 10000, not ${String(value)}`)
}

/** Of an attempt, or of the row that it is at. */
export function factsOf(of: { id: string; type: string } & ({ attempt: number } | { attempts: number })): AttemptFacts {
  return { id: of.id, type: of.type, attempt: 'attempts' in of ? of.attempts : of.attempt }
}
