import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { FileStorage } from '@flystorage/file-storage'
import { LocalStorageAdapter } from '@flystorage/local-fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { JobtableError } from '../../src/errors.js'
import { fileOf, localFiles, storeFile, type FileContent, type FileStore, type JobFile } from '../../src/files.js'
import { jobtable, type Queue } from '../../src/queue.js'
import type { Store } from '../../src/store.js'
import { sqliteStore } from '../../src/stores/sqlite/index.js'
import type { JobContext } from '../../src/worker/context.js'

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
  it('takes any name that the file system takes: 255 bytes of UTF-8', async () => {
    for (const name of ['文'.repeat(85), `${'文'.repeat(80)}.pdf`, 'x'.repeat(255)]) {
      const file = await storeFile(localFiles(folder), 'job/1-x', name, 'x')
      expect((await file.bytes()).toString()).toBe('x')
    }
  })
  it('deletes with a file what a crash in the middle of a write has left beside it, and nothing else', async () => {
    const files = localFiles(folder)
    const a = await storeFile(files, 'job/1-x', 'a.txt', 'a')
    const b = await storeFile(files, 'job/1-x', 'b.tmp', 'b')
    await writeFile(join(folder, 'job/1-x/.0189f3e2-7c1a-4b5d-8e9f-0123456789ab.tmp'), 'half')
    await files.delete(a.key)
    expect(await readdir(join(folder, 'job/1-x'))).toEqual(['b.tmp'])
    await files.delete(b.key)
    expect(await readdir(folder)).toEqual([])
  })
  it('deletes the leftovers of a file that never came to be', async () => {
    await mkdir(join(folder, 'job/1-x'), { recursive: true })
    await writeFile(join(folder, 'job/1-x/.0189f3e2-7c1a-4b5d-8e9f-0123456789ab.tmp'), 'half')
    await localFiles(folder).delete('job/1-x/a.txt')
    expect(await readdir(folder)).toEqual([])
  })
  it('leaves what is being written when its neighbour is deleted', async () => {
    const files = localFiles(folder)
    const a = await storeFile(files, 'job/1-x', 'a.txt', 'a')
    async function* slow() {
      yield 'first '
      while ((await readdir(join(folder, 'job/1-x'))).length < 2) yield ''
      await files.delete(a.key)
      yield 'second'
    }
    const b = await storeFile(files, 'job/1-x', 'b.txt', slow())
    expect((await b.bytes()).toString()).toBe('first second')
  })
  it('keeps to itself: a key that leaves the folder is refused', async () => {
    const files = localFiles(folder)
    await expect(files.exists('../x')).rejects.toMatchObject({ code: 'config_invalid' })
    await expect(files.read('/etc/passwd')).rejects.toMatchObject({ code: 'config_invalid' })
  })
  it.each(['', '..', 'a/b', 'a\\b', 'x'.repeat(256), '文'.repeat(86), 'a\0', '\ud800'])(
    'refuses the file name %j',
    async (name) => {
      await expect(storeFile(localFiles(folder), 'job/1', name, 'x')).rejects.toMatchObject({ code: 'config_invalid' })
    },
  )
})

describe('a source', () => {
  const refusing: FileStore = { ...localFiles('.'), write: () => Promise.reject(new Error('no bucket')) }
  const endless = () =>
    Readable.from(
      (async function* () {
        for (;;) yield 'x'
      })(),
    )
  const closed = (source: Readable) => new Promise<void>((resolve) => void source.once('close', resolve))

  it('is destroyed when the store refuses the file before it reads', async () => {
    const source = endless()
    const end = closed(source)
    await expect(storeFile(refusing, 'job/1-x', 'a.txt', source)).rejects.toThrow('no bucket')
    expect(source.destroyed).toBe(true)
    await end
  })
  it('may fail while the file is still being noted: the error is the one that is told', async () => {
    const content = createReadStream(join(folder, 'missing.csv'))
    const note = (): Promise<void> => sleep(50)
    await expect(storeFile(localFiles(folder), 'job/1-x', 'a.csv', content, { note })).rejects.toMatchObject({ code: 'ENOENT' })
  })

  it('is destroyed, unread, when the name is refused or the file could not be noted', async () => {
    const source = endless()
    await expect(storeFile(localFiles(folder), 'job/1-x', 'a/b', source)).rejects.toMatchObject({ code: 'config_invalid' })
    expect(source.destroyed).toBe(true)
    const other = endless()
    const note = () => Promise.reject(new Error('no note'))
    await expect(storeFile(localFiles(folder), 'job/1-x', 'a.txt', other, { note })).rejects.toThrow('no note')
    expect(other.destroyed).toBe(true)
    expect(await readdir(folder)).toEqual([])
  })
})

