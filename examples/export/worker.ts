/**
 * The worker's half: reads the Markdown, lays it out, stores the PDF. Runs in a process of its own.
 */
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { basename, extname } from 'node:path'
import { PermanentError } from 'jobtable'
import { exportMarkdown, queue } from './contract.js'
import { RenderError, renderMarkdown } from './render/index.js'

exportMarkdown.handle(async (job) => {
  const { source, sha256 } = job.payload
  await job.stage('rendering')
  const markdown = await read(source, sha256)
  const pdf = await renderMarkdown(markdown, { signal: job.signal, onProgress: (done) => job.progress(done) }).catch(explain)
  // Layout goes on while the file is being written; what is left to do after its last byte is saving.
  pdf.once('end', () => void job.stage('saving'))
  const file = await job.file(`${basename(source, extname(source))}.pdf`, pdf)
  await job.stage('ready')
  job.log.info('exported', { source, bytes: file.size })
  return file
})

async function read(source: string, sha256: string): Promise<string> {
  const content = await readFile(source)
  if (createHash('sha256').update(content).digest('hex') !== sha256) {
    throw new PermanentError(`${source} has changed since its export was asked for`, {
      code: 'source_changed',
      userMessage: 'The document was changed in the meantime. Export it again.',
    })
  }
  return content.toString('utf8')
}

/** What is wrong with the document is for its author to read, and no retry will mend it. */
function explain(error: unknown): never {
  if (!(error instanceof RenderError)) throw error
  throw new PermanentError(error.message, { code: 'document_unusable', userMessage: error.message, cause: error })
}

const worker = queue.work({ concurrency: 2 })
for (const signal of ['SIGINT', 'SIGTERM', 'disconnect'] as const) {
  process.once(signal, () => void queue.close().then(() => process.exit()))
}
await worker.ready()
