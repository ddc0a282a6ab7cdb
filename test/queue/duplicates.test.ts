import { rm } from 'node:fs/promises'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { PermanentError, type OnDuplicate } from '../../src/index.js'
import { localFiles } from '../../src/files.js'
import { testQueue, type TestQueue } from '../../src/testing/test-queue.js'
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

let queue: TestQueue
let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'jobtable-'))
  queue = testQueue({ files: folder })
})
afterEach(async () => {
  await queue.close()
  await rm(folder, { recursive: true, force: true })
})

const payload = z.object({ doc: z.string(), fail: z.boolean().optional() })

function defineReport(onDuplicate: Exclude<OnDuplicate, 'return_existing_file'>, more: { keepFor?: '1h' } = {}) {
  let runs = 0
  return queue.define(`report_${onDuplicate}`, {
    payload,
    idempotency: { key: ['doc'], onDuplicate, compare: 'key', ...more },
    run: (job) => {
      if (job.payload.fail) throw new PermanentError('no such document')
      return `R${++runs}`
    },
  })
}

function defineExport() {
  let runs = 0
  return queue.define('export', {
    payload,
    idempotency: { key: ['doc'], onDuplicate: 'return_existing_file', compare: 'key' },
    run: (job) => job.file('out.txt', `${job.payload.doc} ${++runs}`),
  })
}

describe.each(['return_previous_result', 'ignore_duplicate'] as const)('%s', (onDuplicate) => {
  it('gives the same job while it waits and after it has succeeded, and runs it once', async () => {
    const report = defineReport(onDuplicate)
    const first = await report.enqueue({ doc: 'a' })
    const waiting = await report.enqueue({ doc: 'a' })
    await queue.drain()
    const done = await report.enqueue({ doc: 'a' })
    expect([waiting, done].map(({ job, duplicate }) => [job.id, duplicate])).toEqual([
      [first.job.id, true],
      [first.job.id, true],
    ])
    expect(await done.job.result()).toBe('R1')
    expect(await queue.count()).toBe(1)
  })
  it('starts a new job after a canceled one', async () => {
    const report = defineReport(onDuplicate)
    const first = await report.enqueue({ doc: 'a' })
    await first.job.cancel()
    const second = await report.enqueue({ doc: 'a' })
    expect(second.duplicate).toBe(false)
    expect((await first.job.refresh()).supersededBy).toBe(second.job.id)
  })
  it('starts a new job once the old one is past keepFor', async () => {
    const report = defineReport(onDuplicate, { keepFor: '1h' })
    await report.enqueue({ doc: 'a' })
    await queue.drain()
    queue.clock.advance('59m')
    expect((await report.enqueue({ doc: 'a' })).duplicate).toBe(true)
    queue.clock.advance('1m')
    expect((await report.enqueue({ doc: 'a' })).duplicate).toBe(false)
  })
})

describe('after a failed job', () => {
  it('return_previous_result starts a new one, and the old one can no longer be retried', async () => {
    const report = defineReport('return_previous_result')
    const first = await report.enqueue({ doc: 'a', fail: true })
    await queue.drain()
    const second = await report.enqueue({ doc: 'a' })
    expect(second.duplicate).toBe(false)
    await expect(first.job.retry()).rejects.toMatchObject({ code: 'key_superseded', data: { supersededBy: second.job.id } })
  })
  it("ignore_duplicate holds the key: repair is a person's act", async () => {
    const report = defineReport('ignore_duplicate')
    const first = await report.enqueue({ doc: 'a', fail: true })
    await queue.drain()
    const second = await report.enqueue({ doc: 'a' })
    expect([second.job.id, second.duplicate, second.job.status]).toEqual([first.job.id, true, 'failed'])
    expect((await first.job.retry()).status).toBe('pending')
  })
})

