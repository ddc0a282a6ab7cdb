/**
 * Exports a Markdown file to PDF: `npm run export -- FILE.md`. Enqueues the job, starts a worker in another process, shows
 * the job's stages and progress as they happen, and copies the finished file beside the document.
 */
import { fork, type ChildProcess } from 'node:child_process'
import { createHash } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { mkdir, readFile } from 'node:fs/promises'
import { basename, extname, join, resolve } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { fileURLToPath } from 'node:url'
import { JobtableError, type Job, type JobFile } from 'jobtable'
import { Progress } from './progress.js'

// The database and the files of the example live in a folder of their own, which both processes find by this variable.
const folder = resolve('.export')
process.env['JOBTABLE_URL'] ??= `sqlite:${join(folder, 'export.db')}`
await mkdir(folder, { recursive: true })
const { exportMarkdown, queue } = await import('./contract.js')

const source = process.argv[2]
if (source === undefined) fail('give the Markdown file to export: npm run export -- FILE.md')

const content = await readFile(source).catch((error: unknown) => fail(`cannot read ${source}: ${(error as Error).message}`))
const worker = startWorker()
try {
  const { job, duplicate } = await exportMarkdown.enqueue({
    source: resolve(source),
    sha256: createHash('sha256').update(content).digest('hex'),
  })
  console.log(duplicate ? `${source} was exported before by job ${job.id}` : `enqueued job ${job.id}`)
  await show(job)
  const target = resolve(`${basename(source, extname(source))}.pdf`)
  const file = await job.result()
  await pipeline(await file.stream(), createWriteStream(target))
  console.log(`${target}: ${(file.size / 1024).toFixed(0)} KiB`)
} catch (error) {
  if (!(error instanceof JobtableError)) throw error
  console.error(typeof error.data['userMessage'] === 'string' ? error.data['userMessage'] : error.message)
  process.exitCode = 1
} finally {
  await queue.close()
  worker.kill()
}

/** In another process, as it would be in production: this one could end now, and the export would still be made. */
function startWorker(): ChildProcess {
  const child = fork(fileURLToPath(new URL('./worker.ts', import.meta.url)), { execArgv: process.execArgv })
  child.once('exit', (code) => {
    if (code) fail(`the worker ended with code ${code}`)
  })
  return child
}

async function show(job: Job<JobFile>): Promise<void> {
  const progress = new Progress(process.stdout)
  for await (const now of job.updates()) progress.show(now, await now.events())
  progress.end()
}

function fail(message: string): never {
  console.error(message)
  process.exit(1)
}
