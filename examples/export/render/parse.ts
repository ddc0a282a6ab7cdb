/**
 * Markdown becomes the document model. Blocks are found in one quick pass; inline text, where most of the time goes, is parsed
 * paragraph by paragraph with a pause whenever a time slice is used up.
 */
import { Lexer, Marked, type Token, type Tokens } from 'marked'
import { RenderError } from './errors.js'
import { Footnotes } from './footnotes.js'
import { htmlBlocks } from './html.js'
import { inlineSpans } from './inline.js'
import { PLAIN, plainText, type Align, type Block, type Document, type ListItem, type Span } from './model.js'

/** Deeper nesting than this is shown as source text: it would not fit the page, and nobody wrote it by hand. */
const DEEPEST = 60
/** Past this many marks in one paragraph, emphasis matching takes seconds; such text is shown as written. */
const MOST_MARKS = 4_000

export async function parseMarkdown(markdown: string, pause: (fraction: number) => Promise<void> | undefined): Promise<Document> {
  const source = cleanSource(markdown)
  if (!/[^\s#>*_`~|+=-]/.test(source)) {
    throw new RenderError('the document has no text to export: write something in it, then export again')
  }
  const notes = new Footnotes()
  const lexer = new Lexer(new Marked(notes.extension()).defaults)
  try {
    lexer.blockTokens(source, lexer.tokens)
    const queue = lexer.inlineQueue
    for (let index = 0; index < queue.length; index++) {
      const entry = queue[index]
      if (!entry) continue
      if (countMarks(entry.src) > MOST_MARKS) entry.tokens.push({ type: 'text', raw: entry.src, text: entry.src })
      else lexer.inlineTokens(entry.src, entry.tokens)
      await pause(index / queue.length)
    }
    const blocks = new Builder(notes).document(lexer.tokens)
    if (!hasText(blocks)) {
      throw new RenderError('the document has no text to export: it holds only comments, markup or link definitions')
    }
    const headings = [...eachHeading(blocks)]
    const first = headings.find((heading) => heading.level === 1) ?? headings[0]
    const slugs = new Set(headings.map((heading) => heading.slug))
    for (const note of notes.list()) slugs.add(`footnote-${note.number}`)
    return { blocks, heading: first && plainText(first.spans), slugs }
  } catch (error) {
    if (error instanceof RangeError) {
      throw new RenderError('the document is nested too deeply to export: reduce the levels of quotes and lists', {
        cause: error,
      })
    }
    throw error
  }
}

/** Bytes no text should hold: BOM, NUL, other control characters, halves of surrogate pairs. */
function cleanSource(markdown: string): string {
  return markdown
    .replace(/^\uFEFF/, '')
    .replace(/\r\n?/g, '\n')
    .toWellFormed()
    .replace(/\0/g, '\uFFFD')
    .replace(/[\u0001-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]/g, '')
}

function countMarks(text: string): number {
  let marks = 0
  for (const _ of text.matchAll(/[*_~`[\]<!]/g)) marks++
  return marks
}

function hasText(blocks: readonly Block[]): boolean {
  return blocks.some((block) => {
    switch (block.kind) {
      case 'heading':
      case 'paragraph':
        return plainText(block.spans) !== ''
      case 'code':
        return block.text.trim() !== ''
      case 'quote':
        return hasText(block.blocks)
      case 'list':
        return block.items.some((item) => hasText(item.blocks))
      case 'table':
        return [block.head, ...block.rows].some((row) => row.some((cell) => plainText(cell) !== ''))
      case 'rule':
        return false
    }
  })
}

function* eachHeading(blocks: readonly Block[]): Generator<Block & { kind: 'heading' }> {
  for (const block of blocks) {
    if (block.kind === 'heading') yield block
    else if (block.kind === 'quote') yield* eachHeading(block.blocks)
    else if (block.kind === 'list') for (const item of block.items) yield* eachHeading(item.blocks)
  }
}

class Builder {
  private readonly slugs = new Map<string, number>()
  private readonly notes: Footnotes

  constructor(notes: Footnotes) {
    this.notes = notes
  }

  document(tokens: readonly Token[]): Block[] {
    const blocks = this.blocks(tokens, 0)
    const notes = this.notes.list()
    if (notes.length > 0) blocks.push({ kind: 'rule' })
    for (const note of notes) {
      const mark: Span = { text: `${note.number}`, style: { ...PLAIN, script: 'super' } }
      blocks.push({
        kind: 'paragraph',
        spans: [mark, { text: ' ', style: PLAIN }, ...inlineSpans(note.tokens, { ...PLAIN, muted: true })],
      })
    }
    return blocks
  }

  private blocks(tokens: readonly Token[] | undefined, depth: number): Block[] {
    const blocks: Block[] = []
    for (const token of tokens ?? []) {
      if (depth > DEEPEST) blocks.push({ kind: 'paragraph', spans: [{ text: token.raw.trim(), style: PLAIN }] })
      else blocks.push(...this.block(token, depth))
    }
    return blocks
  }

  private block(token: Tokens.Generic, depth: number): Block[] {
    switch (token.type) {
      case 'space':
      case 'def':
      case 'checkbox':
      case 'footnoteDefinition':
        return []
      case 'heading': {
        const spans = inlineSpans(token.tokens)
        return plainText(spans) ? [{ kind: 'heading', level: Number(token.depth), spans, slug: this.slug(plainText(spans)) }] : []
      }
      case 'code':
        return [{ kind: 'code', text: String(token.text).replace(/\t/g, '    ') }]
      case 'blockquote':
        return [{ kind: 'quote', blocks: this.blocks(token.tokens, depth + 1) }]
      case 'list':
        return [this.list(token as Tokens.List, depth)]
      case 'table':
        return [table(token as Tokens.Table)]
      case 'hr':
        return [{ kind: 'rule' }]
      case 'html':
        return htmlBlocks(token.raw, (text) => this.slug(text))
      default: {
        const spans = token.tokens ? inlineSpans(token.tokens) : [{ text: String(token.text ?? token.raw), style: PLAIN }]
        return plainText(spans) ? [{ kind: 'paragraph', spans }] : []
      }
    }
  }

  private list(token: Tokens.List, depth: number): Block {
    const items: ListItem[] = token.items.map((item) => ({
      checked: item.task ? item.checked === true : undefined,
      blocks: this.blocks(item.tokens, depth + 1),
    }))
    return { kind: 'list', start: token.ordered ? Number(token.start) || 0 : undefined, tight: !token.loose, items }
  }

  private slug(text: string): string {
    const base = text
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\p{M}\s_-]/gu, '')
      .trim()
      .replace(/\s/g, '-')
    const seen = this.slugs.get(base) ?? 0
    this.slugs.set(base, seen + 1)
    return seen === 0 ? base : `${base}-${seen}`
  }
}

function table(token: Tokens.Table): Block {
  const align = token.header.map((cell): Align => cell.align ?? 'left')
  const cells = (row: Tokens.TableCell[]) => row.map((cell) => inlineSpans(cell.tokens))
  return { kind: 'table', align, head: cells(token.header), rows: token.rows.map(cells) }
}
