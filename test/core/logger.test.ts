import { Writable } from 'node:stream'
import { pino } from 'pino'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { z } from 'zod'
import { consoleLogger } from '../../src/logger.js'
import { testQueue } from '../../src/testing/test-queue.js'

afterEach(() => vi.restoreAllMocks())

describe('logging', () => {
  it('goes to pino as it is, with the facts of the job', async () => {
    const lines: Record<string, unknown>[] = []
    const out = new Writable({
      write(chunk: Buffer, _encoding, done) {
        lines.push(JSON.parse(chunk.toString()) as Record<string, unknown>)
        done()
      },
    })
    const queue = testQueue({ logger: pino({ level: 'debug' }, out) })
    const talk = queue.define('talk', {
      payload: z.object({}),
      idempotency: { none: 'a test' },
      run: (job) => job.log.info('hello', { n: 1 }),
    })
    const { job } = await talk.enqueue({})
    await queue.drain()
    await queue.close()
    expect(lines).toContainEqual(
      expect.objectContaining({ level: 30, msg: 'hello', n: 1, jobId: job.id, type: 'talk', attempt: 1 }),
    )
  })
  it('prints warnings and errors only by default, and no secrets', () => {
    const warn = vi.spyOn(console, 'warn').mockImplementation(() => {})
    const error = vi.spyOn(console, 'error').mockImplementation(() => {})
    consoleLogger.debug({}, 'nothing')
    consoleLogger.info({}, 'nothing')
    consoleLogger.warn({ err: new Error('refused: Bearer abc123') }, 'away')
    consoleLogger.error({ url: 'postgres://app:pw42@db/app' }, 'gone')
    const printed = [...warn.mock.calls, ...error.mock.calls].join('\n')
    expect(printed).toContain('jobtable: away (err=refused')
    expect(printed).not.toMatch(/abc123|pw42|nothing/)
  })
})
