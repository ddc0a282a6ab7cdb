import { describe, expect, it, onTestFinished } from 'vitest'
import { PermanentError } from '../../src/index.js'
import { MAX_DEPTH } from '../../src/json.js'
import { MAX_MESSAGE_BYTES } from '../../src/classify/describe.js'
import { testQueue, type TestQueue } from '../../src/testing/index.js'
import { place } from './support/place.js'
import { anything } from './support/types.js'

function fresh(): TestQueue {
  const queue = testQueue()
  onTestFinished(() => queue.close())
  return queue
}

describe('R046: half of an emoji', () => {
  it.each([
    ['in a payload', { text: 'x\ud83d' }, '$.text'],
    ['in a key of a payload', { 'x\ud83d': 1 }, expect.stringContaining('$')],
    ['deep in a payload', { list: [{ text: '\ude00x' }] }, '$.list[0].text'],
  ])('is refused %s, with the path', async (_, payload, path) => {
    const queue = fresh()
    const type = queue.define('type', anything)
    await expect(type.enqueue(payload)).rejects.toMatchObject({ code: 'payload_invalid', data: { path } })
    await expect(queue.enqueue('by_name', payload)).rejects.toMatchObject({ code: 'payload_invalid' })
    expect(await queue.count()).toBe(0)
  })

  it('in a result fails the job in one attempt, with a reason that can be stored', async () => {
    const queue = fresh()
    const type = queue.define('type', { ...anything, run: () => '\ude00x' })
    const { job } = await type.enqueue(null)
    await queue.runFor('1h')
    const failed = await job.refresh()
    expect(failed).toMatchObject({ status: 'failed', attempts: 1, history: [{ kind: 'permanent', code: 'result_invalid' }] })
    expect(failed.lastError!.isWellFormed()).toBe(true)
  })

  it('is never made by cutting an error text', async () => {
    for (let before = MAX_MESSAGE_BYTES - 16; before <= MAX_MESSAGE_BYTES; before++) {
      const queue = fresh()
      const type = queue.define('type', {
        ...anything,
        run: () => {
          throw new PermanentError(`${'a'.repeat(before)}\u{1F981}`, {
            userMessage: `${'b'.repeat(before % 1_001)}\u{1F981}`.repeat(1_000),
          })
        },
      })
      const { job } = await type.enqueue(null)
      await queue.drain()
      const failed = await job.refresh()
      expect(failed).toMatchObject({ status: 'failed', attempts: 1 })
      for (const text of [failed.lastError, failed.userMessage, failed.history[0]!.stack]) expect(text!.isWellFormed()).toBe(true)
      expect(Buffer.byteLength(failed.lastError!)).toBeLessThanOrEqual(MAX_MESSAGE_BYTES)
      expect(failed.lastError).not.toContain('\ufffd')
    }
  })

  it('in a stage or a log line is stored whole-formed, and fails nothing', async () => {
    const queue = fresh()
    const type = queue.define('type', {
      ...anything,
      run: async (job) => {
        job.log.info('cut \ud83d', { text: '\ude00' })
        job.log.info(`${'a'.repeat(3_999)}\u{1F981}`)
        await job.stage('up\ud83d')
        return 'done'
      },
    })
    const { job } = await type.enqueue(null)
    await queue.drain()
    expect(await job.result()).toBe('done')
    const events = await job.events()
    expect(events).toHaveLength(3)
    expect(JSON.stringify(events).isWellFormed()).toBe(true)
    expect((await job.refresh()).stage!.isWellFormed()).toBe(true)
  })
})

it('R046: an enqueue that cannot be stored is refused by itself, and harms no other that shares its commit', async () => {
  const queue = fresh()
  const type = queue.define('type', anything)
  const unfit = [{}, 5, null, 'x\ud83d', 'x\0', 'x'.repeat(1_000_000)] as unknown as string[]
  const answers = await Promise.allSettled(unfit.flatMap((traceContext) => [type.enqueue(1), type.enqueue(2, { traceContext })]))
  for (const [i, answer] of answers.entries()) {
    if (i % 2 === 0) expect(answer).toMatchObject({ status: 'fulfilled', value: { duplicate: false } })
    else expect(answer).toMatchObject({ status: 'rejected', reason: { code: 'config_invalid' } })
  }
  const traceContext = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
  expect((await type.enqueue(3, { traceContext })).job.toJSON()).toMatchObject({ traceContext })
})

describe('R050: deep nesting', () => {
  const nested = (depth: number): unknown => {
    let value: unknown = 'core'
    for (let i = 0; i < depth; i++) value = [value]
    return value
  }

  it('is stored and handed to the handler as it is, up to the limit', async () => {
    const queue = fresh()
    let seen: unknown
    const type = queue.define('type', { ...anything, run: (job) => void (seen = job.payload) })
    for (const depth of [100, MAX_DEPTH]) {
      const { job } = await type.enqueue(nested(depth))
      await queue.drain()
      expect(seen).toEqual(nested(depth))
      expect((await job.refresh()).payload).toEqual(nested(depth))
    }
  })

  it.each([MAX_DEPTH + 1, 5_000, 20_000, 200_000])('of %d levels is refused with a typed error', async (depth) => {
    const queue = fresh()
    const type = queue.define('type', anything)
    await expect(type.enqueue(nested(depth))).rejects.toMatchObject({ code: 'payload_invalid' })
    expect(await queue.count()).toBe(0)
  })

  it('in a row that somebody inserted kills neither the worker nor those who look at it', async () => {
    const here = place()
    const { queue } = here.clockQueue()
    const type = queue.define('type', { ...anything, run: () => 'done' })
    await queue.open()
    const text = (depth: number): string => '['.repeat(depth) + ']'.repeat(depth)
    here.sql(`INSERT INTO jobs (id, type, payload, status) VALUES ('deep', 'type', ?, 'pending')`, text(900))
    // SQLite itself calls text that is nested deeper no JSON.
    expect(() =>
      here.sql(`INSERT INTO jobs (id, type, payload, status) VALUES ('deeper', 'type', ?, 'pending')`, text(5_000)),
    ).toThrow(/CHECK/)
    const next = await type.enqueue(null)
    await queue.drain()
    expect(await next.job.result()).toBe('done')
    const deep = await queue.get('deep')
    expect(['succeeded', 'failed']).toContain(deep!.status)
    expect(JSON.stringify(deep)).toContain('[[[[')
    expect(await queue.list()).toHaveLength(2)
  })
})

it('R052: valid text comes back code point by code point, whatever it holds', async () => {
  const here = place()
  const { queue } = here.clockQueue()
  let seen: unknown
  const type = queue.define('type', {
    ...anything,
    run: (job) => {
      seen = job.payload
      return job.payload
    },
  })
  const text =
    '\u{1F468}\u200D\u{1F469}\u200D\u{1F467}\u200D\u{1F466} \u{1F600} \u2028 \ufeff e\u0301 \t \u0001 \u007f " \\ \' 中文'
  const { job } = await type.enqueue({ text, [text]: 1 })
  await queue.drain()
  expect(seen).toEqual({ text, [text]: 1 })
  expect(await job.result()).toEqual({ text, [text]: 1 })
  expect(here.sql(`SELECT json_extract(payload, '$.text') FROM jobs`)).toEqual([[text]])
})
