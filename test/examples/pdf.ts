/** Reads a PDF back with an independent library, as a reader of the export would. */
import { getDocument } from 'pdfjs-dist/legacy/build/pdf.mjs'

export interface ReadPdf {
  readonly pages: number
  /** Text of each page. */
  readonly text: string[]
  /** All text without white space: line ends fall where the layout puts them. */
  readonly squashed: string
  readonly title: string
  readonly bookmarks: string[]
  /** Web addresses of links. */
  readonly links: string[]
  /** Number of links to places in the same document. */
  readonly jumps: number
  /** How far text reaches to the right on any page, in points. */
  readonly rightmost: number
}

export async function readPdf(data: Uint8Array): Promise<ReadPdf> {
  const task = getDocument({ data: new Uint8Array(data), useSystemFonts: false, disableFontFace: true, verbosity: 0 })
  const document = await task.promise
  const text: string[] = []
  const links: string[] = []
  let jumps = 0
  let rightmost = 0
  for (let number = 1; number <= document.numPages; number++) {
    const page = await document.getPage(number)
    const content = await page.getTextContent()
    const parts: string[] = []
    for (const item of content.items) {
      if (!('str' in item)) continue
      parts.push(item.str + (item.hasEOL ? '\n' : ''))
      if (item.str.trim()) rightmost = Math.max(rightmost, Number(item.transform[4]) + item.width)
    }
    text.push(parts.join(''))
    // pdfjs types annotations as any.
    const annotations = (await page.getAnnotations()) as Annotation[]
    for (const annotation of annotations) {
      if (annotation.subtype !== 'Link') continue
      if (annotation.url) links.push(annotation.url)
      else if (annotation.dest) jumps++
    }
    page.cleanup()
  }
  const outline = (await document.getOutline()) ?? []
  const { info } = await document.getMetadata()
  const title = 'Title' in info ? String(info.Title) : ''
  const result: ReadPdf = {
    pages: document.numPages,
    text,
    squashed: squash(text.join('')),
    title,
    bookmarks: flatten(outline),
    links,
    jumps,
    rightmost,
  }
  await task.destroy()
  return result
}

export function squash(text: string): string {
  return text.replace(/\s+/g, '')
}

interface Annotation {
  readonly subtype?: string
  readonly url?: string
  readonly dest?: unknown
}

interface Bookmark {
  readonly title: string
  readonly items: Bookmark[]
}

function flatten(items: readonly Bookmark[]): string[] {
  return items.flatMap((item) => [item.title, ...flatten(item.items)])
}
