/** A stream as a handler writes it, and what is checked of one on either side of an isolated handler. */
import { JobtableError } from '../errors.js'
import { checkOptionNames } from '../options.js'
import type { StreamPlace } from './record.js'

/** A text that others read while it grows: see `job.stream`. */
export interface JobStream {
  /**
   * Appends to the text. Cheap to call often: what was written is stored a few times a second, with what all other jobs of the worker
   * have to report. Resolves at once, or while much is not stored yet, once that is: await it, and a fast source does not fill the memory.
   * A write that fails also fails the attempt, whether it was awaited or not.
   */
  write(text: string): Promise<void>
  /** Nothing more comes. Resolves once all of it is stored. The end of the job ends its streams as well. */
  end(): Promise<void>
  /**
   * Writes every piece as it comes, ends the stream, and answers with the whole text of these pieces. Once the job's signal is aborted, it
   * rejects at the next piece: pass the signal on to the source too, which may be long in giving one.
   */
  from(pieces: AsyncIterable<string> | Iterable<string>): Promise<string>
}

export interface StreamOptions {
  /** The most UTF-16 code units that the text may have: what goes beyond is refused with `stream_full`. Default 1,048,576 (1 MiB); at most 16 times that. */
  maxLength?: number
}

const DEFAULT_MAX_LENGTH = 1_048_576
const MOST_MAX_LENGTH = 16 * DEFAULT_MAX_LENGTH

/** Answers with the limit of its length. */
export function checkStream(name: string, options: StreamOptions = {}): number {
  checkOptionNames('job.stream', options, { maxLength: true })
  const { maxLength = DEFAULT_MAX_LENGTH } = options
  if (typeof name !== 'string' || name === '' || name.length > 100 || !name.isWellFormed() || name.includes('\0')) {
    throw new JobtableError('config_invalid', `${JSON.stringify(name)} is no name of a stream: use 1 to 100 characters`)
  }
  if (Number.isInteger(maxLength) && maxLength >= 1 && maxLength <= MOST_MAX_LENGTH) return maxLength
  throw new JobtableError(
    'config_invalid',
    `maxLength of the stream ${name} must be a whole number from 1 to ${MOST_MAX_LENGTH}, not ${String(maxLength)}`,
  )
}

export function notText(name: string, given: unknown): JobtableError {
  return new JobtableError('config_invalid', `the stream ${name} takes text, not ${typeof given}: turn it into a string first`)
}

export function checkPlace(after: StreamPlace | undefined, limit: number | undefined): void {
  const isCount = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 0
  if (after !== undefined && !(isCount(after.attempt) && isCount(after.offset))) {
    throw new JobtableError(
      'config_invalid',
      'a place in a stream is { attempt, offset }, whole numbers from 0, as an answer gives them',
    )
  }
  if (limit !== undefined && !(isCount(limit) && limit > 0)) {
    throw new JobtableError('config_invalid', `the limit of a text must be a whole number from 1, not ${String(limit)}`)
  }
}

/** What `from` does, with the other two verbs. */
export async function writeFrom(
  stream: Pick<JobStream, 'write' | 'end'>,
  pieces: AsyncIterable<string> | Iterable<string>,
  signal: AbortSignal,
): Promise<string> {
  let all = ''
  for await (const piece of pieces) {
    signal.throwIfAborted()
    await stream.write(piece)
    all += piece
  }
  signal.throwIfAborted()
  await stream.end()
  return all
}

/** The same promise, whose rejection nobody has to await: it is told elsewhere too. */
export function unheard<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => {})
  return promise
}
