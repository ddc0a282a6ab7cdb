import { execFileSync, spawnSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import { startChild, startChildren } from './support/child.js'
import { place, until } from './support/place.js'
import { defineTypes } from './support/types.js'

const shell = spawnSync('sqlite3', ['-version']).status === 0

describe('several processes on one file', { timeout: 120_000 }, () => {
  it('R117: four producers and four workers at once see no busy error, and every job runs once', async () => {
    const here = place()
    const queue = here.queue()
    await queue.open()
    const children = await startChildren(here, 8)
    const [producers, workers] = [children.slice(0, 4), children.slice(4)]
    await Promise.all(workers.map((worker) => worker.work({ concurrency: 4 })))
    let polls = 0
    const polling = setInterval(() => void queue.stats().then(() => polls++), 100)
    const ids = await Promise.all(producers.map((producer) => producer.order({ do: 'enqueue_counts', count: 250, inFlight: 5 })))
    await until('all have succeeded', async () => (await queue.count({ status: ['succeeded'] })) === 1_000)
    clearInterval(polling)
    expect(polls).toBeGreaterThan(0)
    const ledger = here.ledger()
    expect(ledger.map(({ id }) => id).sort()).toEqual(ids.flat().sort())
    expect(children.flatMap((child) => child.errors)).toEqual([])
  })

  it('four workers drain 50,000 jobs: each handler ran exactly once, and no busy error surfaced', async () => {
    const here = place()
    const queue = here.queue({ durability: 'relaxed' })
    const types = defineTypes(queue)
    const children = await startChildren(here, 4)
    for (let i = 0; i < 50; i++)
      await types.count.enqueueMany(Array.from({ length: 1_000 }, (_, j) => ({ name: `${i * 1_000 + j}` })))
    await Promise.all(children.map((child) => child.work({ lease: '4s' }))) // A short lease: many sweeps look for lost claims.
    await until('all have succeeded', () => here.sql(`SELECT count(*) FROM jobs WHERE status = 'succeeded'`)[0]![0] === 50_000)
    await Promise.all(children.map((child) => child.order({ do: 'stop', timeout: '1000ms' })))
    const ledger = here.ledger()
    expect(ledger).toHaveLength(50_000)
    expect(new Set(ledger.map(({ name }) => name)).size).toBe(50_000)
    expect(new Set(ledger.map(({ pid }) => pid)).size).toBeGreaterThan(1)
    expect(here.sql(`SELECT count(*) FROM jobs WHERE attempts <> 1 OR errors <> '[]'`)).toEqual([[0]])
    expect(children.flatMap((child) => child.errors)).toEqual([])
  })

  it('the result of a job that another process runs is waited for, and so is its failure', async () => {
    const here = place()
    const queue = here.queue()
    const types = defineTypes(queue)
    const [runner, waiter] = await startChildren(here, 2)
    const good = await types.act.enqueue({ name: 'awaited', ms: 300 })
    const bad = await types.act.enqueue({ name: 'bad', ms: 300, end: 'throw' }, { maxAttempts: 1 })
    const waiting = Promise.allSettled([waiter!.order({ do: 'result', id: good.job.id }), good.job.result(), bad.job.result()])
    await runner!.work({})
    const [inAnother, inThis, failed] = await waiting
    expect([inAnother, inThis]).toMatchObject([{ value: 'awaited' }, { value: 'awaited' }])
    expect(failed).toMatchObject({ status: 'rejected', reason: { code: 'job_failed', data: { id: bad.job.id } } })
    // Once it is over, it is answered at once.
    expect(await waiter!.order({ do: 'result', id: good.job.id })).toBe('awaited')
  })

  it('R055: a job is due at the moment it was given, whatever the time zones of producer and worker', async () => {
    const here = place()
    const queue = here.queue()
    await queue.open()
    const producer = await startChild(here, { TZ: 'America/Los_Angeles' })
    const worker = await startChild(here, { TZ: 'Asia/Shanghai' })
    await worker.work({})
    const runAfterMs = Date.now() + 2_000
    const [one] = await producer.order({ do: 'enqueue', acts: [{ name: 'zoned', ms: 0 }], options: { runAfterMs } })
    expect(one!.runAfterMs).toBe(runAfterMs)
    await (await queue.get(one!.id))!.result()
    const [run] = here.runsOf(one!.id)
    expect(run!.at).toBeGreaterThanOrEqual(runAfterMs)
    expect(run!.at).toBeLessThan(runAfterMs + 2_000)
  })
})

describe('a plain INSERT', () => {
  const insert = `INSERT INTO jobs (id, type, payload, status) VALUES ('by-hand', 'act', '{"name":"by hand","ms":0}', 'pending')`

  async function idle() {
    const here = place()
    const queue = here.queue()
    defineTypes(queue, { started() {} })
    const worker = queue.work({ pollInterval: '10m' })
    await worker.idle()
    return { here, queue }
  }

  it.skipIf(!shell)(
    'by the sqlite3 command line is noticed by an idle worker and run (skipped where sqlite3 is not installed)',
    async () => {
      const { here, queue } = await idle()
      const added = Date.now()
      execFileSync('sqlite3', [here.file, insert])
      const job = await until('the job is there', () => queue.get('by-hand'))
      expect(await job.result({ timeout: '20s' })).toBe('by hand')
      const row = await job.refresh()
      expect(row).toMatchObject({ status: 'succeeded', attempts: 1, queue: 'default', priority: 0, maxAttempts: 5 })
      expect(Math.abs(row.createdAt.getTime() - added)).toBeLessThan(10_000)
    },
  )

  it('by another connection is noticed by an idle worker and run', async () => {
    const { here, queue } = await idle()
    here.sql(insert)
    expect(await (await queue.get('by-hand'))!.result({ timeout: '20s' })).toBe('by hand')
  })
})
