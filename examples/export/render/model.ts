/** What a document is after parsing and before layout: a tree of blocks, with text as styled spans. */

export interface Style {
  readonly bold: boolean
  readonly italic: boolean
  readonly code: boolean
  readonly strike: boolean
  readonly script: 'super' | 'sub' | undefined
  readonly muted: boolean
  /** An absolute address, or `#slug` of a heading in the same document. */
  readonly link: string | undefined
}

export const PLAIN: Style = {
  bold: false,
  italic: false,
  code: false,
  strike: false,
  script: undefined,
  muted: false,
  link: undefined,
}

/** A `\n` inside the text is a line break the author asked for. */
export interface Span {
  readonly text: string
  readonly style: Style
  /** Code in a block of its own, which needs no tint. */
  readonly bare?: boolean
}

export type Align = 'left' | 'center' | 'right'

export interface ListItem {
  readonly checked: boolean | undefined
  readonly blocks: Block[]
}

export type Block =
  | { kind: 'heading'; level: number; spans: Span[]; slug: string }
  | { kind: 'paragraph'; spans: Span[] }
  | { kind: 'code'; text: string }
  | { kind: 'quote'; blocks: Block[] }
  | { kind: 'list'; start: number | undefined; tight: boolean; items: ListItem[] }
  | { kind: 'table'; align: Align[]; head: Span[][]; rows: Span[][][] }
  | { kind: 'rule' }

export interface Document {
  readonly blocks: Block[]
  /** Text of the first top-level heading, if there is one. */
  readonly heading: string | undefined
  /** Anchors a `#slug` link can reach. */
  readonly slugs: ReadonlySet<string>
}

export function plainText(spans: readonly Span[]): string {
  return spans
    .map((span) => span.text)
    .join('')
    .replace(/\s+/g, ' ')
    .trim()
}

/** How much work a block is to lay out, in characters, for honest progress. */
export function weigh(blocks: readonly Block[]): number {
  let weight = 0
  for (const block of blocks) weight += weighOne(block)
  return weight
}

export function weighOne(block: Block): number {
  switch (block.kind) {
    case 'heading':
    case 'paragraph':
      return weighSpans(block.spans)
    case 'code':
      return block.text.length + 20
    case 'quote':
      return weigh(block.blocks)
    case 'list':
      return block.items.reduce((sum, item) => sum + weigh(item.blocks) + 1, 0)
    case 'table':
      return weighRow(block.head) + block.rows.reduce((sum, row) => sum + weighRow(row), 0)
    case 'rule':
      return 1
  }
}

export function weighRow(cells: readonly Span[][]): number {
  return cells.reduce((sum, cell) => sum + weighSpans(cell), 0)
}

function weighSpans(spans: readonly Span[]): number {
  return spans.reduce((sum, span) => sum + span.text.length, 20)
}
