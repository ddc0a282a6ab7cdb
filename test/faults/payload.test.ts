import { describe, expect, it } from 'vitest'
import { PermanentError } from '../../src/index.js'
import { MAX_DEPTH } from '../../src/json.js'
import { MAX_MESSAGE_BYTES } from '../../src/classify/describe.js'
import type { TestQueue } from '../../src/testing/index.js'
import { DATABASES } from './support/databases.js'
import { anything } from './support/types.js'

describe.each(DATABASES)('payloads on $name', ({ name, place }) => {
  async function fresh(): Promise<TestQueue> {
    return (await place()).testQueue()
  }

  describe('R046: half of an emoji', () => {
    it.each([
      ['in a payload', { text: 'x\ud83d' }, '$.text'],
      ['in a key of a payload', { 'x\ud83d': 1 }, expect.stringContaining('$')],
      ['deep in a payload', { list: [{ text: '\ude00x' }] }, '$.list[0].text'],
    ])('is refused %s, with the path', async (_, payload, path) => {
      const queue = await fresh()
      const type = queue.define('type', anything)
      await expect(type.enqueue(payload)).rejects.toMatchObject({ code: 'payload_invalid', data: { path } })
      await expect(queue.enqueue('by_name', payload)).rejects.toMatchObject({ code: 'payload_invalid' })
      expect(await queue.count()).toBe(0)
    })

    it('in a result fails the job in one attempt, with a reason that can be stored', async () => {
      const queue = await fresh()
      const type = queue.define('type', { ...anything, run: () => '\ude00x' })
      const { job } = await type.enqueue(null)
      await queue.runFor('1h')
      const failed = await job.refresh()
      expect(failed).toMatchObject({ status: 'failed', attempts: 1, history: [{ kind: 'permanent', code: 'result_invalid' }] })
      expect(failed.lastError!.isWellFormed()).toBe(true)
    })

    it('is never made by cutting an error text', async () => {
      for (let before = MAX_MESSAGE_BYTES - 16; before <= MAX_MESSAGE_BYTES; before++) {
        const queue = await fresh()
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
        for (const text of [failed.lastError, failed.userMessage, failed.history[0]!.stack])
          expect(text!.isWellFormed()).toBe(true)
        expect(Buffer.byteLength(failed.lastError!)).toBeLessThanOrEqual(MAX_MESSAGE_BYTES)
        expect(failed.lastError).not.toContain('\ufffd')
      }
    })

    it('in a stage or a log line is stored whole-formed, and fails nothing', async () => {
      const queue = await fresh()
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
    const queue = await fresh()
    const type = queue.define('type', anything)
    const unfit = [{}, 5, null, 'x\ud83d', 'x\0', 'x'.repeat(1_000_000)] as unknown as string[]
    const answers = await Promise.allSettled(
      unfit.flatMap((traceContext) => [type.enqueue(1), type.enqueue(2, { traceContext })]),
    )
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
      const queue = await fresh()
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
      const queue = await fresh()
      const type = queue.define('type', anything)
      await expect(type.enqueue(nested(depth))).rejects.toMatchObject({ code: 'payload_invalid' })
      expect(await queue.count()).toBe(0)
    })

    it('in a row that somebody inserted kills neither the worker nor those who look at it', async () => {
      const here = await place()
      const { queue } = here.clockQueue()
      const type = queue.define('type', { ...anything, run: () => 'done' })
      await queue.open()
      const text = (depth: number): string => '['.repeat(depth) + ']'.repeat(depth)
      const insert = (id: string, depth: number): Promise<unknown> =>
        here.sql(`INSERT INTO jobs (id, type, payload, status) VALUES (?, 'type', ?, 'pending')`, id, text(depth))
      await insert('deep', 900)
      // SQLite itself calls text that is nested deeper no JSON, and PostgreSQL has a stack.
      if (name === 'SQLite') await expect(insert('deeper', 5_000)).rejects.toThrow(/CHECK/)
      else await insert('deeper', 5_000)
      const next = await type.enqueue(null)
      await queue.drain()
      expect(await next.job.result()).toBe('done')
      const deep = await queue.get('deep')
      expect(['succeeded', 'failed']).toContain(deep!.status)
      expect(JSON.stringify(deep)).toContain('[[[[')
      expect(['succeeded', 'failed', undefined]).toContain((await queue.get('deeper'))?.status)
      expect((await queue.list()).length).toBe(await queue.count())
    })
  })

  it('R052: valid text comes back code point by code point, whatever it holds', async () => {
    const here = await place()
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
    expect(await here.sql(`SELECT payload ->> 'text' FROM jobs`)).toEqual([[text]])
  })
})
