/**
 * Raw HTML in Markdown, shown safely: nothing is interpreted but a few tags that stand for emphasis and structure. Every other
 * tag is dropped and its text kept; comments, scripts and styles vanish.
 */
import { decodeHTML } from 'entities'
import { PLAIN, plainText, type Block, type Span, type Style } from './model.js'

export type HtmlPart = { kind: 'text'; text: string } | { kind: 'open' | 'close'; name: string; attributes: string }

const MARKUP =
  /<!--[\s\S]*?(?:-->|$)|<[?!][^>]{0,1000}>|<(\/?)([a-zA-Z][a-zA-Z0-9-]{0,40})((?:"[^"]{0,2000}"|'[^']{0,2000}'|[^'">]){0,4000})>/g

export function* htmlParts(raw: string): Generator<HtmlPart> {
  let last = 0
  let hidden: string | undefined
  for (const match of raw.matchAll(MARKUP)) {
    if (!hidden && match.index > last) yield { kind: 'text', text: decodeHTML(raw.slice(last, match.index)) }
    last = match.index + match[0].length
    const name = match[2]?.toLowerCase()
    if (!name) continue
    const kind = match[1] ? 'close' : 'open'
    if (hidden) {
      if (kind === 'close' && name === hidden) hidden = undefined
    } else if (kind === 'open' && (name === 'script' || name === 'style')) {
      hidden = name
    } else {
      yield { kind, name, attributes: match[3] ?? '' }
    }
  }
  if (!hidden && last < raw.length) yield { kind: 'text', text: decodeHTML(raw.slice(last)) }
}

export function attribute(attributes: string, name: string): string | undefined {
  const match = new RegExp(`(?:^|\\s)${name}\\s*=\\s*(?:"([^"]*)"|'([^']*)'|([^\\s"'>]+))`, 'i').exec(attributes)
  const value = match?.[1] ?? match?.[2] ?? match?.[3]
  return value === undefined ? undefined : decodeHTML(value)
}

/** The styles that open tags ask for, innermost last. */
export class TagStyles {
  private readonly open: { name: string; outer: Style }[] = []
  private current: Style

  constructor(current: Style) {
    this.current = current
  }

  get style(): Style {
    return this.current
  }

  enter(name: string, attributes: string): void {
    const style = tagStyle(this.current, name, attributes)
    if (!style || this.open.length > 100) return
    this.open.push({ name, outer: this.current })
    this.current = style
  }

  leave(name: string): void {
    const index = this.open.findLastIndex((tag) => tag.name === name)
    if (index < 0) return
    this.current = this.open[index]?.outer ?? this.current
    this.open.length = index
  }
}

function tagStyle(style: Style, name: string, attributes: string): Style | undefined {
  switch (name) {
    case 'b':
    case 'strong':
    case 'summary':
    case 'th':
    case 'dt':
      return { ...style, bold: true }
    case 'i':
    case 'em':
    case 'cite':
    case 'var':
      return { ...style, italic: true }
    case 'code':
    case 'kbd':
    case 'samp':
    case 'tt':
      return { ...style, code: true }
    case 's':
    case 'del':
    case 'strike':
      return { ...style, strike: true }
    case 'sup':
      return { ...style, script: 'super' }
    case 'sub':
      return { ...style, script: 'sub' }
    case 'a': {
      const link = safeLink(attribute(attributes, 'href'))
      return link ? { ...style, link } : undefined
    }
    default:
      return undefined
  }
}

/** Only addresses a reader may be sent to; `javascript:` and relative paths, which lead nowhere from a PDF, become plain text. */
export function safeLink(href: string | undefined): string | undefined {
  if (!href) return undefined
  if (href.startsWith('#')) return href.toLowerCase()
  if (!/^(?:https?|mailto|tel):/i.test(href)) return undefined
  return encodeURI(href.replace(/[\u0000-\u0020]/g, '').toWellFormed()).replace(/%25(?=[0-9a-f]{2})/gi, '%')
}

export function imageSpans(alt: string, source: string, style: Style): Span[] {
  const shown = source.length > 80 ? `${source.slice(0, 77)}…` : source
  const label = alt.trim() ? `[image: ${alt.trim()}]` : '[image]'
  const spans: Span[] = [{ text: label, style: { ...style, italic: true } }]
  if (shown)
    spans.push({ text: ' ', style }, { text: shown, style: { ...style, muted: true, link: safeLink(source) ?? style.link } })
  return spans
}

const BREAKING = new Set(
  (
    'address article aside blockquote body center dd details dialog div dl dt fieldset figcaption figure footer form header hr html ' +
    'legend li main nav ol p pre section summary table tbody thead tfoot tr ul h1 h2 h3 h4 h5 h6'
  ).split(' '),
)

export function htmlBlocks(raw: string, slug: (text: string) => string): Block[] {
  const blocks: Block[] = []
  const tags = new TagStyles(PLAIN)
  let spans: Span[] = []
  let heading = 0
  let pre = false

  const flush = () => {
    const text = spans.map((span) => span.text).join('')
    if (text.trim()) {
      if (pre) blocks.push({ kind: 'code', text: text.replace(/^\n|\s+$/g, '') })
      else if (heading) blocks.push({ kind: 'heading', level: heading, spans, slug: slug(plainText(spans)) })
      else blocks.push({ kind: 'paragraph', spans: trimSpans(spans) })
    }
    spans = []
  }

  for (const part of htmlParts(raw)) {
    if (part.kind === 'text') {
      const text = pre ? part.text : part.text.replace(/\s+/g, ' ')
      if (text) spans.push({ text, style: tags.style })
      continue
    }
    const { kind, name, attributes } = part
    if (BREAKING.has(name)) flush()
    if (name === 'pre') pre = kind === 'open'
    if (/^h[1-6]$/.test(name)) heading = kind === 'open' ? Number(name[1]) : 0
    if (kind === 'open') {
      if (name === 'br') spans.push({ text: '\n', style: PLAIN })
      if (name === 'hr') blocks.push({ kind: 'rule' })
      if (name === 'li') spans.push({ text: '• ', style: PLAIN })
      if ((name === 'td' || name === 'th') && spans.length > 0)
        spans.push({ text: '\u2003|\u2003', style: { ...PLAIN, muted: true } })
      if (name === 'img') {
        spans.push(...imageSpans(attribute(attributes, 'alt') ?? '', attribute(attributes, 'src') ?? '', tags.style))
      }
      tags.enter(name, attributes)
    } else {
      tags.leave(name)
    }
  }
  flush()
  return blocks
}

function trimSpans(spans: Span[]): Span[] {
  const kept = spans.map((span, index) => (index === 0 ? { ...span, text: span.text.trimStart() } : span))
  return kept.filter((span) => span.text)
}
