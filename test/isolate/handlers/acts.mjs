/** A handler that does as its payload says. */
import { writeFileSync } from 'node:fs'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { isMainThread, threadId } from 'node:worker_threads'

const acts = {
  where: () => ({ pid: process.pid, thread: threadId, main: isMainThread }),
  echo: ({ payload, id, type, queue, attempt, maxAttempts, idempotencyKey, traceContext, createdAt }) => ({
    value: payload.value,
    facts: { id, type, queue, attempt, maxAttempts, idempotencyKey, traceContext, createdAt: createdAt.toISOString() },
  }),
  nothing: () => undefined,
  report: async ({ stage, progress, log }) => {
    await stage('drawing')
    progress(0.5)
    log.info('half of it', { pages: 7 })
    await stage('done')
    return 'reported'
  },
  stream: async ({ stream, payload }) => {
    async function* tokens() {
      for (let i = 0; i < payload.value; i++) yield `${i} `
    }
    const text = await stream('text').from(tokens())
    void stream('notes').write('not awaited')
    return text.length
  },
  longStream: async ({ stream }) => {
    void stream('text', { maxLength: 5 }).write('123456')
    await stream('text').write('1234')
  },
  badStream: ({ stream }) => stream('').write('x'),
  file: ({ file }) => file('out.txt', 'hello file', { contentType: 'text/plain' }),
  bigFile: ({ file, payload }) => {
    async function* content() {
      for (let i = 0; i < payload.value; i++) yield Buffer.alloc(65_536, i % 256)
    }
    return file('big.bin', content())
  },
  brokenFile: ({ file }) => {
    async function* content() {
      yield 'a beginning'
      throw Object.assign(new Error('the source broke'), { status: 404 })
    }
    return file('broken.txt', content())
  },
  brokenAtOnce: ({ file }) => {
    const content = new Readable({ read() {} })
    content.destroy(Object.assign(new Error('there is no source'), { status: 404 }))
    return file('broken.txt', content)
  },
  badName: ({ file }) => file('../up.txt', 'x'),
  unknownStage: ({ stage }) => stage('no such stage'),
  throw: ({ payload }) => {
    throw Object.assign(new Error('it went wrong'), payload.value)
  },
  throwCause: () => {
    throw new Error('outside', { cause: Object.assign(new Error('inside'), { code: 'ECONNREFUSED' }) })
  },
  circular: () => {
    const loop = {}
    loop.loop = loop
    return loop
  },
  loop: () => {
    for (;;);
  },
  loopKnown: ({ payload }) => {
    writeFileSync(payload.value, String(process.pid))
    for (;;);
  },
  writes: ({ payload }) => {
    for (;;) writeFileSync(payload.value, 'alive')
  },
  saysAndWrites: ({ log, payload }) => {
    writeFileSync(payload.value, 'alive')
    log.info('begun')
    for (;;) writeFileSync(payload.value, 'alive')
  },
  exit: () => process.exit(7),
  memory: () => {
    const all = []
    for (;;) all.push(Array.from({ length: 100_000 }, (_, i) => ({ i })))
  },
  obey: async ({ signal }) => {
    await sleep(60_000, undefined, { signal }).catch(() => {})
    throw signal.reason
  },
  ignore: () => sleep(60_000),
  leaves: ({ progress, stage }) => {
    setInterval(() => {
      progress(0.9)
      stage('drawing').catch(() => {})
    }, 20).unref()
    return 'gone'
  },
  steps: async ({ step, attempt, recorded }) => {
    const first = await step('pid', () => process.pid)
    const again = await step('attempt', () => attempt)
    if (attempt === 1) throw Object.assign(new Error('later'), { status: 503 })
    return { first, again, none: (await recorded('nothing')) === undefined }
  },
  effect: ({ effect, payload }) =>
    effect('call', {
      request: payload.value,
      run: (body, { key }) => {
        if (body === 'break') throw Object.assign(new Error('socket hang up'), { code: 'ECONNRESET' })
        return { body, key, pid: process.pid }
      },
      onUnknown: 'hold',
    }),
  twice: async ({ step }) => {
    await step('same', () => 1)
    await step('same', () => 2)
  },
  transaction: ({ transaction }) => transaction(() => 1),
  quiet: () => sleep(500),
}

export default (job) => acts[job.payload.act](job)
