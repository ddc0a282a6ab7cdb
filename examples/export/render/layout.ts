/**
 * Blocks go onto paper. Every function that may take long is a generator: it yields how much work is done, so that the caller can
 * let other work run, report progress and stop between two lines of the same table.
 */
import { INDENT, CODE, COLOR, GAP, headingTheme, TEXT } from './theme.js'
import { PLAIN, plainText, weighOne, type Block, type ListItem, type Span, type Style } from './model.js'
import type { Column, Paper } from './paper.js'
import { layoutTable } from './table.js'
import type { Line, Text } from './typeset.js'

/** Yields units of work done since the last yield, as `weigh` counts them. */
export type Steps = Generator<number, void, undefined>

export class Layout {
  private readonly outline: { level: number; item: PDFKit.PDFOutline }[] = []
  private readonly anchors = new Set<string>()

  private readonly paper: Paper

  constructor(paper: Paper) {
    this.paper = paper
  }

  title(text: string): void {
    const { paper } = this
    const style = { ...PLAIN, bold: true }
    this.paragraph(paper.setter.text([{ text, style }], 27), paper.column, 27, 1.25)
    paper.y += 10
    paper.rule(paper.column.x, paper.column.width)
    paper.y += 8
    paper.gap(14)
  }

  *blocks(blocks: readonly Block[], column: Column, depth = 0, tight = false): Steps {
    for (let index = 0; index < blocks.length; index++) {
      const block = blocks[index]
      if (block?.kind === 'heading') this.heading(block, column, needAfter(blocks, index))
      else if (block) yield* this.block(block, column, depth, tight)
      yield block?.kind === 'heading' ? weighOne(block) : 0
    }
  }

  private *block(block: Exclude<Block, { kind: 'heading' }>, column: Column, depth: number, tight: boolean): Steps {
    const { paper } = this
    switch (block.kind) {
      case 'paragraph': {
        const between = tight ? GAP.item : GAP.paragraph
        paper.gap(between)
        yield* this.longParagraph(block.spans, column, weighOne(block))
        paper.gap(between)
        return
      }
      case 'code':
        yield* this.code(block.text, column, weighOne(block))
        return
      case 'quote':
        yield* this.quote(block.blocks, column, depth)
        return
      case 'list':
        yield* this.list(block, column, depth)
        return
      case 'table':
        yield* layoutTable(paper, block, column)
        return
      case 'rule':
        paper.gap(16)
        paper.reserve(10)
        paper.placeMarkers(paper.y + 4)
        paper.rule(column.x, column.width)
        paper.gap(16)
        yield 1
    }
  }

  private heading(block: Block & { kind: 'heading' }, column: Column, after: number): void {
    const { paper } = this
    const theme = headingTheme(block.level)
    const color = block.level >= 6 ? COLOR.muted : COLOR.text
    const text = paper.setter.text(block.spans.map(embolden), theme.size)
    const lines = paper.setter.lines(text, column.width)
    const height = lines.length * theme.size * 1.3
    paper.gap(theme.before)
    paper.reserve(Math.min(height + theme.after + after, paper.fullHeight))
    this.bookmark(block)
    this.place(lines, 0, lines.length, column, theme.size, 1.3, text.rightToLeft, color)
    if (block.level <= 2 && column.x === paper.column.x) {
      paper.y += block.level === 1 ? 7 : 4
      paper.rule(column.x, column.width, paper.y, COLOR.faint)
    }
    paper.gap(theme.after)
  }

  private bookmark(block: Block & { kind: 'heading' }): void {
    const { doc, y } = this.paper
    while (this.outline.length > 0 && (this.outline.at(-1)?.level ?? 0) >= block.level) this.outline.pop()
    const parent = this.outline.at(-1)?.item ?? doc.outline
    const place: OutlinePlace = { expanded: block.level === 1, fit: false, top: Math.max(0, y - 10) }
    this.outline.push({ level: block.level, item: parent.addItem(plainText(block.spans).slice(0, 200), place) })
    this.anchor(block.slug)
  }

