/**
 * Files that handlers produce. A job's file lives in a `FileStore`; the row holds only its description, as the result
 * `{"$file": {...}}`. Each attempt writes under a key of its own, so that a late attempt never replaces the file of a
 * newer one.
 */
import { createHash, randomUUID } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { access, mkdir, open, readdir, rename, rm, rmdir } from 'node:fs/promises'
import { dirname, join, resolve, sep } from 'node:path'
import { Readable, Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { JobtableError } from './errors.js'

/** Where files are kept. Four methods are enough, so that any storage library can fill it. */
export interface FileStore {
  /** Stores the whole stream under the key, or nothing. Resolves once it is safe. */
  write(key: string, content: Readable, about: { contentType: string }): Promise<void>
  read(key: string): Promise<Readable>
  /** The bytes from `start` to before `end`. Without this method a part of a file is read from the file's beginning. */
  readRange?(key: string, start: number, end: number): Promise<Readable>
  exists(key: string): Promise<boolean>
  /** Deleting what does not exist is no error. */
  delete(key: string): Promise<void>
}

/** What a row says about a file. */
export interface FileDescription {
  key: string
  /** The name to offer for a download. */
  name: string
  /** Bytes. */
  size: number
  /** Of the content, in hexadecimal. */
  sha256: string
  /** A media type, such as `application/pdf`. */
  contentType: string
}

/** A stored file: what `job.file(...)` gives to a handler, and `job.result()` to whoever waits. */
export class JobFile implements FileDescription {
  readonly key: string
  readonly name: string
  readonly size: number
  readonly sha256: string
  readonly contentType: string
  readonly #files: FileStore

  constructor(about: FileDescription, files: FileStore) {
    this.key = about.key
    this.name = about.name
    this.size = about.size
    this.sha256 = about.sha256
    this.contentType = about.contentType
    this.#files = files
  }

  /** The content. Rejects with `file_missing` when the file is gone. */
  async stream(): Promise<Readable> {
    if (!(await this.exists())) {
      throw new JobtableError(
        'file_missing',
        `the file ${this.key} is gone from the file store: enqueue its job again to make it anew`,
        {
          data: { key: this.key },
        },
      )
    }
    return this.#files.read(this.key)
  }

  /** The whole content in memory. */
  async bytes(): Promise<Buffer> {
    const chunks: Buffer[] = []
    for await (const chunk of await this.stream()) chunks.push(Buffer.from(chunk as Uint8Array))
    return Buffer.concat(chunks)
  }

  exists(): Promise<boolean> {
    return this.#files.exists(this.key)
  }

  toJSON(): { $file: FileDescription } {
    const { key, name, size, sha256, contentType } = this
    return { $file: { key, name, size, sha256, contentType } }
  }
}

/** The file that a stored result describes, or null. */
export function fileOf(result: unknown): FileDescription | null {
  if (typeof result !== 'object' || result === null || !('$file' in result)) return null
  const about = result.$file
  const named = typeof about === 'object' && about !== null && 'key' in about && typeof about.key === 'string'
  return named ? (about as FileDescription) : null
}

export type FileContent = string | Uint8Array | Blob | ReadableStream<Uint8Array> | AsyncIterable<string | Uint8Array>

export interface StoreFileOptions {
  contentType?: string
  signal?: AbortSignal
  /** Told of the key before anything is written under it; when it rejects, nothing is. */
  note?: (key: string) => Promise<void>
}

/** Streams the content into the store, measuring it on the way. A stream that was not read to its end is destroyed. */
export async function storeFile(
  files: FileStore,
  folder: string,
  name: string,
  content: FileContent,
  { contentType = contentTypeOf(name), signal, note }: StoreFileOptions = {},
): Promise<JobFile> {
  const key = `${folder}/${name}`
  const hash = createHash('sha256')
  let size = 0
  const measure = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      size += chunk.length
      hash.update(chunk)
      done(null, chunk)
    },
  })
  const source = toReadable(content)
  // It may fail before it is read, and is told by whoever reads it.
  source.on('error', () => {})
  const write = async (): Promise<void> => files.write(key, measure, { contentType })
  let failed: { error: unknown } | undefined
  // The first error is the reason; what the other side then says follows from it.
  const fail = (error: unknown): void => {
    failed ??= { error }
    measure.destroy()
  }
  try {
    checkFileName(name)
    await note?.(key)
    // A source that fails fails the write, and a write that fails stops the source. Both are waited for, so that nothing is written later.
    await Promise.all([pipeline(source, measure, { ...(signal && { signal }) }).catch(fail), write().catch(fail)])
    if (failed) throw failed.error
  } catch (error) {
    source.destroy()
    throw error
  }
  return new JobFile({ key, name, size, sha256: hash.digest('hex'), contentType }, files)
}

/** The longest name that file systems take, in bytes of UTF-8. */
const LONGEST_NAME = 255

