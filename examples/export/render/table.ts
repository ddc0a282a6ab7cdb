/**
 * Tables. Columns get the width their text asks for when all fit; otherwise the text shrinks a little, then wraps. A table with
 * more columns than can be read side by side is cut into bands of columns, each repeating the first one. The header row comes
 * again on every page, and a row taller than a page goes on on the next.
 */
import { PLAIN, weighRow, type Align, type Block, type Span } from './model.js'
import type { Column, Paper } from './paper.js'
import { COLOR, GAP, TABLE } from './theme.js'
import type { Line, Text } from './typeset.js'
import type { Steps } from './layout.js'

/** A cell no column is narrowed below for: longer words are cut. */
const WIDEST_WORD = 96
const NARROWEST = 26

interface Band {
  readonly columns: number[]
  readonly widths: number[]
}

interface Sized {
  readonly size: number
  readonly head: Text[]
  readonly rows: Text[][]
  readonly least: number[]
  readonly natural: number[]
}

/** Share of the work that goes into measuring. */
const MEASURING = 0.4

export function* layoutTable(paper: Paper, table: Block & { kind: 'table' }, column: Column): Steps {
  let sized = yield* measure(paper, table, TABLE.sizes[0], MEASURING)
  for (const size of TABLE.sizes.slice(1)) {
    if (total(sized.least) <= column.width) break
    sized = yield* measure(paper, table, size, 0)
  }
  const bands = fitBands(sized, column.width)
  for (const [index, band] of bands.entries()) {
    paper.gap(GAP.block)
    if (bands.length > 1) caption(paper, column, band, table.head.length)
    const grid = new Grid(paper, sized, band, table.align, column, index > 0)
    for (const row of grid.draw()) yield (weighRow(table.rows[row] ?? []) * (1 - MEASURING)) / bands.length
    paper.gap(GAP.block)
  }
}

function* measure(
  paper: Paper,
  table: Block & { kind: 'table' },
  size: number,
  share: number,
): Generator<number, Sized, undefined> {
  const { setter } = paper
  const least = table.head.map(() => NARROWEST)
  const natural = table.head.map(() => NARROWEST)
  const bold = (span: Span): Span => ({ text: span.text, style: { ...span.style, bold: true } })
  const measured = (cells: readonly Span[][]): Text[] => {
    const texts = table.head.map((_, index) => setter.text(cells[index] ?? [], size))
    for (const [index, text] of texts.entries()) {
      const wants = widths(text)
      least[index] = Math.max(least[index] ?? 0, Math.ceil(Math.min(wants.word, WIDEST_WORD)))
      natural[index] = Math.max(natural[index] ?? 0, Math.ceil(wants.line))
    }
    return texts
  }
  const head = measured(table.head.map((cell) => cell.map(bold)))
  const rows: Text[][] = []
  for (const row of table.rows) {
    rows.push(measured(row))
    yield weighRow(row) * share
  }
  return { size, head, rows, least, natural }
}

/** The longest word and the longest line, with the padding of a cell. */
function widths(text: Text): { word: number; line: number } {
  let longest = 0
  let longestLine = 0
  let line = 0
  for (const word of text.words) {
    longest = Math.max(longest, word.width)
    longestLine = Math.max(longestLine, line + word.width)
    line = word.endsLine ? 0 : line + word.width + word.spaceWidth
  }
  return { word: longest + TABLE.padX * 2, line: longestLine + TABLE.padX * 2 }
}

function fitBands(sized: Sized, width: number): Band[] {
  const all = sized.least.map((_, index) => index)
  if (total(sized.least) <= width) return [{ columns: all, widths: spread(sized, all, width) }]
  const bands: Band[] = []
  let columns: number[] = []
  let used = 0
  for (const index of all) {
    const need = sized.least[index] ?? 0
    if (columns.length > 1 && used + need > width) {
      bands.push({ columns, widths: spread(sized, columns, width) })
      columns = [0]
      used = sized.least[0] ?? 0
    }
    columns.push(index)
    used += need
  }
  bands.push({ columns, widths: spread(sized, columns, width) })
  return bands
}

/** What is left after the least widths goes to the columns whose text wants more, in proportion to how much more. */
function spread(sized: Sized, columns: readonly number[], width: number): number[] {
  const least = columns.map((index) => sized.least[index] ?? 0)
  const natural = columns.map((index) => sized.natural[index] ?? 0)
  if (total(natural) <= width) {
    // A table that nearly fills the page fills it; a small one keeps its size.
    const slack = width - total(natural)
    const share = slack < width * 0.35 ? slack / columns.length : Math.min(24, slack / columns.length)
    return natural.map((want) => want + share)
  }
  const spare = Math.max(0, width - total(least))
  // The square root keeps one very long column from starving the others.
  const wish = natural.map((want, index) => Math.sqrt(Math.max(0, want - (least[index] ?? 0))))
  const wishes = total(wish) || 1
  return least.map((need, index) => need + (spare * (wish[index] ?? 0)) / wishes)
}

