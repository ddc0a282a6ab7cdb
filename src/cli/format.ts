/** Text for people: tables, times, and words from the database that must not harm a terminal. */
import { styleText } from 'node:util'
import stringWidth from 'string-width'
import type { Status } from '../transition.js'

type Format = Parameters<typeof styleText>[0]

/** A cell with a colour, or without one. */
export type Cell = string | { text: string; format: Format }

export interface Column {
  title: string
  align?: 'right'
  /** Is cut when the table is wider than the terminal. */
  flexible?: true
}

export interface Layout {
  /** The widest that a line may be; absent for no limit. */
  width?: number | undefined
  color: boolean
}

/** Control characters could move the cursor or change the terminal; direction marks could make a text read as another one. */
const UNSAFE = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g

/** The text on one line, with nothing in it that a terminal would obey. */
export function clean(text: string): string {
  return text.replace(/\s*[\r\n\t]+\s*/g, ' ').replace(UNSAFE, '\uFFFD')
}

/** As `clean`, but keeps line breaks. */
export function cleanLines(text: string): string {
  return text
    .split(/\r?\n/)
    .map((line) => line.replaceAll('\t', '  ').replace(UNSAFE, '\uFFFD'))
    .join('\n')
}

export function colored(text: string, format: Format, color: boolean): string {
  return color ? styleText(format, text, { validateStream: false }) : text
}

const STATUS_FORMATS: Readonly<Record<string, Format>> = {
  running: 'cyan',
  retrying: 'yellow',
  succeeded: 'green',
  failed: 'red',
  canceled: 'gray',
}

export function statusCell(status: Status): Cell {
  const format = STATUS_FORMATS[status]
  return format === undefined ? clean(status) : { text: status, format }
}

const GAP = '  '
const NARROWEST = 8

/** Rows under their titles, aligned by what a terminal shows: a Chinese character is two columns wide. */
export function table(columns: readonly Column[], rows: readonly (readonly Cell[])[], { width, color }: Layout): string {
  const cells = rows.map((row) =>
    row.map((cell) => (typeof cell === 'string' ? { text: clean(cell) } : { ...cell, text: clean(cell.text) })),
  )
  const widths = columns.map(({ title }, i) =>
    Math.max(stringWidth(title), ...cells.map((row) => stringWidth(row[i]?.text ?? ''))),
  )
  if (width !== undefined) shrink(columns, widths, width)
  const line = (texts: readonly { text: string; format?: Format }[]): string => {
    const parts = texts.map(({ text, format }, i) => {
      const shown = cut(text, widths[i]!)
      const padding = ' '.repeat(Math.max(0, widths[i]! - stringWidth(shown)))
      const styled = format === undefined ? shown : colored(shown, format, color)
      if (columns[i]!.align === 'right') return `${padding}${styled}`
      return i === texts.length - 1 ? styled : `${styled}${padding}`
    })
    return parts.join(GAP).trimEnd()
  }
  const titles = columns.map(({ title }) => ({ text: title, format: 'bold' as Format }))
  return [line(titles), ...cells.map(line)].map((text) => `${text}\n`).join('')
}

/** Takes what is too wide from the flexible columns, the last one first. */
function shrink(columns: readonly Column[], widths: number[], width: number): void {
  let excess = widths.reduce((sum, each) => sum + each, 0) + GAP.length * (widths.length - 1) - width
  for (let i = columns.length - 1; i >= 0 && excess > 0; i--) {
    if (!columns[i]!.flexible) continue
    const taken = Math.min(excess, Math.max(0, widths[i]! - NARROWEST))
    widths[i]! -= taken
    excess -= taken
  }
}

/** At most this many columns wide; what is left out is told by an ellipsis. */
export function cut(text: string, width: number): string {
  if (text.length <= width / 2 || stringWidth(text) <= width) return text
  let taken = ''
  let used = 0
  for (const { segment } of new Intl.Segmenter().segment(text)) {
    const next = stringWidth(segment)
    if (used + next > width - 1) break
    taken += segment
    used += next
  }
  return width < 1 ? '' : `${taken}…`
}

const UNITS = [
  ['y', 31_557_600_000],
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1_000],
] as const

/** A length of time in its biggest whole unit: `3m`. */
export function span(ms: number): string {
  const length = Math.abs(ms)
  const unit = UNITS.find(([, size]) => length >= size)
  return unit ? `${Math.floor(length / unit[1])}${unit[0]}` : `${Math.round(length)}ms`
}

/** `3m ago`, `in 2h`, or `now`. */
export function relative(at: number, now: number): string {
  if (Math.abs(at - now) < 1_000) return 'now'
  return at < now ? `${span(now - at)} ago` : `in ${span(at - now)}`
}

/** The moment as ISO text, or null where there is none that a Date can hold. */
export function iso(at: number | null | undefined): string | null {
  if (typeof at !== 'number') return null
  const date = new Date(at)
  return Number.isNaN(date.getTime()) ? null : date.toISOString()
}

/** For people: `2026-03-01 12:00:05.123Z`. */
export function moment(at: number | null | undefined): string {
  return iso(at)?.replace('T', ' ') ?? '(no time)'
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`
}
