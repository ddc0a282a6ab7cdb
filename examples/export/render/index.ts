/**
 * Markdown in, PDF out, as a stream.
 *
 * The document is parsed before the promise resolves, so an empty or impossible document fails there. Layout runs as the stream
 * is read: finished pages leave memory as soon as somebody takes them, a slow reader slows layout down, and the event loop gets a
 * turn every few milliseconds.
 */
import { Readable } from 'node:stream'
import { setImmediate as nextTurn } from 'node:timers/promises'
import PDFDocument from 'pdfkit'
import { Layout } from './layout.js'
import { weigh, type Document } from './model.js'
import { Paper } from './paper.js'
import { parseMarkdown } from './parse.js'
import { PAGE } from './theme.js'
import { Typesetter } from './typeset.js'

export { RenderError } from './errors.js'

export interface RenderOptions {
  /** Printed above the document and in its properties. Without it, the first heading names the document. */
  title?: string | undefined
  /** Stops the work at the next pause: the promise rejects, or the stream is destroyed, with the signal's reason. */
  signal?: AbortSignal | undefined
  /** Called with a number from 0 to 1 that never goes down; 1 comes with the last byte. */
  onProgress?: ((fraction: number) => void) | undefined
}

/** Milliseconds of work between two turns of the event loop. */
const SLICE = 12
const PARSED = 0.15
const LAID_OUT = 0.95

/** PDF bytes of a Markdown document. Rejects with a `RenderError` when the document cannot become a PDF. */
export async function renderMarkdown(markdown: string, options: RenderOptions = {}): Promise<Readable> {
  const pace = new Pace(options)
  options.signal?.throwIfAborted()
  pace.report(0)
  const document = await parseMarkdown(markdown, (fraction) => pace.pause(fraction * PARSED))
  await pace.turn(PARSED)
  return Readable.from(writePdf(document, options.title?.trim() ?? '', pace), { objectMode: false, highWaterMark: 64 * 1024 })
}

async function* writePdf(document: Document, title: string, pace: Pace): AsyncGenerator<Buffer> {
  const name = title || document.heading || 'Untitled'
  const pdf = new PDFDocument({
    size: PAGE.size,
    margin: 0,
    displayTitle: true,
    info: { Title: name, Creator: 'jobtable export example' },
  })
  const setter = new Typesetter(pdf)
  const paper = new Paper(pdf, setter, name, document.slugs)
  const layout = new Layout(paper)
  if (title && title !== document.heading) layout.title(title)

  const whole = Math.max(1, weigh(document.blocks))
  let done = 0
  for (const worked of layout.blocks(document.blocks, paper.column)) {
    done += worked
    const pause = pace.pause(PARSED + (LAID_OUT - PARSED) * Math.min(1, done / whole))
    if (!pause) continue
    await pause
    yield* taken(pdf)
  }
  await pace.turn(LAID_OUT)
  paper.finish()
  pdf.end()
  yield* taken(pdf)
  pace.report(1)
}

function* taken(pdf: PDFKit.PDFDocument): Generator<Buffer> {
  for (let chunk: unknown = pdf.read(); Buffer.isBuffer(chunk); chunk = pdf.read()) yield chunk
}

/** Keeps the work polite: short slices, honest progress, prompt stop. */
class Pace {
  private reported = -1
  private sliceStart = performance.now()
  private readonly signal: AbortSignal | undefined
  private readonly onProgress: RenderOptions['onProgress']

  constructor({ signal, onProgress }: RenderOptions) {
    this.signal = signal
    this.onProgress = onProgress
  }

  /** Undefined while the slice lasts, so that the usual case costs no promise. */
  pause(fraction: number): Promise<void> | undefined {
    return performance.now() - this.sliceStart < SLICE ? undefined : this.turn(fraction)
  }

  async turn(fraction: number): Promise<void> {
    this.report(fraction)
    await nextTurn()
    this.signal?.throwIfAborted()
    this.sliceStart = performance.now()
  }

  report(fraction: number): void {
    if (fraction <= this.reported) return
    this.reported = fraction
    this.onProgress?.(fraction)
  }
}
