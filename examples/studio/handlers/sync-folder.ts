/**
 * A folder to another place, file by file. What lies there already is remembered by its hash as soon as it does, so that a job that is
 * killed goes on with the next file, and the next job copies only what has changed. What was deleted here stays there.
 */
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join, relative, sep } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { localFiles } from 'jobtable'
import { syncFolder, type CopiedFile } from '../contract.js'
import { database } from '../database.js'
import { folderOf } from '../documents.js'
import { settings } from '../settings.js'
import { linger } from './linger.js'

interface Found {
  path: string
  sha256: string
  bytes: number
}

/** Any file store would do, such as one of S3. */
const elsewhere = localFiles(join(settings.folder, 'elsewhere'))

export function handleSyncFolder(): void {
  syncFolder.handle(async (job) => {
    const { visitor } = job.payload
    const folder = folderOf(visitor)
    await job.stage('comparing')
    // Kept over attempts, so that the result tells of all that the job has copied.
    const { changed, unchanged } = await job.step('compare', () => compare(visitor, folder))
    const { earlier, left } = await divide(visitor, changed)
    let copied = earlier.length
    if (changed.length > 0) job.progress(copied / changed.length)
    await linger(job.signal)

    await job.stage('copying')
    const list = job.stream('files')
    await list.write(earlier.map(({ path }) => lineOf({ path, earlier: true })).join(''))
    for (const file of left) {
      job.signal.throwIfAborted()
      await copy(visitor, folder, file)
      await list.write(lineOf({ path: file.path, earlier: false }))
      job.progress(++copied / changed.length)
      await linger(job.signal, 0.5)
    }

    await job.stage('done')
    return { copied, earlier: earlier.length, unchanged, bytes: changed.reduce((sum, { bytes }) => sum + bytes, 0) }
  })
}

/** A line of the stream is JSON, for the name of a file may have anything in it. */
function lineOf(file: CopiedFile): string {
  return `${JSON.stringify(file)}\n`
}

/** Of the files that this job is for: those that an attempt before has copied already, and those that are left. */
async function divide(visitor: string, changed: readonly Found[]): Promise<{ earlier: Found[]; left: Found[] }> {
  const there = await hashes(visitor)
  const isThere = ({ path, sha256 }: Found): boolean => there.get(path) === sha256
  return { earlier: changed.filter(isThere), left: changed.filter((file) => !isThere(file)) }
}

async function compare(visitor: string, folder: string): Promise<{ changed: Found[]; unchanged: number }> {
  const there = await hashes(visitor)
  const found = await Promise.all((await filesIn(folder)).map((path) => look(folder, path)))
  const changed = found.filter(({ path, sha256 }) => there.get(path) !== sha256)
  return { changed, unchanged: found.length - changed.length }
}

async function hashes(visitor: string): Promise<Map<string, string>> {
  const rows = await database.selectFrom('synced').select(['path', 'sha256']).where('visitor', '=', visitor).execute()
  return new Map(rows.map(({ path, sha256 }) => [path, sha256]))
}

async function filesIn(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const paths = entries.filter((entry) => entry.isFile()).map((entry) => relative(folder, join(entry.parentPath, entry.name)))
  return paths.map((path) => path.split(sep).join('/')).toSorted()
}

async function look(folder: string, path: string): Promise<Found> {
  const hash = createHash('sha256')
  let bytes = 0
  await pipeline(createReadStream(join(folder, path)), async (content: AsyncIterable<Buffer>) => {
    for await (const chunk of content) {
      hash.update(chunk)
      bytes += chunk.length
    }
  })
  return { path, sha256: hash.digest('hex'), bytes }
}

/** The hash is older than the copy: a file that changes in between is copied once more the next time, and never missed. */
async function copy(visitor: string, folder: string, { path, sha256 }: Found): Promise<void> {
  const content = createReadStream(join(folder, path))
  await elsewhere.write(`${visitor}/${path}`, content, { contentType: 'application/octet-stream' })
  await database
    .insertInto('synced')
    .values({ visitor, path, sha256 })
    .onConflict((conflict) => conflict.columns(['visitor', 'path']).doUpdateSet({ sha256 }))
    .execute()
}