describe('job.file', () => {
  let queue: Queue
  const open = (change: (store: Store) => Partial<Store> = () => ({})): void => {
    const store = sqliteStore({ path: ':memory:' })
    const logger = { debug() {}, info() {}, warn() {}, error() {} }
    queue = jobtable('sqlite::memory:', { store: { ...store, ...change(store) }, files: folder, logger })
  }
  afterEach(() => queue.close())

  /** One run of a handler, and what it came to. */
  async function run(handler: (job: JobContext<unknown>) => unknown) {
    const type = queue.define('report', {
      payload: z.object({}),
      idempotency: { none: 'every one is meant' },
      retry: { maxAttempts: 1 },
      run: handler as () => Promise<JobFile>,
    })
    const { job } = await type.enqueue({})
    await queue.drain()
    return job.refresh()
  }
  const onFiles = (store: Store, answer: Store['report']): Partial<Store> => ({
    report: (reports) =>
      reports.some(({ events }) => events?.some(({ kind }) => kind === 'file')) ? answer(reports) : store.report(reports),
  })

  it('stores nothing that could not be noted: the error reaches the handler', async () => {
    open((store) => onFiles(store, async () => Promise.reject(new JobtableError('store_busy', 'locked'))))
    const seen: unknown[] = []
    await run((job) => job.file('a.txt', 'a').catch((error: unknown) => void seen.push(error)))
    expect(seen).toMatchObject([{ code: 'store_busy' }])
    expect(await readdir(folder)).toEqual([])
  })
  it('stores nothing for an attempt that has lost its claim', async () => {
    open((store) => onFiles(store, async (reports) => reports.map(() => 'lost')))
    const seen: unknown[] = []
    await run((job) => job.file('a.txt', 'a').catch((error: unknown) => void seen.push(error)))
    expect(seen).toMatchObject([{ code: 'lease_lost' }])
    expect(await readdir(folder)).toEqual([])
  })
  it('notes the file after what was reported before it', async () => {
    open()
    const job = await run((context) => {
      context.log.info('first')
      return context.file('a.txt', 'a')
    })
    expect((await job.events()).map(({ kind }) => kind)).toEqual(['log', 'file'])
  })
  it('notes no name that is refused', async () => {
    open()
    const job = await run((context) => context.file('../../other/1-x/a.txt', 'a'))
    expect(await job.events()).toEqual([])
  })
  it('makes a result of its own job only: the file of another one is refused for good, in words that help', async () => {
    open()
    const theirs = await storeFile(queue.files, 'other/1-x', 'a.txt', 'a')
    for (const [i, result] of [theirs, theirs.toJSON()].entries()) {
      const type = queue.define(`borrow${i}`, {
        payload: z.object({}),
        idempotency: { none: 'every one is meant' },
        run: (): unknown => result,
      })
      const { job } = await type.enqueue({})
      await queue.drain()
      expect((await job.refresh()).history).toMatchObject([
        { kind: 'permanent', code: 'result_invalid', message: expect.stringContaining('store a copy with job.file(') as string },
      ])
    }
    const copied = await run(async (job) => job.file('copy.txt', await theirs.stream()))
    expect(copied.status).toBe('succeeded')
  })
})
