/**
 * Spans become lines. The text is cut into words where Unicode allows a line to break (between ideographs, after spaces, not
 * before a closing bracket), each word into pieces of one font and one style, and words fill lines from the left. Right-to-left
 * text is put into visual order when a line is complete.
 */
import bidiFactory, { type Bidi } from 'bidi-js'
import LineBreaker from 'linebreak'
import { clusters, face, faceRuns, isSlanted, type FaceName } from './faces.js'
import type { Span, Style } from './model.js'

export interface Piece {
  readonly text: string
  readonly face: FaceName
  readonly style: Style
  readonly size: number
  readonly width: number
  readonly slanted: boolean
  /** Room inside `width` before and after the text, for the tint of inline code. */
  readonly lead: number
  readonly trail: number
  readonly space: boolean
  /** Odd for right-to-left. */
  readonly level: number
}

export interface Word {
  readonly pieces: Piece[]
  /** Without the spaces that follow it. */
  readonly width: number
  readonly spaceWidth: number
  readonly endsLine: boolean
}

export interface Line {
  readonly pieces: Piece[]
  readonly width: number
  /** How far a continued line of code stands in. */
  readonly indent?: number
}

export interface Text {
  readonly words: Word[]
  readonly rightToLeft: boolean
}

const SCALE = { code: 0.9, script: 0.7, emoji: 0.86 }
const CODE_PADDING = 2.5
const LONG_WORD = 250
const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/
// The package exports the factory itself; its types describe an ES module with a default export.
const bidi = (bidiFactory as unknown as () => Bidi)()

export class Typesetter {
  /** Widths at size 1, by font. One document's worth; documents repeat their words. */
  private readonly widths = new Map<FaceName, Map<string, number>>()

  private readonly doc: PDFKit.PDFDocument

  constructor(doc: PDFKit.PDFDocument) {
    this.doc = doc
  }

  use(name: FaceName, size: number): void {
    if (!this.widths.has(name)) {
      this.widths.set(name, new Map())
      // pdfkit takes an opened font, and opening one takes longer than most documents; its published types only list files.
      this.doc.registerFont(name, face(name).font as unknown as Uint8Array)
    }
    this.doc.font(name, size)
  }

  width(text: string, name: FaceName, size: number): number {
    const known = this.widths.get(name)?.get(text)
    if (known !== undefined) return known * size
    if (text.length > LONG_WORD) return this.sumOfWidths(text, name) * size
    this.use(name, 1)
    const width = this.doc.widthOfString(text)
    this.widths.get(name)?.set(text, width)
    return width * size
  }

  /** Shaping a very long word at once takes seconds; it will be cut anyway. */
  private sumOfWidths(text: string, name: FaceName): number {
    let sum = 0
    for (const cluster of clusters(text)) sum += this.width(cluster, name, 1)
    return sum
  }

  text(spans: readonly Span[], size: number): Text {
    const all = spans.map((span) => span.text).join('')
    const levels = RIGHT_TO_LEFT.test(all) ? bidi.getEmbeddingLevels(all) : undefined
    const words = new WordMaker(this, all, levels?.levels, size)
    let offset = 0
    for (const span of spans) {
      words.style(offset, span)
      offset += span.text.length
    }
    return { words: words.make(), rightToLeft: levels?.paragraphs[0]?.level === 1 }
  }

  piece(from: Piece, text: string): Piece {
    return { ...from, text, width: this.width(text, from.face, from.size), lead: 0, trail: 0 }
  }

  /** Code keeps its spaces, and a long token starts where it stands instead of leaving a hole. */
  codeLine(text: string, size: number, width: number, style: Style): Line[] {
    const { words } = this.text([{ text, style, bare: true }], size / SCALE.code)
    const leading = text.length - text.trimStart().length + 2
    const hang = Math.min(leading, 30) * this.width(' ', 'mono', size)
    const lines = new LineFiller(this, width, Math.min(hang, width / 2))
    for (const word of words) lines.addAnywhere(word)
    return lines.finish()
  }

  lines(text: Text, width: number): Line[] {
    const lines = new LineFiller(this, width)
    for (const word of text.words) lines.add(word)
    return lines.finish()
  }
}

interface StyledRun {
  start: number
  end: number
  face: FaceName
  shown: string | undefined
  style: Style
  opens: boolean
  closes: boolean
}

class WordMaker {
  private readonly runs: StyledRun[] = []
  private run = 0

  private readonly setter: Typesetter
  private readonly all: string
  private readonly levels: Uint8Array | undefined
  private readonly size: number

  constructor(setter: Typesetter, all: string, levels: Uint8Array | undefined, size: number) {
    this.setter = setter
    this.all = all
    this.levels = levels
    this.size = size
  }

  style(offset: number, span: Span): void {
    for (const { start, end, face, shown } of faceRuns(span.text, span.style)) {
      const opens = start === 0 && span.style.code && !span.bare
      const closes = end === span.text.length && span.style.code && !span.bare
      this.runs.push({ start: offset + start, end: offset + end, face, shown, style: span.style, opens, closes })
    }
  }

  make(): Word[] {
    const words: Word[] = []
    const breaker = new LineBreaker(this.all)
    let start = 0
    for (let next = breaker.nextBreak(); next; next = breaker.nextBreak()) {
      const endsLine = next.required && this.all[next.position - 1] === '\n'
      words.push(this.word(start, next.position, endsLine))
      start = next.position
    }
    return words
  }

  private word(start: number, end: number, endsLine: boolean): Word {
    let textEnd = end
    while (textEnd > start && isSpace(this.all.charCodeAt(textEnd - 1))) textEnd--
    const pieces: Piece[] = []
    const width = this.cut(start, textEnd, false, pieces)
    const spaceWidth = this.cut(textEnd, end, true, pieces)
    return { pieces, width, spaceWidth, endsLine }
  }

