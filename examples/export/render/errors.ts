/** The document cannot become a PDF, for a reason its author can act on. The message says what to do. */
export class RenderError extends Error {
  override readonly name = 'RenderError'
}
