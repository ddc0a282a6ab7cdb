/**
 * The page being written: where the next thing goes, what is left of it, and what must be redrawn on every page a block crosses
 * (quote bars, the footer). Pages are handed to the stream as soon as the next one starts.
 */
import { COLOR, FOOTER, PAGE } from './theme.js'
import { PLAIN } from './model.js'
import type { Line, Piece, Typesetter } from './typeset.js'

/** A column of the page that a block may use. */
export interface Column {
  readonly x: number
  readonly width: number
}

interface Bar {
  readonly x: number
  from: number
}

type Marker = (baseline: number) => void

export class Paper {
  y: number = PAGE.margin.top
  readonly column: Column
  private readonly bars: Bar[] = []
  private markers: Marker[] = []
  private pendingGap = 0
  private opening = false
  private pageNumber = 0
  private readonly bottom: number

  readonly doc: PDFKit.PDFDocument
  readonly setter: Typesetter
  private readonly footer: string
  private readonly slugs: ReadonlySet<string>

  constructor(doc: PDFKit.PDFDocument, setter: Typesetter, footer: string, slugs: ReadonlySet<string>) {
    this.doc = doc
    this.setter = setter
    this.footer = footer
    this.slugs = slugs
    const { width, height } = doc.page
    this.column = { x: PAGE.margin.left, width: width - PAGE.margin.left - PAGE.margin.right }
    this.bottom = height - PAGE.margin.bottom
    this.startPage()
  }

  get left(): number {
    return this.bottom - this.y
  }

  get fullHeight(): number {
    return this.bottom - PAGE.margin.top
  }

  /** Space between blocks: the larger of what both neighbours ask, and none at the top of a page. */
  gap(size: number): void {
    if (!this.opening) this.pendingGap = Math.max(this.pendingGap, size)
  }

  /** Settles the gap and starts a new page unless `height` still fits. A block taller than a page starts where it is. */
  reserve(height: number): void {
    this.opening = false
    const fits = this.pendingGap + height <= this.left + 0.01
    if (fits || this.y <= PAGE.margin.top) this.settleGap()
    else this.nextPage()
  }

  nextPage(): void {
    for (const bar of this.bars) this.drawBar(bar)
    this.doc.addPage()
    this.startPage()
    for (const bar of this.bars) bar.from = this.y
  }

  finish(): void {
    for (const bar of this.bars) this.drawBar(bar)
  }

  /** A list marker waits for the first line of its item, to stand on the same baseline. */
  addMarker(marker: Marker): void {
    this.markers.push(marker)
  }

  placeMarkers(baseline: number): void {
    for (const marker of this.markers) marker(baseline)
    this.markers = []
  }

  /** The bar starts level with its first line, so the first gap inside it is dropped. */
  openBar(x: number): void {
    this.settleGap()
    this.opening = true
    this.bars.push({ x, from: this.y })
  }

  closeBar(): void {
    this.opening = false
    const bar = this.bars.pop()
    if (bar) this.drawBar(bar)
  }

  line(line: Line, x: number, baseline: number, color: string = COLOR.text): void {
    if (this.tint) this.tintCode(line, x, baseline)
    let at = x
    for (const piece of line.pieces) {
      this.piece(piece, at, baseline, color)
      at += piece.width
    }
  }

  /** One tint for all neighbouring pieces of the same code, whatever their fonts. */
  private tintCode({ pieces }: Line, x: number, baseline: number): void {
    let at = x
    for (let index = 0; index < pieces.length; index++) {
      const piece = pieces[index]
      if (!piece) continue
      let width = piece.width
      while (piece.style.code && pieces[index + 1]?.style === piece.style) width += pieces[++index]?.width ?? 0
      if (piece.style.code) {
        const { size } = piece
        this.doc.roundedRect(at, baseline - size * 1.03, width, size * 1.38, 2.5).fill(COLOR.inlineCodeBackground)
      }
      at += width
    }
  }

  private piece(piece: Piece, x: number, baseline: number, color: string): void {
    const { doc } = this
    const { style, size, width } = piece
    if (piece.text.trim() === '') return
    const link = style.link?.startsWith('#') ? this.anchor(style.link) : style.link
    const ink = link ? COLOR.link : style.muted ? COLOR.muted : color
    const y = style.script ? baseline + size * (style.script === 'super' ? -0.5 : 0.22) : baseline
    this.setter.use(piece.face, size)
    doc.fillColor(ink).text(piece.text, x + piece.lead, y, {
      lineBreak: false,
      baseline: 'alphabetic',
      ...(piece.slanted && { oblique: 12 }),
    })
    if (style.strike) this.stroke(x, baseline - size * 0.3, width, ink, 0.7)
    if (link) {
      this.stroke(x, y + size * 0.16, width, ink, 0.45)
      if (link.startsWith('#')) doc.goTo(x, y - size, width, size * 1.3, link.slice(1))
      else doc.link(x, y - size, width, size * 1.3, link)
    }
  }

  /** Inline code gets a tint, code inside a code block does not. */
  tint = true

  private anchor(link: string): string | undefined {
    const slug = safeDecode(link.slice(1))
    return this.slugs.has(slug) ? `#${slug}` : undefined
  }

  private stroke(x: number, y: number, width: number, color: string, thickness: number): void {
    this.doc
      .moveTo(x, y)
      .lineTo(x + width, y)
      .lineWidth(thickness)
      .strokeColor(color)
      .stroke()
  }

  rule(x: number, width: number, y = this.y, color: string = COLOR.rule, thickness = 0.75): void {
    this.stroke(x, y, width, color, thickness)
  }

  private settleGap(): void {
    if (this.y > PAGE.margin.top) this.y += this.pendingGap
    this.pendingGap = 0
  }

  private drawBar(bar: Bar): void {
    const height = Math.min(this.y, this.bottom) - bar.from
    if (height > 1) this.doc.roundedRect(bar.x, bar.from, 2.5, height, 1.25).fill(COLOR.quoteBar)
  }

  private startPage(): void {
    this.pageNumber++
    this.y = PAGE.margin.top
    this.pendingGap = 0
    const { x, width } = this.column
    const baseline = this.bottom + 34
    const number = this.footerLine(String(this.pageNumber), width)
    const title = this.footerLine(this.footer, width - 60)
    if (title) this.line(title, x, baseline, COLOR.muted)
    if (number) this.line(number, x + width - number.width, baseline, COLOR.muted)
  }

  private footerLine(text: string, width: number): Line | undefined {
    const shown = this.setter.text([{ text, style: PLAIN }], FOOTER.size)
    const [line, more] = this.setter.lines(shown, width)
    if (!line || !more) return line
    const [shorter] = this.setter.lines(shown, width - 10)
    const last = shorter?.pieces.at(-1)
    if (!shorter || !last) return line
    const dots = this.setter.piece({ ...last, level: 0 }, '…')
    return { pieces: [...shorter.pieces, dots], width: shorter.width + dots.width }
  }
}

function safeDecode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
