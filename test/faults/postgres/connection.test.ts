import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { jobtable } from '../../../src/index.js'
import { TestServer } from '../../support/postgres/server.js'
import { gate, recordingLog, until, untilStatus } from '../support/place.js'
import { anything } from '../support/types.js'
import { ANSWER_MS, HASTY, queueOn, TERMINATE, testProxy, testServer, timed, working } from './support.js'

/** For the tests that break connections or the network, and leave the server whole. Each takes a schema of its own. */
let server: TestServer
let schemas = 0
beforeAll(async () => void (server = await TestServer.create()))
afterAll(() => server.remove())
const fresh = (): { schema: string } => ({ schema: `s${++schemas}` })

describe('a server that is down', { timeout: 60_000 }, () => {
  it('when worker and producer start is waited for: both say so, and go on when it comes up', async () => {
    const own = await testServer()
    await own.stop()
    const queue = queueOn(own.url(), HASTY)
    const type = queue.define('type', { ...anything, run: () => 'done' })
    const { worker, errors } = working(queue)
    await expect(type.enqueue(null)).rejects.toMatchObject({ code: 'store_unavailable' })
    await until('the worker has said so', () => errors.length > 1)
    await own.start()
    await worker.ready()
    expect(await (await type.enqueue(null)).job.result({ timeout: '20s' })).toBe('done')
    expect(new Set(errors)).toEqual(new Set(['store_unavailable']))
  })

  it('while a worker waits is survived, after however many errors', async () => {
    const own = await testServer()
    const queue = queueOn(own.url(), HASTY)
    const type = queue.define('type', { ...anything, run: () => 'done' })
    const { worker, errors } = working(queue, { lease: '1s', pollInterval: '100ms' })
    await worker.ready()
    await own.stop('immediate')
    await until('it has said so a hundred times', () => errors.length > 100)
    await own.start()
    const other = queueOn(own.url(), HASTY)
    const { job } = await until('the server takes a job', () => other.enqueue('type', null).catch(() => undefined))
    // The longest pause between two tries is 5 s.
    expect(await job.result({ timeout: '10s' })).toBe('done')
    expect(await type.enqueue(null)).toMatchObject({ duplicate: false })
  })

  it('does not keep a queue from closing', async () => {
    const own = await testServer()
    const queue = queueOn(own.url())
    const type = queue.define('type', { ...anything, run: () => 'done' })
    const { worker } = working(queue)
    await worker.ready()
    await own.stop('immediate')
    const answer = type.enqueue(null).catch((error: unknown) => (error as { code: string }).code)
    expect(await timed(queue.close())).toBeLessThan(3_000)
    expect(['store_unavailable', 'queue_closed']).toContain(await answer)
  })
})

describe('a connection that is terminated', () => {
  it('in the middle of a run costs nothing: the job ends in its first attempt', async () => {
    const queue = queueOn(server.url(), { ...fresh(), ...HASTY })
    const [started, go] = [gate(), gate()]
    const type = queue.define('type', {
      ...anything,
      run: async () => {
        started.open()
        await go.opened
        return 'done'
      },
    })
    const { worker } = working(queue)
    const lost: unknown[] = []
    worker.on('lease_lost', (event) => lost.push(event))
    const { job } = await type.enqueue(null)
    await started.opened
    await server.query(TERMINATE)
    go.open()
    expect(await job.result({ timeout: '20s' })).toBe('done')
    expect(await job.refresh()).toMatchObject({ attempts: 1, history: [] })
    expect(lost).toEqual([])
  })

  it('and belongs to a pool that nobody listens to does not end the process', async () => {
    const pool = new pg.Pool({ connectionString: server.url(), max: 4 })
    onTestFinished(() => pool.end())
    const queue = jobtable(pool, { logger: recordingLog(), ...fresh() })
    onTestFinished(() => queue.close())
    const type = queue.define('type', { ...anything, run: () => 'done' })
    working(queue)
    for (let i = 0; i < 5; i++) {
      const { job } = await until('a job is taken', () => type.enqueue(null).catch(() => undefined))
      const result = job.result({ timeout: '20s' })
      await server.query(TERMINATE)
      expect(await result).toBe('done')
      await server.query(TERMINATE)
    }
  })
})