describe('return_existing_file', () => {
  it('gives the file that is there', async () => {
    const report = defineExport()
    const first = await report.enqueue({ doc: 'a' })
    await queue.drain()
    const second = await report.enqueue({ doc: 'a' })
    expect([second.job.id, second.duplicate]).toEqual([first.job.id, true])
    const file = await second.job.result()
    expect(file).toMatchObject({ name: 'out.txt', size: 3, contentType: 'text/plain; charset=utf-8' })
    expect((await file.bytes()).toString()).toBe('a 1')
  })
  it('starts a new job when the file has vanished', async () => {
    const report = defineExport()
    const first = await report.enqueue({ doc: 'a' })
    await queue.drain()
    const file = await first.job.result()
    await localFiles(folder).delete(file.key)
    const second = await report.enqueue({ doc: 'a' })
    expect(second.duplicate).toBe(false)
    await queue.drain()
    expect((await (await second.job.result()).bytes()).toString()).toBe('a 2')
  })
  it('rejects rather than starting anew when it cannot tell whether the file is there', async () => {
    const report = defineExport()
    const first = await report.enqueue({ doc: 'a' })
    await queue.drain()
    const broken = Object.assign(queue.files, { exists: () => Promise.reject(new Error('storage is away')) })
    await expect(report.enqueue({ doc: 'a' })).rejects.toThrow('storage is away')
    expect([await queue.count(), broken === queue.files, first.duplicate]).toEqual([1, true, false])
  })
})

describe('many at once', () => {
  it('of one key make one job, which everybody is told', async () => {
    const report = defineReport('return_previous_result')
    const answers = await Promise.all(Array.from({ length: 1_000 }, () => report.enqueue({ doc: 'a' })))
    expect(new Set(answers.map(({ job }) => job.id)).size).toBe(1)
    expect(answers.filter(({ duplicate }) => !duplicate)).toHaveLength(1)
    expect(await queue.count()).toBe(1)
  })
  it("take over a failed job's key only once", async () => {
    const report = defineReport('return_previous_result')
    await report.enqueue({ doc: 'a', fail: true })
    await queue.drain()
    const answers = await Promise.all(Array.from({ length: 20 }, () => report.enqueue({ doc: 'a' })))
    expect(answers.filter(({ duplicate }) => !duplicate)).toHaveLength(1)
    expect(await queue.count()).toBe(2)
  })
  it('in one call are answered in order, duplicates among themselves included', async () => {
    const report = defineReport('return_previous_result')
    const first = await report.enqueueMany([{ doc: 'a' }, { doc: 'a' }, { doc: 'b' }])
    const second = await report.enqueueMany([{ doc: 'b' }, { doc: 'c' }, { doc: 'c' }])
    const [a, , b] = first.map(({ job }) => job.id)
    const c = second[1]!.job.id
    expect(first.map(({ job, duplicate }) => [job.id, duplicate])).toEqual([
      [a, false],
      [a, true],
      [b, false],
    ])
    expect(second.map(({ job, duplicate }) => [job.id, duplicate])).toEqual([
      [b, true],
      [c, false],
      [c, true],
    ])
    expect(await queue.count()).toBe(3)
  })
})

it('a key belongs to its type', async () => {
  const rules = ['return_previous_result', 'ignore_duplicate'] as const
  const answers = await Promise.all(rules.map((rule) => defineReport(rule).enqueue({ doc: 'a' })))
  expect(answers.map(({ duplicate }) => duplicate)).toEqual([false, false])
})

it('a finished job that keeps its key longer than retention is not pruned before', async () => {
  const kept = queue.define('kept', {
    payload,
    idempotency: { key: ['doc'], onDuplicate: 'ignore_duplicate', keepFor: '60d' },
    run: () => {},
  })
  await kept.enqueue({ doc: 'a' })
  await queue.drain()
  queue.clock.advance('59d')
  expect(await queue.prune()).toBe(0)
  expect((await kept.enqueue({ doc: 'a' })).duplicate).toBe(true)
  queue.clock.advance('2d')
  expect(await queue.prune()).toBe(1)
})
