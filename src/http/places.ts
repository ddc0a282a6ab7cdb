/**
 * What a reader of a stream of events has already, as the address says it:
 *
 *   ?id=a&id=b&after=5,7                    the revs of the jobs, in the order of the ids; nothing between commas where there is none
 *   ?id=a&text=a/answer&text=a/notes/1/20   texts: the job, the stream and, unless it is the beginning, the attempt and the offset, with
 *                                           /done for who knows that; of one job's stream without the job. Job and name are
 *                                           percent-encoded once more
 */
import type { StreamPlace } from '../streams/record.js'
import { refusals } from './respond.js'
import type { TextPlace } from './text.js'

/** So many texts in one stream. */
const MOST_TEXTS = 100
const WHOLE = /^\d{1,16}$/

/** A parameter that is a whole number. */
export function wholeNumber(url: URL, name: string): number | undefined {
  const text = url.searchParams.get(name)
  if (text === null) return undefined
  if (WHOLE.test(text)) return Number(text)
  throw refusals.invalid(`${name} must be a whole number`)
}

/** The revs that the reader has, by the ids of the jobs. */
export function revsOf(url: URL, ids: readonly string[], lastEventId: string | null): ReadonlyMap<string, number> {
  const after = url.searchParams.get('after') ?? ''
  const revs = after.split(',')
  if (!revs.every((rev) => rev === '' || WHOLE.test(rev)) || revs.length > Math.max(1, ids.length)) {
    throw refusals.invalid('after must be whole numbers, one for each id and in their order, such as after=5,7')
  }
  // A browser's own EventSource says it in its way when it comes back, to the address that it had.
  if (ids.length === 1 && lastEventId !== null && WHOLE.test(lastEventId)) return new Map([[ids[0]!, Number(lastEventId)]])
  return new Map(revs.flatMap((rev, i) => (rev === '' ? [] : [[ids[i]!, Number(rev)] as const])))
}

/** The texts that are asked for. Each is of one of the jobs. */
export function textsOf(url: URL, ids: readonly string[], ofJob: string | undefined): readonly TextPlace[] {
  const asked = url.searchParams.getAll('text')
  if (asked.length > MOST_TEXTS) throw refusals.invalid(`at most ${MOST_TEXTS} texts fit into one stream`)
  return asked.map((text) => {
    const [id, name, ...place] = ofJob === undefined ? text.split('/').map(decoded) : [ofJob, ...text.split('/').map(decoded)]
    if (!name || !ids.includes(id!)) throw refusals.invalid('text must be a job of this stream and a name, such as text=id/name')
    return { id: id!, name, place: placeOf(place.slice(0, 2)), done: isDone(place.slice(2)) }
  })
}

/** A place in a text, as `?attempt=1&offset=20`. */
export function textPlace(url: URL): StreamPlace | null {
  const [attempt, offset] = [wholeNumber(url, 'attempt'), wholeNumber(url, 'offset')]
  if (attempt === undefined && offset === undefined) return null
  if (attempt !== undefined && offset !== undefined) return { attempt, offset }
  throw refusals.invalid('a place in a text is both attempt and offset')
}

function placeOf(place: readonly (string | undefined)[]): StreamPlace | null {
  if (place.length === 0) return null
  const [attempt, offset] = place
  if (place.length === 2 && WHOLE.test(attempt ?? '') && WHOLE.test(offset ?? '')) {
    return { attempt: Number(attempt), offset: Number(offset) }
  }
  throw refusals.invalid('a place in a text is its attempt and offset, such as text=id/name/1/20')
}

function isDone(rest: readonly (string | undefined)[]): boolean {
  if (rest.length === 0) return false
  if (rest.length === 1 && rest[0] === 'done') return true
  throw refusals.invalid('after the place in a text there may be /done and nothing else')
}

/** Undefined where there is a % that is none. */
export function decoded(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment)
  } catch {
    return undefined
  }
}