  private anchor(slug: string): void {
    if (!slug || this.anchors.has(slug)) return
    this.anchors.add(slug)
    this.paper.doc.addNamedDestination(slug, 'XYZ', 0, Math.max(0, this.paper.y - 10), 0)
  }

  private *longParagraph(spans: readonly Span[], column: Column, weight: number): Steps {
    const first = spans[0]
    if (first?.style.script && /^\d+$/.test(first.text)) this.anchor(`footnote-${first.text}`)
    const { setter } = this.paper
    const text = setter.text(spans, TEXT.size)
    yield 0
    yield* this.flow(setter.lines(text, column.width), column, text.rightToLeft, weight)
  }

  private *flow(lines: Line[], column: Column, rightToLeft: boolean, weight: number): Steps {
    const { paper } = this
    const height = TEXT.size * TEXT.leading
    let done = 0
    while (done < lines.length) {
      const rest = lines.length - done
      paper.reserve(height * Math.min(rest, 2))
      const fit = Math.max(1, Math.floor((paper.left + 0.01) / height))
      // Not one lonely line on the next page.
      const count = fit >= rest ? rest : rest - fit === 1 && fit > 2 ? fit - 1 : fit
      this.place(lines, done, done + count, column, TEXT.size, TEXT.leading, rightToLeft)
      done += count
      if (done < lines.length) paper.nextPage()
      yield (weight * count) / lines.length
    }
  }

  private paragraph(text: Text, column: Column, size: number, leading: number): void {
    const { paper } = this
    const lines = paper.setter.lines(text, column.width)
    paper.reserve(lines.length * size * leading)
    this.place(lines, 0, lines.length, column, size, leading, text.rightToLeft)
  }

  private place(
    lines: readonly Line[],
    from: number,
    to: number,
    column: Column,
    size: number,
    leading: number,
    rightToLeft: boolean,
    color: string = COLOR.text,
  ): void {
    const { paper } = this
    const height = size * leading
    for (let index = from; index < to; index++) {
      const line = lines[index]
      if (!line) continue
      if (height > paper.left + 0.01) paper.nextPage()
      const baseline = paper.y + height / 2 + size * 0.36
      paper.placeMarkers(baseline)
      const x = rightToLeft ? column.x + column.width - line.width : column.x
      paper.line(line, x, baseline, color)
      paper.y += height
    }
  }

  private *code(text: string, column: Column, weight: number): Steps {
    const { paper } = this
    const { size, padding } = CODE
    const height = size * CODE.leading
    const style: Style = { ...PLAIN, code: true }
    const source = text.split('\n')
    let pending: Line[] = []
    let next = 0
    let reported = 0
    const fill = (count: number) => {
      while (pending.length < count && next < source.length) {
        pending.push(...paper.setter.codeLine(source[next++] ?? '', size, column.width - padding * 2, style))
      }
    }
    paper.gap(GAP.block)
    fill(4)
    paper.reserve(Math.min(pending.length, 4) * height + padding * 2)
    while (pending.length > 0) {
      const room = Math.max(1, Math.floor((paper.left - padding * 2) / height))
      fill(room)
      const lines = pending.slice(0, room)
      pending = pending.slice(room)
      this.codePanel(lines, column, height)
      yield (weight * (next - reported)) / source.length
      reported = next
      fill(1)
      if (pending.length > 0) paper.nextPage()
    }
    paper.gap(GAP.block)
  }

  private codePanel(lines: readonly Line[], column: Column, height: number): void {
    const { paper } = this
    const { size, padding } = CODE
    const panel = lines.length * height + padding * 2
    paper.doc.roundedRect(column.x, paper.y, column.width, panel, 4).fillAndStroke(COLOR.codeBackground, COLOR.faint)
    paper.tint = false
    lines.forEach((line, index) => {
      const baseline = paper.y + padding + index * height + height / 2 + size * 0.36
      if (index === 0) paper.placeMarkers(baseline)
      paper.line(line, column.x + padding + (line.indent ?? 0), baseline)
    })
    paper.tint = true
    paper.y += panel
  }