function checkFileName(name: string): void {
  const usable = typeof name === 'string' && /^[^/\\\0]+$/.test(name) && name !== '.' && name !== '..' && name.isWellFormed()
  if (usable && Buffer.byteLength(name) <= LONGEST_NAME) return
  throw new JobtableError(
    'config_invalid',
    `${JSON.stringify(name)} is no file name: give 1 to ${LONGEST_NAME} bytes of UTF-8 without slashes`,
  )
}

export function toReadable(content: FileContent): Readable {
  if (typeof content === 'string') return Readable.from([Buffer.from(content)], { objectMode: false })
  if (content instanceof Uint8Array) return Readable.from([content], { objectMode: false })
  if (content instanceof Blob) return toReadable(content.stream())
  if (content instanceof Readable) return content
  if (content instanceof ReadableStream) return Readable.fromWeb(content as Parameters<typeof Readable.fromWeb>[0])
  return Readable.from(content, { objectMode: false })
}

const CONTENT_TYPES: Readonly<Record<string, string>> = {
  csv: 'text/csv; charset=utf-8',
  html: 'text/html; charset=utf-8',
  json: 'application/json',
  md: 'text/markdown; charset=utf-8',
  pdf: 'application/pdf',
  png: 'image/png',
  svg: 'image/svg+xml',
  txt: 'text/plain; charset=utf-8',
  zip: 'application/zip',
}

function contentTypeOf(name: string): string {
  const extension = /[^.]*$/.exec(name)![0].toLowerCase()
  return CONTENT_TYPES[extension] ?? 'application/octet-stream'
}

/**
 * Files in a local folder: streamed to a temporary name, flushed to the disk, then renamed, so that a file is there whole or
 * not at all. A process that is killed while it writes leaves its temporary file, which goes when a
 * file of the same folder is deleted, whether that is there or not.
 */
export function localFiles(folder: string): FileStore {
  const root = resolve(folder)
  const writing = new Set<string>()
  const pathOf = (key: string): string => {
    const path = resolve(root, key)
    if (!path.startsWith(root + sep))
      throw new JobtableError('config_invalid', `the file key ${JSON.stringify(key)} leaves the folder ${root}`)
    return path
  }
  return {
    async write(key, content) {
      const path = pathOf(key)
      // Of a length of its own: a name as long as the file's might be too long with anything added.
      const temporary = join(dirname(path), `.${randomUUID()}.tmp`)
      writing.add(temporary)
      await mkdir(dirname(path), { recursive: true })
      try {
        await pipeline(content, createWriteStream(temporary, { flags: 'wx' }))
        const handle = await open(temporary, 'r+')
        try {
          await handle.sync()
        } finally {
          await handle.close()
        }
        await rename(temporary, path)
      } catch (error) {
        await rm(temporary, { force: true })
        throw error
      } finally {
        writing.delete(temporary)
      }
    },
    async read(key) {
      return createReadStream(pathOf(key))
    },
    async readRange(key, start, end) {
      return createReadStream(pathOf(key), { start, end: end - 1 })
    },
    async exists(key) {
      try {
        await access(pathOf(key))
        return true
      } catch (error) {
        if (hasCode(error, 'ENOENT', 'ENOTDIR')) return false
        throw error
      }
    },
    async delete(key) {
      const path = pathOf(key)
      await rm(path, { force: true })
      const left = await temporaryFiles(dirname(path))
      await Promise.all(left.filter((file) => !writing.has(file)).map((file) => rm(file, { force: true })))
      await removeEmptyFolders(dirname(path), root)
    },
  }
}

/** Stands in where there is no place for files; says so to whoever asks for one. */
export function noFiles(database: string): FileStore {
  const refuse = async (): Promise<never> => {
    throw new JobtableError(
      'config_invalid',
      `there is no place for files beside ${database}: give the queue the option files, a folder or a file store`,
    )
  }
  return { write: refuse, read: refuse, exists: refuse, delete: refuse }
}

/** As `write` names them. */
const TEMPORARY = /^\.[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.tmp$/

async function temporaryFiles(folder: string): Promise<string[]> {
  try {
    const names = await readdir(folder)
    return names.filter((name) => TEMPORARY.test(name)).map((name) => join(folder, name))
  } catch (error) {
    if (hasCode(error, 'ENOENT', 'ENOTDIR')) return []
    throw error
  }
}

function hasCode(error: unknown, ...codes: string[]): boolean {
  return error instanceof Error && 'code' in error && codes.includes(String(error.code))
}

async function removeEmptyFolders(folder: string, root: string): Promise<void> {
  for (let path = folder; path.startsWith(root + sep); path = dirname(path)) {
    try {
      await rmdir(path)
    } catch (error) {
      if (hasCode(error, 'ENOTEMPTY', 'EEXIST', 'ENOENT')) return
      throw error
    }
  }
}
