/** Markdown to PDF, by the layout of the export example. */
import { PermanentError } from 'jobtable'
import { RenderError, renderMarkdown } from '../../export/render/index.js'
import { exportPdf } from '../contract.js'
import { documentAt } from '../documents.js'
import { linger } from './linger.js'

export function handleExportPdf(): void {
  exportPdf.handle(async (job) => {
    const { visitor, version, name } = job.payload
    await job.stage('rendering')
    const { title, text } = await documentAt(visitor, version)
    const pdf = await renderMarkdown(text, { title, signal: job.signal, onProgress: (done) => job.progress(done) }).catch(explain)
    await linger(job.signal)

    // The pages are laid out as the file is written; what is left to do after the last one is saving.
    const file = await job.file(name, untilSaved())
    await job.stage('ready')
    return file

    async function* untilSaved(): AsyncGenerator<Buffer> {
      yield* pdf as AsyncIterable<Buffer>
      await job.stage('saving')
      await linger(job.signal)
    }
  })
}

function explain(error: unknown): never {
  if (!(error instanceof RenderError)) throw error
  throw new PermanentError(error.message, { code: 'document_empty', cause: error })
}
