import { mkdirSync, writeFileSync } from 'node:fs'
import { describe, expect, it, onTestFinished } from 'vitest'
import { JobtableError, TransientError, type Job, type Queue } from '../../src/index.js'
import { DATABASES } from './support/databases.js'
import { changed, gate, place as sqlitePlace, recordingLog, until, untilStatus } from './support/place.js'
import { anything } from './support/types.js'

/** Stored text that a reader can rely on: bounded, well-formed, and parsed by everybody. */
function expectReadable(job: Job): void {
  const text = JSON.stringify(job.history)
  expect(text.length).toBeLessThan(65_536)
  expect(text.isWellFormed() && (job.lastError ?? '').isWellFormed()).toBe(true)
  expect(JSON.parse(text)).toEqual(job.history)
}

describe.each(DATABASES)('errors on $name', ({ place }) => {
  describe('R030: an error that cannot be serialised', () => {
    const circular = (): Error => {
      const error = new Error('real') as Error & Record<string, unknown>
      error['self'] = error
      error['big'] = 10n
      error['callback'] = () => 1
      error['body'] = Buffer.alloc(5_000_000)
      error['toJSON'] = () => {
        throw new TypeError('Converting circular structure to JSON')
      }
      return error
    }

    const refuse = (): never => {
      throw new Error('no')
    }

    it.each<[string, () => unknown, { name: string; message: string }]>([
      ['a circular one', circular, { name: 'Error', message: 'real' }],
      [
        'a circular object',
        () => Object.assign({ message: 'plain' }, { self: circular() }),
        { name: 'Object', message: 'plain' },
      ],
      [
        'one with a message that throws',
        () => Object.defineProperty(new Error('x'), 'message', { get: refuse }),
        { name: 'Error', message: expect.any(String) as string },
      ],
      [
        'a proxy that throws',
        () => new Proxy({}, { get: refuse }),
        { name: expect.any(String) as string, message: expect.any(String) as string },
      ],
      ['nothing', () => undefined, { name: 'NonError', message: 'undefined was thrown' }],
      ['a symbol', () => Symbol('s'), { name: 'NonError', message: 'Symbol(s) was thrown' }],
      [
        'an object without a prototype',
        (): unknown => Object.create(null),
        { name: expect.any(String) as string, message: expect.any(String) as string },
      ],
    ])('is stored by its name and message, and the worker goes on: %s', async (_, make, expected) => {
      const queue = (await place()).testQueue()
      const throws = queue.define('throws', {
        ...anything,
        retry: { maxAttempts: 1 },
        run: () => {
          throw make()
        },
      })
      const fine = queue.define('fine', { ...anything, run: () => 'fine' })
      const { job } = await throws.enqueue(null)
      const next = await fine.enqueue(null)
      await queue.drain()
      const failed = await job.refresh()
      expect(failed.status).toBe('failed')
      expect(failed.history).toMatchObject([expected])
      expect(JSON.stringify(failed.history)).not.toMatch(/Converting|toJSON/)
      expectReadable(failed)
      expect(await next.job.result()).toBe('fine')
    })
  })

  it('R032: an error text of many megabytes is stored cut, and holds up neither the worker nor the next job', async () => {
    const queue = (await place()).testQueue()
    const throws = queue.define('throws', {
      ...anything,
      retry: { maxAttempts: 2, backoff: { base: '1s' } },
      run: () => {
        const error = new Error(`${'x'.repeat(20_000_000)}\u{1F981}`)
        error.stack = `Error: ${error.message}\n${'    at somewhere (file.js:1:1)\n'.repeat(50_000)}`
        throw error
      },
    })
    const fine = queue.define('fine', { ...anything, run: () => 'fine' })
    const { job } = await throws.enqueue(null)
    const next = await fine.enqueue(null, { delay: '5s' })
    await queue.runFor('1m')
    const failed = await job.refresh()
    expect(failed).toMatchObject({ status: 'failed', attempts: 2 })
    expect(failed.history).toHaveLength(2)
    expectReadable(failed)
    expect(await next.job.result()).toBe('fine')
  })

  describe('R034: listeners', () => {
    it('are told the id, and when they throw, that is logged and changes nothing', async () => {
      const log = recordingLog()
      const queue = (await place()).testQueue({ logger: log })
      const act = queue.define('act', {
        ...anything,
        retry: { maxAttempts: 1 },
        run: ({ payload }) => {
          if (payload === 'throw') throw new TransientError('told to')
          return 'done'
        },
      })
      const good = await act.enqueue('return')
      const bad = await act.enqueue('throw')
      const heard: string[] = []
      const worker = queue.work()
      for (const event of ['succeeded', 'failed', 'retrying'] as const) {
        worker.on(event, ({ id }) => {
          heard.push(`${event} ${id}`)
          throw new Error('a broken listener')
        })
      }
      await worker.idle()
      expect(heard.sort()).toEqual([`failed ${bad.job.id}`, `succeeded ${good.job.id}`])
      expect(await good.job.result()).toBe('done')
      expect(await bad.job.refresh()).toMatchObject({ status: 'failed', attempts: 1 })
      expect(log.lines.filter(({ level, message }) => level === 'error' && message.includes('listener'))).toHaveLength(2)
      await worker.stop()
    })

    it('hear once of a claim that was lost, with the id', async () => {
      const here = await place()
      const queue = here.queue()
      const held = gate()
      const act = queue.define('act', { ...anything, run: () => held.opened })
      const { job } = await act.enqueue(null)
      const lost: string[] = []
      const worker = queue.work({ lease: '1s' }).on('lease_lost', ({ id }) => {
        lost.push(id)
        throw new Error('a broken listener')
      })
      await untilStatus(queue, job.id, 'running')
      await here.sql(`UPDATE jobs SET status = 'succeeded', locked_by = NULL, claim_token = NULL WHERE id = ?`, job.id)
      await until('the loss was told', () => lost.length > 0)
      held.open()
      await worker.stop()
      expect(lost).toEqual([job.id])
    })

    it('hear of a job that has failed because its last claim was lost, with the id', async () => {
      const here = await place()
      const { queue } = here.clockQueue()
      queue.define('act', { ...anything, run: () => 'done' })
      await queue.open()
      await here.sql(
        `INSERT INTO jobs (id, type, payload, status, attempts, max_attempts) VALUES ('poison', 'act', 'null', 'running', 3, 3)`,
      )
      const failed: { id: string; code: string }[] = []
      const worker = queue.work({ lease: '1s' }).on('failed', (event) => failed.push(event))
      await untilStatus(queue, 'poison', 'failed')
      await worker.stop()
      expect(failed).toMatchObject([{ id: 'poison', type: 'act', attempt: 3, code: 'worker_lost' }])
    })
  })

  it('R116: neither stored errors nor log lines hold the secrets of an error text', async () => {
    const log = recordingLog()
    const { queue } = (await place()).clockQueue({ logger: log })
    let received: unknown
    const act = queue.define('act', {
      ...anything,
      retry: { maxAttempts: 1 },
      run: ({ payload }) => {
        received = payload
        throw new Error('401 for https://api:pw42@host/x with Authorization: Bearer abc123xyz')
      },
    })
    const secrets = { password: 'hunter2', nested: { apiKey: 'sk_live_x1' }, headers: { Authorization: 'Bearer abc123xyz' } }
    const { job } = await act.enqueue(secrets)
    await queue.drain()
    const shown = JSON.stringify([(await job.refresh()).history, (await job.refresh()).lastError, await job.events(), log.lines])
    expect(shown).not.toMatch(/hunter2|sk_live_x1|abc123xyz|pw42/)
    expect(received).toEqual(secrets)
  })

  it('R034: a worker goes on trying while the database is locked, and works once it is free', async () => {
    const log = recordingLog()
    let failures = 2
    const { queue } = (await place()).clockQueue({
      logger: log,
      around: (store) =>
        changed(store, {
          register: async (worker, leaseMs) => {
            if (failures-- > 0) throw new JobtableError('store_busy', 'locked')
            return store.register(worker, leaseMs)
          },
        }),
    })
    const { job } = await queue.define('act', { ...anything, run: () => null }).enqueue(null)
    const errors: unknown[] = []
    queue.work().on('error', (error) => errors.push(error))
    await job.result()
    expect(errors).toMatchObject([{ code: 'store_busy' }, { code: 'store_busy' }])
    expect(log.lines.filter(({ message }) => message.includes('tries again'))).toHaveLength(2)
  })
})