function caption(paper: Paper, column: Column, band: Band, count: number): void {
  const first =
    (band.columns[0] === 0 && band.columns.length > 1 && band.columns[1] !== 1 ? band.columns[1] : band.columns[0]) ?? 0
  const text = `Columns ${first + 1}–${(band.columns.at(-1) ?? 0) + 1} of ${count}`
  const [line] = paper.setter.lines(
    paper.setter.text([{ text, style: { ...PLAIN, muted: true, italic: true } }], 8),
    column.width,
  )
  paper.reserve(60)
  if (line) paper.line(line, column.x, paper.y + 8)
  paper.y += 13
}

interface Row {
  readonly cells: Line[][]
  readonly height: number
}

class Grid {
  private readonly lineHeight: number
  private readonly width: number
  private readonly head: Row
  private readonly columns: readonly Text[][]

  private readonly paper: Paper
  private readonly sized: Sized
  private readonly band: Band
  private readonly align: readonly Align[]
  private readonly column: Column
  private readonly continued: boolean

  constructor(paper: Paper, sized: Sized, band: Band, align: readonly Align[], column: Column, continued: boolean) {
    this.paper = paper
    this.sized = sized
    this.band = band
    this.align = align
    this.column = column
    this.continued = continued
    this.lineHeight = sized.size * TABLE.leading
    this.width = total(band.widths)
    this.columns = sized.rows
    this.head = this.row(sized.head)
  }

  /** Yields the index of every row drawn, and -1 between the pages of a long row. */
  *draw(): Generator<number, void, undefined> {
    const { paper } = this
    const first = this.columns[0] ? this.row(this.columns[0]).height : 0
    paper.reserve(Math.min(this.head.height + Math.min(first, 120), paper.fullHeight))
    if (!this.continued) paper.placeMarkers(paper.y + TABLE.padY + this.lineHeight * 0.75)
    this.drawHead()
    for (const [index, texts] of this.columns.entries()) {
      for (const _ of this.drawRow(this.row(texts), index % 2 === 1)) yield -1
      yield index
    }
  }

  private row(texts: readonly Text[]): Row {
    const cells = this.band.columns.map((index, position) => {
      const text = texts[index]
      const width = (this.band.widths[position] ?? 0) - TABLE.padX * 2
      return text ? this.paper.setter.lines(text, width) : []
    })
    const lines = Math.max(1, ...cells.map((cell) => cell.length))
    return { cells, height: lines * this.lineHeight + TABLE.padY * 2 }
  }

  private drawHead(): void {
    const { paper, head } = this
    const tall = head.height > paper.fullHeight / 2
    const shown = tall ? this.slice(head, 0, Math.floor(paper.fullHeight / 2 / this.lineHeight)) : head
    paper.doc.rect(this.column.x, paper.y, this.width, shown.height).fill(COLOR.headBackground)
    this.drawCells(shown)
    paper.rule(this.column.x, this.width, paper.y, COLOR.quoteBar, 0.9)
  }

  private *drawRow(row: Row, striped: boolean): Generator<void, void, undefined> {
    const { paper } = this
    const room = paper.fullHeight - this.head.height
    if (row.height > paper.left + 0.01 && row.height <= Math.max(room, 60)) this.turnPage()
    const lines = Math.max(1, ...row.cells.map((cell) => cell.length))
    let done = 0
    while (done < lines) {
      let fit = Math.floor((paper.left - TABLE.padY * 2 + 0.01) / this.lineHeight)
      if (fit < Math.min(2, lines - done)) {
        this.turnPage()
        fit = Math.max(1, Math.floor((paper.left - TABLE.padY * 2) / this.lineHeight))
      }
      const part = this.slice(row, done, done + fit)
      if (striped) paper.doc.rect(this.column.x, paper.y + 0.4, this.width, part.height - 0.4).fill(COLOR.stripe)
      this.drawCells(part)
      paper.rule(this.column.x, this.width, paper.y, COLOR.faint, 0.6)
      done += fit
      yield
    }
  }

  private turnPage(): void {
    this.paper.nextPage()
    this.drawHead()
  }

  private slice(row: Row, from: number, to: number): Row {
    const cells = row.cells.map((cell) => cell.slice(from, to))
    const lines = Math.max(1, ...cells.map((cell) => cell.length))
    return { cells, height: lines * this.lineHeight + TABLE.padY * 2 }
  }

  private drawCells(row: Row): void {
    const { paper, sized } = this
    let x = this.column.x
    for (const [position, cell] of row.cells.entries()) {
      const index = this.band.columns[position] ?? 0
      const width = this.band.widths[position] ?? 0
      const align = this.align[index] ?? 'left'
      for (const [number, line] of cell.entries()) {
        const slack = width - TABLE.padX * 2 - line.width
        const shift = align === 'right' ? slack : align === 'center' ? slack / 2 : 0
        const baseline = paper.y + TABLE.padY + number * this.lineHeight + this.lineHeight / 2 + sized.size * 0.36
        paper.line(line, x + TABLE.padX + shift, baseline)
      }
      x += width
    }
    paper.y += row.height
  }
}

function total(numbers: readonly number[]): number {
  return numbers.reduce((sum, value) => sum + value, 0)
}