  private cut(start: number, end: number, space: boolean, into: Piece[]): number {
    let total = 0
    let from = start
    while (from < end) {
      while ((this.runs[this.run]?.end ?? Infinity) <= from) this.run++
      const run = this.runs[this.run]
      if (!run) break
      const level = this.levels?.[from] ?? 0
      const to = this.levelEnd(from, Math.min(end, run.end), level)
      const text = this.shown(run, from, to, level)
      const at = from
      from = to
      if (!text) continue
      const piece = this.piece(text, run, space, level, run.opens && at === run.start, run.closes && to === run.end)
      total += piece.width
      into.push(piece)
    }
    return total
  }

  private levelEnd(from: number, end: number, level: number): number {
    if (!this.levels) return end
    let to = from + 1
    while (to < end && this.levels[to] === level) to++
    return to
  }

  private shown(run: StyledRun, from: number, to: number, level: number): string {
    if (run.shown !== undefined) return from === run.start ? run.shown : ''
    const text = this.all.slice(from, to).replace(/[\n\r]/g, '')
    if (level % 2 === 0) return text
    const mirrored = Array.from(text, (character) => bidi.getMirroredCharacter(character) ?? character)
    return (RIGHT_TO_LEFT.test(text) ? mirrored : mirrored.reverse()).join('')
  }

  private piece(text: string, run: StyledRun, space: boolean, level: number, opens: boolean, closes: boolean): Piece {
    const { face, style } = run
    const size =
      this.size * (style.script ? SCALE.script : 1) * (style.code ? SCALE.code : 1) * (face === 'emoji' ? SCALE.emoji : 1)
    const lead = opens ? CODE_PADDING : 0
    const trail = closes ? CODE_PADDING : 0
    const width = this.setter.width(text, face, size) + lead + trail
    return { text, face, style, size, width, slanted: isSlanted(face, style), lead, trail, space, level }
  }
}

class LineFiller {
  private readonly lines: Line[] = []
  private pieces: Piece[] = []
  private used = 0

  private readonly setter: Typesetter
  private readonly limit: number
  /** Indent of every line but the first. */
  private readonly hang: number

  constructor(setter: Typesetter, limit: number, hang = 0) {
    this.setter = setter
    this.limit = limit
    this.hang = hang
  }

  add(word: Word): void {
    if (this.pieces.length > 0 && this.used + word.width > this.limit + 0.01) this.end()
    if (word.width > this.limit) this.addBroken(word.pieces)
    else this.push(word.pieces, word.width + word.spaceWidth)
    if (word.endsLine) this.end()
  }

  addAnywhere(word: Word): void {
    if (this.used + word.width > this.limit && word.width < this.limit / 3) this.end()
    if (this.used + word.width <= this.limit) this.push(word.pieces, word.width + word.spaceWidth)
    else this.addBroken(word.pieces)
  }

  finish(): Line[] {
    if (this.pieces.length > 0 || this.lines.length === 0) this.end()
    return this.lines
  }

  private push(pieces: readonly Piece[], width: number): void {
    for (const piece of pieces) this.pieces.push(piece)
    this.used += width
  }

  /** A word wider than the line, such as a long address, is cut between characters. */
  private addBroken(pieces: readonly Piece[]): void {
    for (const piece of pieces) {
      let text = ''
      let width = 0
      for (const cluster of clusters(piece.text)) {
        const step = this.setter.width(cluster, piece.face, piece.size)
        if (this.used + width + step > this.limit && (text || this.pieces.length > 0)) {
          if (text) this.pieces.push({ ...piece, text, width, lead: 0, trail: 0 })
          this.end()
          text = ''
          width = 0
        }
        text += cluster
        width += step
      }
      if (text) this.push([{ ...piece, text, width, lead: 0, trail: 0 }], width)
    }
  }

  private end(): void {
    let count = this.pieces.length
    while (count > 0 && this.pieces[count - 1]?.space) count--
    const pieces = this.pieces.slice(0, count)
    const width = pieces.reduce((sum, piece) => sum + piece.width, 0)
    const indent = this.lines.length > 0 ? this.hang : 0
    this.lines.push({ pieces: merge(visualOrder(pieces)), width, indent })
    this.pieces = []
    this.used = this.hang
  }
}

function isSpace(code: number): boolean {
  return code === 0x20 || code === 0x0a || code === 0x09 || code === 0x0d
}

/** Rule L2 of the Unicode bidirectional algorithm, applied to pieces: each is of one level and drawn in its own direction. */
function visualOrder(pieces: Piece[]): Piece[] {
  let highest = 0
  for (const piece of pieces) highest = Math.max(highest, piece.level)
  if (highest === 0) return pieces
  const ordered = [...pieces]
  for (let level = highest; level >= 1; level--) {
    for (let start = 0; start < ordered.length; start++) {
      let end = start
      while ((ordered[end]?.level ?? -1) >= level) end++
      if (end - start > 1) ordered.splice(start, end - start, ...ordered.slice(start, end).reverse())
      start = end
    }
  }
  return ordered
}

/** Neighbours that look the same are drawn as one: smaller files, and text that copies as whole phrases. */
function merge(pieces: readonly Piece[]): Piece[] {
  const merged: Piece[] = []
  for (const piece of pieces) {
    const last = merged.at(-1)
    if (
      last &&
      last.face === piece.face &&
      last.style === piece.style &&
      last.size === piece.size &&
      last.level + piece.level === 0
    ) {
      merged[merged.length - 1] = { ...last, text: last.text + piece.text, width: last.width + piece.width, trail: piece.trail }
    } else {
      merged.push(piece)
    }
  }
  return merged
}