describe('R034: a worker whose file cannot be used', () => {
  function unhandled(): unknown[] {
    const seen: unknown[] = []
    const note = (reason: unknown): void => void seen.push(reason)
    process.on('unhandledRejection', note)
    onTestFinished(() => void process.off('unhandledRejection', note))
    return seen
  }

  const define = (queue: Queue) => queue.define('act', { ...anything, run: () => null })

  it('says so to whoever waits for it, and leaves no rejection unhandled, when it can never be used', async () => {
    const seen = unhandled()
    const here = sqlitePlace()
    writeFileSync(here.file, 'this is no database, and long enough to be looked at as one.'.repeat(100))
    const queue = here.queue()
    define(queue)
    const worker = queue.work()
    await new Promise((resolve) => process.nextTick(resolve))
    await expect(worker.stopped).rejects.toMatchObject({ name: 'JobtableError', code: 'store_corrupt' })
    await expect(worker.ready()).rejects.toMatchObject({ code: 'store_corrupt' })
    await worker.stop()
    await new Promise(setImmediate)
    expect(seen).toEqual([])
  })

  it('tells its error listener, attached in the next tick, while it tries again and again', async () => {
    const seen = unhandled()
    const here = sqlitePlace()
    mkdirSync(here.file) // A folder in the place of the file.
    const queue = here.queue()
    define(queue)
    const worker = queue.work()
    await new Promise((resolve) => process.nextTick(resolve))
    expect(await new Promise((resolve) => worker.on('error', resolve))).toMatchObject({ name: 'JobtableError' })
    await worker.stop()
    await new Promise(setImmediate)
    expect(seen).toEqual([])
  })
})
