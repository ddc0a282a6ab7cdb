/** Inline Markdown tokens become styled spans. A token this file does not know degrades to its text. */
import { decodeHTML } from 'entities'
import type { Token, Tokens } from 'marked'
import { htmlParts, imageSpans, attribute, safeLink, TagStyles } from './html.js'
import { PLAIN, type Span, type Style } from './model.js'

export function inlineSpans(tokens: readonly Token[] | undefined, style: Style = PLAIN): Span[] {
  const spans: Span[] = []
  const tags = new TagStyles(style)
  let hidden = false
  for (const token of tokens ?? []) {
    if (token.type === 'html') {
      for (const part of htmlParts(token.raw)) {
        if (part.kind === 'text') continue
        if (part.kind === 'close') tags.leave(part.name)
        else if (part.name === 'br') spans.push({ text: '\n', style: tags.style })
        else if (part.name === 'img') {
          spans.push(...imageSpans(attribute(part.attributes, 'alt') ?? '', attribute(part.attributes, 'src') ?? '', tags.style))
        } else tags.enter(part.name, part.attributes)
      }
      if (/^<(script|style)\b/i.test(token.raw)) hidden = true
      if (/^<\/(script|style)\b/i.test(token.raw)) hidden = false
    } else if (!hidden) {
      pushToken(spans, token, tags.style)
    }
  }
  return spans
}

function pushToken(spans: Span[], token: Tokens.Generic, style: Style): void {
  switch (token.type) {
    case 'strong':
      spans.push(...inlineSpans(token.tokens, { ...style, bold: true }))
      return
    case 'em':
      spans.push(...inlineSpans(token.tokens, { ...style, italic: true }))
      return
    case 'del':
      spans.push(...inlineSpans(token.tokens, { ...style, strike: true }))
      return
    case 'codespan':
      spans.push({ text: soften(String(token.text)), style: { ...style, code: true } })
      return
    case 'br':
      spans.push({ text: '\n', style })
      return
    case 'link': {
      const link = safeLink(decodeHTML(String(token.href)))
      spans.push(...inlineSpans(token.tokens, link ? { ...style, link } : style))
      return
    }
    case 'image':
      spans.push(...imageSpans(decodeHTML(String(token.text ?? '')), decodeHTML(String(token.href ?? '')), style))
      return
    case 'footnoteReference':
      spans.push({ text: String(token.number), style: { ...style, script: 'super', link: `#footnote-${token.number}` } })
      return
    case 'checkbox':
      return
    default:
      if (token.tokens?.length) spans.push(...inlineSpans(token.tokens, style))
      else spans.push({ text: soften(decodeHTML(String(token.text ?? token.raw))), style })
  }
}

const IDEOGRAPH = '[\\u2e80-\\u303f\\u3040-\\u30ff\\u3400-\\u9fff\\uf900-\\ufaff\\uff00-\\uffef]'
const MARK = '[\\u2014\\u2018-\\u201d\\u2026]'
const GAP = '[ \\t]*\\n[ \\t]*'
const BETWEEN_IDEOGRAPHS = new RegExp(
  `(?<=${IDEOGRAPH})${GAP}(?=${IDEOGRAPH}|${MARK})|(?<=${IDEOGRAPH}${MARK}{1,2})${GAP}(?=${IDEOGRAPH})`,
  'g',
)

/** A line end in the source is a space in the text, and nothing at all inside Chinese or Japanese. */
function soften(text: string): string {
  return text.replace(BETWEEN_IDEOGRAPHS, '').replace(/[ \t]*\n[ \t]*/g, ' ')
}