  private *quote(blocks: readonly Block[], column: Column, depth: number): Steps {
    const { paper } = this
    const inner = indent(column, INDENT.quote)
    paper.gap(GAP.block)
    paper.reserve(TEXT.size * TEXT.leading * 2)
    if (inner.x > column.x) paper.openBar(column.x + 2)
    yield* this.blocks(blocks, inner, depth)
    if (inner.x > column.x) paper.closeBar()
    paper.gap(GAP.block)
  }

  private *list(block: Block & { kind: 'list' }, column: Column, depth: number): Steps {
    const { paper } = this
    const last = (block.start ?? 0) + block.items.length - 1
    const numberWidth = block.start === undefined ? 0 : paper.setter.width(`${last}.`, 'sans', TEXT.size) + 7
    const inner = indent(column, Math.max(INDENT.list, numberWidth))
    const between = block.tight ? GAP.item : GAP.paragraph
    paper.gap(depth > 0 ? GAP.item : GAP.paragraph)
    for (const [index, item] of block.items.entries()) {
      paper.gap(between)
      this.marker(item, block.start === undefined ? undefined : block.start + index, inner, depth)
      if (item.blocks.length === 0)
        this.paragraph(paper.setter.text([{ text: ' ', style: PLAIN }], TEXT.size), inner, TEXT.size, TEXT.leading)
      yield* this.blocks(item.blocks, inner, depth + 1, block.tight)
      yield 1
    }
    paper.gap(depth > 0 ? GAP.item : GAP.paragraph)
  }

  private marker(item: ListItem, number: number | undefined, column: Column, depth: number): void {
    const { paper } = this
    const { doc, setter } = paper
    const end = column.x - 7
    paper.addMarker((baseline) => {
      const middle = baseline - TEXT.size * 0.34
      if (item.checked !== undefined) {
        checkbox(doc, end - 9, middle - 4.5, item.checked)
      } else if (number !== undefined) {
        const [line] = setter.lines(setter.text([{ text: `${number}.`, style: { ...PLAIN, muted: true } }], TEXT.size), 1000)
        if (line) paper.line(line, end + 1 - line.width, baseline)
      } else if (depth % 3 === 0) {
        doc.circle(end - 3.5, middle, 1.9).fill(COLOR.text)
      } else if (depth % 3 === 1) {
        doc
          .circle(end - 3.5, middle, 1.7)
          .lineWidth(0.8)
          .strokeColor(COLOR.text)
          .stroke()
      } else {
        doc.rect(end - 5.1, middle - 1.6, 3.2, 3.2).fill(COLOR.text)
      }
    })
  }
}

/** A heading stays with the first lines of what it announces, and with the headings right below it. */
function needAfter(blocks: readonly Block[], index: number): number {
  let height = 0
  for (let next = index + 1; next < Math.min(blocks.length, index + 6); next++) {
    const block = blocks[next]
    if (block?.kind !== 'heading')
      return height + (block?.kind === 'table' || block?.kind === 'code' ? 70 : TEXT.size * TEXT.leading * 2.5)
    const theme = headingTheme(block.level)
    height += theme.before + theme.size * 1.3 + theme.after
  }
  return height
}

/** pdfkit takes a place on the page for a bookmark; its published types do not say so yet. */
interface OutlinePlace {
  expanded: boolean
  fit: boolean
  top: number
}

function checkbox(doc: PDFKit.PDFDocument, x: number, y: number, checked: boolean): void {
  if (!checked) {
    doc.roundedRect(x, y, 9, 9, 2).lineWidth(0.9).strokeColor(COLOR.muted).stroke()
    return
  }
  doc.roundedRect(x, y, 9, 9, 2).fill(COLOR.accent)
  doc
    .moveTo(x + 2.1, y + 4.7)
    .lineTo(x + 3.9, y + 6.5)
    .lineTo(x + 7, y + 2.8)
    .lineWidth(1.2)
    .strokeColor('#ffffff')
    .stroke()
}

function embolden(span: Span): Span {
  return { text: span.text, style: { ...span.style, bold: true } }
}

function indent(column: Column, wanted: number): Column {
  const step = Math.min(wanted, Math.max(0, column.width - INDENT.narrowest) * INDENT.share)
  return { x: column.x + step, width: column.width - step }
}
