import { setImmediate as turn } from 'node:timers/promises'
import { describe, expect, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import { PermanentError, TransientError, type JobContext, type JobStream } from '../../src/index.js'
import { DATABASES } from '../faults/support/databases.js'
import { defineJob } from '../effects/support.js'
import { testQueue } from '../../src/testing/index.js'
import { signal } from '../../src/timers.js'

type Context = JobContext<Record<string, unknown>>

async function* tokens(...all: string[]): AsyncGenerator<string> {
  for (const token of all) {
    await turn()
    yield token
  }
}

describe.each(DATABASES)('job.stream on $name', ({ place }) => {
  it('what a handler writes is there in order, and is done when the job is over', async () => {
    const { queue, enqueue, drain } = defineJob(await place(), async (job) => {
      const { write } = job.stream('text')
      for (const token of ['Once ', 'upon ', 'a ', 'time', ' 🙂.']) void write(token)
      await job.stream('notes').from(tokens('short'))
      return 'told'
    })
    const job = await enqueue()
    await drain()
    expect(await job.result()).toBe('told')
    expect(await queue.readStream(job.id, 'text')).toEqual({ attempt: 1, offset: 0, text: 'Once upon a time 🙂.', done: true })
    expect(await queue.readStream(job.id, 'text', { attempt: 1, offset: 5 }, 4)).toEqual({
      attempt: 1,
      offset: 5,
      text: 'upon',
      done: false,
    })
    expect(await queue.streamsOf(job.id)).toEqual([
      { name: 'notes', attempt: 1, length: 5, done: true },
      { name: 'text', attempt: 1, length: 20, done: true },
    ])
    expect([await queue.readStream(job.id, 'other'), await queue.readStream('nobody', 'text')]).toEqual([undefined, undefined])
  })

  it('it can be read while it grows, and whoever watches the job is told', async () => {
    const [seen, finished] = [signal(), signal()]
    const { queue, enqueue } = defineJob(await place(), async (job) => {
      void job.stream('text').write('half')
      await seen.promise
      await job.stream('text').write(' of it')
      await job.stream('text').end()
      await finished.promise
    })
    const job = await enqueue()
    const worker = queue.work()
    const texts: unknown[] = []
    let rev = -1
    for await (const now of job.updates()) {
      expect(now.rev).toBeGreaterThan(rev)
      rev = now.rev
      const found = await queue.readStream(job.id, 'text', { attempt: 1, offset: texts.length === 0 ? 0 : 4 })
      if (found?.text === 'half') seen.resolve()
      if (found?.text === ' of it' && found.done) finished.resolve()
      if (found && found.text !== '') texts.push(found.text)
    }
    await worker.stop()
    expect(texts[0]).toBe('half')
    expect(texts.at(-1)).toBe(' of it')
  })

  it('the next attempt replaces the text, and a failed one leaves what it wrote', async () => {
    const attempts: unknown[] = []
    const { queue, enqueue, drain } = defineJob(await place(), async (job) => {
      attempts.push(await queue.readStream(job.id, 'text'))
      void job.stream('text').write(`attempt ${job.attempt}`)
      if (job.attempt === 1) throw new TransientError('once more')
      await job.stream('text').end()
    })
    const job = await enqueue()
    await drain()
    expect(attempts).toEqual([undefined, { attempt: 1, offset: 0, text: 'attempt 1', done: false }])
    expect(await queue.readStream(job.id, 'text', { attempt: 1, offset: 4 })).toEqual({
      attempt: 2,
      offset: 0,
      text: 'attempt 2',
      done: true,
    })
  })

  it('a surrogate pair is never cut, and half of one becomes a character that says so', async () => {
    const read: string[] = []
    const { queue, enqueue, drain } = defineJob(await place(), async (job) => {
      const stream = job.stream('text')
      const text = async (): Promise<string> => (await queue.readStream(job.id, 'text'))?.text ?? ''
      for (const piece of ['a\ud83d', '\ude42b', '\udc00c\0', 'd\ud83d']) {
        await stream.write(piece)
        await job.stage('stored')
        read.push(await text())
      }
    })
    const job = await enqueue()
    await drain()
    expect(read).toEqual(['a', 'a🙂b', 'a🙂b\uFFFDc\uFFFD', 'a🙂b\uFFFDc\uFFFDd'])
    expect(await queue.readStream(job.id, 'text')).toMatchObject({ text: 'a🙂b\uFFFDc\uFFFDd\uFFFD', done: true })
  })

  it('a text that gets too long fails the job with what to do, and what fitted stays', async () => {
    const awaited: unknown[] = []
    const { queue, enqueue, drain } = defineJob(await place(), async (job) => {
      const stream = job.stream('text', { maxLength: 10 })
      await stream.write('0123456789')
      await stream.write('x').catch((error: unknown) => awaited.push(error))
    })
    const job = await enqueue()
    await drain()
    expect(awaited).toMatchObject([{ code: 'stream_full', data: { name: 'text', maxLength: 10 } }])
    expect(await job.refresh()).toMatchObject({ status: 'failed', history: [{ kind: 'permanent', code: 'too_large' }] })
    expect(await queue.readStream(job.id, 'text')).toMatchObject({ text: '0123456789', done: true })
  })

  it('what is wrong is said at once', async () => {
    const errors: unknown[] = []
    const caught = async (work: () => unknown): Promise<void> => {
      try {
        await work()
      } catch (error) {
        errors.push((error as { code?: string }).code)
      }
    }
    const { queue, enqueue, drain } = defineJob(await place(), async (job) => {
      for (const name of ['', 'x'.repeat(101), 'a\0', '\ud800', 7]) await caught(() => job.stream(name as string))
      for (const maxLength of [0, 1.5, 16_777_217]) await caught(() => job.stream('text', { maxLength }))
      for (let i = 0; i < 21; i++) await caught(() => job.stream(`stream ${i}`))
      await caught(() => job.stream('stream 0').write(7 as never))
      throw new PermanentError('enough')
    })
    const job = await enqueue()
    await drain()
    expect(errors).toEqual(Array.from({ length: 10 }, () => 'config_invalid'))
    for (const after of [
      { attempt: 1, offset: -1 },
      { attempt: 1.5, offset: 0 },
    ])
      await expect(queue.readStream(job.id, 'text', after)).rejects.toMatchObject({ code: 'config_invalid' })
    await expect(queue.readStream(job.id, 'text', undefined, 0)).rejects.toMatchObject({ code: 'config_invalid' })
  })

  it('a handler that is told to stop reads no more of its source', async () => {
    const begun = signal()
    let closed = false
    async function* endless(): AsyncGenerator<string> {
      try {
        for (;;) {
          await turn()
          yield '.'
          begun.resolve()
        }
      } finally {
        closed = true
      }
    }
    const { queue, enqueue } = defineJob(await place(), (job) => job.stream('text').from(endless()))
    const job = await enqueue()
    const worker = queue.work()
    await begun.promise
    await job.cancel()
    await expect(job.result({ timeout: '20s' })).rejects.toMatchObject({ code: 'job_canceled' })
    await worker.stop()
    expect(closed).toBe(true)
    expect(await queue.readStream(job.id, 'text')).toMatchObject({ done: true })
  })

  it('a handler whose claim was lost appends nothing, and is told', async () => {
    const [first, second] = [signal(), signal()]
    const errors: unknown[] = []
    const here = await place()
    const run = async (job: Context): Promise<void> => {
      const stream: JobStream = job.stream('text')
      await stream.write(`attempt ${job.attempt}`)
      if (job.attempt === 2) return stream.end()
      await job.stage('written')
      first.resolve()
      await second.promise
      await stream.write(', late').catch((error: unknown) => errors.push(error))
      await stream.end().catch((error: unknown) => errors.push(error))
    }
    const { queue, enqueue } = defineJob(here, run)
    const job = await enqueue()
    const worker = queue.work()
    await first.promise
    const store = await queue.open()
    await store.retire(worker.id!)
    await job.result({ timeout: '20s' })
    second.resolve()
    await worker.stop()
    expect(errors).toMatchObject([{ code: 'lease_lost' }, { code: 'lease_lost' }])
    expect(await queue.readStream(job.id, 'text')).toEqual({ attempt: 2, offset: 0, text: 'attempt 2', done: true })
  })

  it('a transaction that completes the job has what its streams got last, or neither is there', async () => {
    const outcomes: unknown[] = []
    const { queue, enqueue, drain } = defineJob(await place(), async (job) => {
      await job.stream('text').write('to the end')
      const value = await job.transaction(() => {
        const late = job.stream('text').write(' and beyond')
        late.catch((error: unknown) => outcomes.push((error as { code: string }).code))
        if (job.attempt === 1) throw new TransientError('undone')
        return 'completed'
      })
      outcomes.push(value)
    })
    const job = await enqueue()
    await drain()
    expect(await job.result()).toBe('completed')
    expect(outcomes).toEqual(['lease_lost', 'lease_lost', 'completed'])
    expect(await queue.readStream(job.id, 'text')).toEqual({ attempt: 2, offset: 0, text: 'to the end', done: true })
  })
})

it('a test queue runs a handler that streams, attempt by attempt', async () => {
  const queue = testQueue()
  onTestFinished(() => queue.close())
  queue.define('write', {
    payload: z.null(),
    idempotency: { none: 'a test' },
    retry: { backoff: { base: '10s' }, jitter: false },
    run: async (job) => {
      await job.stream('text').from([`attempt `, String(job.attempt)])
      if (job.attempt === 1) throw new TransientError('once more')
    },
  })
  const { job } = await queue.enqueue('write', null)
  await queue.runFor('1s')
  expect(await queue.readStream(job.id, 'text')).toEqual({ attempt: 1, offset: 0, text: 'attempt 1', done: true })
  await queue.runFor('10s')
  expect(await queue.readStream(job.id, 'text')).toEqual({ attempt: 2, offset: 0, text: 'attempt 2', done: true })
})
