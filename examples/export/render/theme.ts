/** Measures are in points (1/72 inch). */
export const PAGE = { size: 'A4', margin: { left: 58, right: 58, top: 60, bottom: 66 } } as const

export const TEXT = { size: 10.5, leading: 1.55 } as const
export const CODE = { size: 8.8, leading: 1.5, padding: 9 } as const
export const TABLE = { sizes: [9.5, 8.5, 7.5], leading: 1.42, padX: 6, padY: 4.5 } as const
export const FOOTER = { size: 8 } as const

interface HeadingTheme {
  readonly size: number
  readonly before: number
  readonly after: number
}

const HEADINGS: readonly HeadingTheme[] = [
  { size: 23, before: 30, after: 12 },
  { size: 16.5, before: 24, after: 9 },
  { size: 13.5, before: 19, after: 7 },
  { size: 11.5, before: 16, after: 6 },
  { size: 10.5, before: 14, after: 5 },
  { size: 10.5, before: 14, after: 5 },
]

export function headingTheme(level: number): HeadingTheme {
  return HEADINGS[Math.min(Math.max(level, 1), 6) - 1] ?? { size: 10.5, before: 14, after: 5 }
}

export const GAP = { paragraph: 9, item: 3.5, block: 12 } as const
/** Lists and quotes step right, less and less as the text nears its narrowest width: twenty levels stay twenty levels. */
export const INDENT = { list: 20, quote: 16, narrowest: 130, share: 0.09 } as const

export const COLOR = {
  text: '#1f2328',
  muted: '#59636e',
  link: '#0b57d0',
  rule: '#d5dbe1',
  faint: '#e6eaee',
  codeBackground: '#f5f7f9',
  inlineCodeBackground: '#eceff2',
  headBackground: '#f1f4f7',
  stripe: '#fafbfc',
  quoteBar: '#c3ccd5',
  accent: '#2f6f4f',
} as const
