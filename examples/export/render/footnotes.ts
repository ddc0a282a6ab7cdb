import type { Lexer, MarkedExtension, Token, Tokens } from 'marked'

export interface Footnote {
  readonly number: number
  readonly tokens: Token[]
}

/** `[^name]` in the text and `[^name]: …` anywhere: numbered by first mention, listed at the end of the document. */
export class Footnotes {
  private readonly numbers = new Map<string, number>()
  private readonly texts = new Map<string, Token[]>()

  extension(): MarkedExtension {
    const definition = this.definition.bind(this)
    return {
      extensions: [
        {
          name: 'footnoteDefinition',
          level: 'block',
          tokenizer(src) {
            return definition(src, this.lexer)
          },
        },
        {
          name: 'footnoteReference',
          level: 'inline',
          start: (src) => src.match(/\[\^/)?.index,
          tokenizer: (src) => this.reference(src),
        },
      ],
    }
  }

  /** Notes nobody refers to come last: the text is the author's, and dropping it would be silent. */
  list(): Footnote[] {
    for (const name of this.texts.keys()) this.numberOf(name)
    return [...this.numbers].map(([name, number]) => ({ number, tokens: this.texts.get(name) ?? [] }))
  }

  private definition(src: string, lexer: Lexer): Tokens.Generic | undefined {
    const match = /^ {0,3}\[\^([^\]\s]{1,80})\]:[ \t]*([^\n]*(?:\n[ \t]+\S[^\n]*)*)(?:\n|$)/.exec(src)
    const name = match?.[1]
    if (!match || name === undefined) return undefined
    const tokens: Token[] = []
    const text = (match[2] ?? '').replace(/\n\s+/g, ' ')
    if (!this.texts.has(name)) {
      this.texts.set(name, tokens)
      lexer.inline(text, tokens)
    }
    return { type: 'footnoteDefinition', raw: match[0], text }
  }

  private reference(src: string): Tokens.Generic | undefined {
    const match = /^\[\^([^\]\s]{1,80})\]/.exec(src)
    const name = match?.[1]
    if (!match || name === undefined || !this.texts.has(name)) return undefined
    return { type: 'footnoteReference', raw: match[0], number: this.numberOf(name) }
  }

  private numberOf(name: string): number {
    const number = this.numbers.get(name) ?? this.numbers.size + 1
    this.numbers.set(name, number)
    return number
  }
}