describe('a network that swallows everything and closes nothing', { timeout: 60_000 }, () => {
  it('on the connections that it had: a worker notices, and goes on through new ones', async () => {
    const place = { ...fresh(), ...HASTY }
    const proxy = await testProxy(server.port)
    const queue = queueOn(proxy.url(server.url()), place)
    queue.define('type', { ...anything, run: () => 'done' })
    const { worker, errors } = working(queue)
    await worker.idle()
    proxy.strand()
    const { job } = await queueOn(server.url(), place).enqueue('type', null)
    // The poll of a second, one answer that does not come, and a pause; far less than the lease of thirty seconds.
    expect(await timed(job.result({ timeout: '20s' }))).toBeLessThan(10_000)
    expect(errors.length).toBeLessThan(5)
  })

  it('does not cost the worker its lease, if it passes something again before that has run out', async () => {
    const place = { ...fresh(), ...HASTY }
    const proxy = await testProxy(server.port)
    const queue = queueOn(proxy.url(server.url()), place)
    const go = gate()
    const type = queue.define('type', {
      ...anything,
      run: async () => {
        await go.opened
        return 'done'
      },
    })
    const { worker, errors } = working(queue, { lease: '3s' })
    const { job } = await type.enqueue(null)
    await untilStatus(queue, job.id, 'running')
    proxy.strand()
    const before = worker.id
    await until('a heartbeat got no answer', () => errors.length > 0)
    const leaseOf = async () => (await queue.stats()).workers.find(({ id }) => id === before)!.leaseUntil
    const then = await leaseOf()
    await until('the lease is extended again', async () => (await leaseOf()) > then)
    go.open()
    expect(await job.result({ timeout: '20s' })).toBe('done')
    expect([worker.id, (await job.refresh()).attempts]).toEqual([before, 1])
  })

  it.each(['10s', '500ms'])('lets a worker stop in time, and its queue close, with answers awaited for %s', async (answer) => {
    const proxy = await testProxy(server.port)
    const queue = queueOn(proxy.url(server.url()), { ...fresh(), answerMs: answer === '10s' ? 10_000 : ANSWER_MS })
    const started = gate()
    const type = queue.define('type', {
      ...anything,
      run: async () => {
        started.open()
        await new Promise(() => {})
      },
    })
    const { worker } = working(queue)
    await type.enqueue(null)
    await started.opened
    proxy.stall()
    expect(await timed(worker.stop({ timeout: '1s' }))).toBeLessThan(1_000 + 2_000)
    void type.enqueue(null).catch(() => {})
    expect(await timed(queue.close())).toBeLessThan(5_000)
  })

  it('from the start lets a worker stop in time', async () => {
    const proxy = await testProxy(server.port)
    proxy.stall()
    const queue = queueOn(proxy.url(server.url()))
    queue.define('type', { ...anything, run: () => 'done' })
    const { worker } = working(queue)
    expect(await timed(worker.stop({ timeout: '500ms' }))).toBeLessThan(500 + 2_000)
    await worker.stopped
  })
})

describe('a server that takes no writes any more', { timeout: 60_000 }, () => {
  it('since its standby has taken over: its connections are given up for those of the new one', async () => {
    const primary = await testServer()
    const proxy = await testProxy(primary.port)
    const queue = queueOn(proxy.url(primary.url()), HASTY)
    const type = queue.define('type', { ...anything, run: () => 'done' })
    const { worker, errors } = working(queue, { pollInterval: '10m', concurrency: 20 })
    await worker.ready()
    await Promise.all((await type.enqueueMany(Array(50).fill(null))).map(({ job }) => job.result()))

    const standby = await primary.standby()
    onTestFinished(() => standby.remove())
    await primary.caughtUp(standby)
    // The old one lives on, as one that somebody has fenced off.
    await primary.query('ALTER SYSTEM SET default_transaction_read_only = on')
    await primary.query('SELECT pg_reload_conf()')
    await standby.query('SELECT pg_promote()')
    proxy.redirect(standby.port)
    const { job } = await queueOn(standby.url(), HASTY).enqueue('type', null)
    // An idle worker asks its connection every ten seconds.
    expect(await job.result({ timeout: '20s' })).toBe('done')
    const next = await until('a job is taken', () => type.enqueue(null).catch(() => undefined))
    expect(await next.job.result({ timeout: '5s' })).toBe('done')
    expect(errors.filter((code) => code !== 'store_read_only')).toEqual([])
  })

  it('from the start is refused by name', async () => {
    const own = await testServer()
    await queueOn(own.url(), HASTY).open()
    await own.query('ALTER SYSTEM SET default_transaction_read_only = on')
    await own.query('SELECT pg_reload_conf()')
    await until('it is read-only', async () => {
      const [row] = await own.query<{ set: string }>('SHOW default_transaction_read_only')
      return Object.values(row!)[0] === 'on'
    })
    const queue = queueOn(own.url(), HASTY)
    const type = queue.define('type', { ...anything, run: () => 'done' })
    await expect(type.enqueue(null)).rejects.toMatchObject({ code: 'store_read_only' })
    const { worker, errors } = working(queue)
    await expect(worker.stopped).rejects.toMatchObject({ code: 'store_read_only' })
    expect(errors).toEqual(['store_read_only'])
  })

  it('for a while only is survived by a worker', async () => {
    const own = await testServer()
    const queue = queueOn(own.url(), HASTY)
    const type = queue.define('type', { ...anything, run: () => 'done' })
    const { worker, errors } = working(queue, { pollInterval: '100ms' })
    await worker.ready()
    const set = async (value: string): Promise<void> => {
      await own.query(`ALTER SYSTEM SET default_transaction_read_only = ${value}`)
      await own.query('SELECT pg_reload_conf()')
    }
    await set('on')
    await until('the worker has noticed', () => errors.includes('store_read_only'))
    await own.query('ALTER SYSTEM RESET default_transaction_read_only')
    await own.query('SELECT pg_reload_conf()')
    const { job } = await until('a job is taken', () => type.enqueue(null).catch(() => undefined))
    expect(await job.result({ timeout: '20s' })).toBe('done')
  })
})
