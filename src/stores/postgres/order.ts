/**
 * The order of lists. jobtable makes ids whose order is that of their creation (UUIDv7), so the primary key lists them, and no write pays
 * for an index of created_at. Such an index, jobs_created, holds the other rows alone: those that somebody has inserted under ids
 * of their own. A list reads from both, and merges.
 *
 * For that each row has a position, a text. That of a time-ordered id is the id itself; that of any other row is how such an id would
 * begin at its created_at: `xxxxxxxx-xxxx`, 48 bits of milliseconds. Positions are compared by bytes, and rows in one position by created_at
 * and id. All rows of one class are thus in the order of their index, and of one millisecond the other rows come before.
 */
import type { JobRow } from '../../store.js'

/**
 * Which rows have a time-ordered id. Only its form is looked at, so that every write can: LIKE takes 60 ns. The zero stands for the time up to
 * the year 2527, and is what a list has of the primary key: it need not walk over ids that begin with anything else. What is an id of
 * this form and no UUID is listed where its text says. The index and the lists must say this in the same words.
 */
export const TIME_ORDERED = `id LIKE '0_______-____-7___-____-____________'`
/** The same, said so that the planner does not guess. It takes what is LIKE a pattern for rare, and would sort all of it. */
export const TIME_ORDERED_OFTEN = `CASE WHEN ${TIME_ORDERED} THEN true ELSE false END`
/** All of them are here. */
export const TIME_ORDERED_RANGE = `id >= '0' AND id < '1'`
const FORM = /^0.{7}-.{4}-7.{3}-.{4}-.{12}$/su

const DIGITS = '0123456789abcdef'.split('')
const LAST = 0xffff_ffff_ffff

/** A place between two rows. Null, where a list begins: before all. */
export interface Cut {
  /** Time-ordered ids below this one are behind it. */
  id: string | null
  /** So are other rows that were created before this time, or at this time and with an id below the other. */
  createdAt: number | null
  otherId: string | null
}

export const BEGINNING: Cut = { id: null, createdAt: null, otherId: null }

export function isTimeOrdered(id: string): boolean {
  return FORM.test(id)
}

export function behindTimeOrdered(id: string): Cut {
  return { id, createdAt: latest(id) + 1, otherId: '' }
}

export function behindOther(createdAt: number, id: string): Cut {
  return { id: positionAt(createdAt), createdAt, otherId: id }
}

/** For rows of both classes. */
export function newestFirst(a: JobRow, b: JobRow): number {
  return compareBytes(positionOf(b), positionOf(a)) || compareTimes(b.createdAt, a.createdAt) || compareBytes(b.id, a.id)
}

function positionOf({ id, createdAt }: JobRow): string {
  return isTimeOrdered(id) ? id : positionAt(createdAt)
}

function positionAt(time: number): string {
  const digits = Math.min(Math.max(time, 0), LAST).toString(16).padStart(12, '0')
  return `${digits.slice(0, 8)}-${digits.slice(8)}`
}

/** The latest time whose position is before the id, or -Infinity. The digits of an id may be any characters. */
function latest(id: string): number {
  const [...characters] = id
  const digits = [...characters.slice(0, 8), ...characters.slice(9, 13)]
  const odd = digits.findIndex((digit) => !DIGITS.includes(digit))
  const known = digits.slice(0, odd === -1 ? undefined : odd).join('')
  if (odd === -1) return Number.parseInt(known, 16)
  const below = DIGITS.findLast((digit) => digit < digits[odd]!)
  if (below !== undefined) return Number.parseInt((known + below).padEnd(12, 'f'), 16)
  // All times that begin so are behind it.
  const first = Number.parseInt(known.padEnd(12, '0'), 16)
  return first === 0 ? -Infinity : first - 1
}

/** The database may have times without end, whose difference is no number. */
function compareTimes(a: number, b: number): number {
  return a < b ? -1 : Number(a > b)
}

function compareBytes(a: string, b: string): number {
  return a === b ? 0 : Buffer.compare(Buffer.from(a), Buffer.from(b))
}
