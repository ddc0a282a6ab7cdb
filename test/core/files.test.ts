import { createHash } from 'node:crypto'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { FileStorage } from '@flystorage/file-storage'
import { LocalStorageAdapter } from '@flystorage/local-fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { fileOf, localFiles, storeFile, type FileContent, type FileStore } from '../../src/files.js'

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'jobtable-files-'))
})
afterEach(() => rm(folder, { recursive: true }))

/** A file store filled by flystorage, as a product would write it for S3. */
function flystorage(storage: FileStorage): FileStore {
  return {
    write: (key, content, { contentType }) => storage.write(key, content, { mimeType: contentType }),
    read: (key) => storage.read(key),
    exists: (key) => storage.fileExists(key),
    delete: (key) => storage.deleteFile(key),
  }
}

const stores: [string, () => FileStore][] = [
  ['a local folder', () => localFiles(folder)],
  ['flystorage', () => flystorage(new FileStorage(new LocalStorageAdapter(folder)))],
]

describe.each(stores)('files in %s', (_, open) => {
  const content = 'chunk '.repeat(50_000)
  async function* halves() {
    yield content.slice(0, 7)
    yield Buffer.from(content.slice(7))
  }
  const contents: [string, () => FileContent][] = [
    ['a text', () => content],
    ['a buffer', () => Buffer.from(content)],
    ['a Uint8Array', () => new TextEncoder().encode(content)],
    ['a Blob', () => new Blob([content])],
    ['a Node stream', () => Readable.from([content.slice(0, 100), Buffer.from(content.slice(100))])],
    ['a web stream', () => new Blob([content]).stream()],
    ['an async generator', halves],
  ]
  it.each(contents)('are stored from %s, with size, hash and type', async (_name, make) => {
    const file = await storeFile(open(), 'job/1-x', 'report.pdf', make())
    expect(file).toMatchObject({
      key: 'job/1-x/report.pdf',
      name: 'report.pdf',
      size: content.length,
      sha256: createHash('sha256').update(content).digest('hex'),
      contentType: 'application/pdf',
    })
    expect((await file.bytes()).toString()).toBe(content)
    expect(fileOf(JSON.parse(JSON.stringify(file)))).toEqual({
      key: file.key,
      name: file.name,
      size: file.size,
      sha256: file.sha256,
      contentType: file.contentType,
    })
  })
  it('are gone once deleted, and deleting again is no error', async () => {
    const files = open()
    const file = await storeFile(files, 'job/1-x', 'a.txt', 'x')
    await files.delete(file.key)
    expect(await file.exists()).toBe(false)
    await files.delete(file.key)
    await expect(file.stream()).rejects.toMatchObject({ code: 'file_missing' })
  })
})

describe('a local folder', () => {
  it('holds the whole file or nothing: a source that fails leaves no trace', async () => {
    async function* broken() {
      yield 'half'
      throw new Error('the renderer crashed')
    }
    await expect(storeFile(localFiles(folder), 'job/1-x', 'a.txt', broken())).rejects.toThrow('the renderer crashed')
    expect(await readdir(join(folder, 'job/1-x')).catch(() => [])).toEqual([])
  })
  it('stops when the signal is aborted', async () => {
    const stop = new AbortController()
    const endless = async function* () {
      for (;;) {
        yield 'x'
        stop.abort(new Error('canceled'))
      }
    }
    await expect(storeFile(localFiles(folder), 'job/1-x', 'a.txt', endless(), { signal: stop.signal })).rejects.toThrow()
    expect(await readdir(join(folder, 'job/1-x')).catch(() => [])).toEqual([])
  })
  it('removes the folders that become empty, and no other', async () => {
    const files = localFiles(folder)
    const a = await storeFile(files, 'job/1-x', 'a.txt', 'a')
    const b = await storeFile(files, 'job/2-y', 'b.txt', 'b')
    await files.delete(a.key)
    expect(await readdir(join(folder, 'job'))).toEqual(['2-y'])
    expect(await readFile(join(folder, b.key), 'utf8')).toBe('b')
    await files.delete(b.key)
    expect(await readdir(folder)).toEqual([])
  })
  it('keeps to itself: a key that leaves the folder is refused', async () => {
    const files = localFiles(folder)
    await expect(files.exists('../x')).rejects.toMatchObject({ code: 'config_invalid' })
    await expect(files.read('/etc/passwd')).rejects.toMatchObject({ code: 'config_invalid' })
  })
  it.each(['', '..', 'a/b', 'a\\b', 'x'.repeat(201), 'a\0'])('refuses the file name %j', async (name) => {
    await expect(storeFile(localFiles(folder), 'job/1', name, 'x')).rejects.toMatchObject({ code: 'config_invalid' })
  })
})
