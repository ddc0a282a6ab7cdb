import { describe, expect, it } from 'vitest'
import type { JobRow, Store } from '../../src/store.js'
import { ClaimLoop } from '../../src/worker/loop.js'
import { recoverLost, type ClaimSettlement } from '../../src/worker/maintenance.js'
import { DATABASES } from './support/databases.js'
import { startChild, startChildren } from './support/child.js'
import { changed, gate, until, untilStatus } from './support/place.js'
import { defineTypes } from './support/types.js'

const LEASE = { lease: '1s', pollInterval: '200ms' } as const
describe.each(DATABASES)('leases on $name', ({ place }) => {
  it('R018: a sweep that read an expired list does not touch a job completed meanwhile', async () => {
    const here = await place()
    const read = gate()
    const release = gate()
    // The worker sweeps now and then, too: the sweep here is another's.
    const { queue, clock } = here.clockQueue({ around: (store) => changed(store, { lost: async () => [] }) })
    const { queue: other } = here.clockQueue({}, clock)
    const finish = gate()
    const types = defineTypes(queue)
    types.count.handle(async () => {
      await finish.opened
      return null
    })
    const { job } = await types.count.enqueue({ name: 'J' })
    // With its only slot taken, it claims nothing: a claim would tell it that its lease is over, and end the attempt.
    const worker = queue.work({ lease: '1h', concurrency: 1, prefetch: 0 })
    await untilStatus(queue, job.id, 'running')
    clock.advance('2h') // The lease is over, as the database's clock has it.
    const store = await other.open()
    const sweep = recoverLost({
      store: changed(store, {
        lost: async (limit, known) => {
          const rows = await store.lost(limit, known)
          expect(rows.map(({ id }) => id)).toEqual([job.id])
          read.open()
          await release.opened
          return rows
        },
      }),
      types: queue.types,
      locale: 'en',
      settled: () => expect.unreachable('the claim was not lost'),
      failed: (error) => expect.unreachable(String(error)),
    })
    await Promise.race([read.opened, sweep])
    finish.open()
    const before = await untilStatus(queue, job.id, 'succeeded')
    clock.advance('1m')
    release.open()
    expect(await sweep).toBe(0)
    expect((await job.refresh()).toJSON()).toEqual(before.toJSON())
    expect(before).toMatchObject({ attempts: 1, history: [] })
    await worker.stop()
  })

  it('R022: workers that wake from a suspended machine claim nothing under the leases that ran out in their sleep', async () => {
    const here = await place()
    const { queue, clock } = here.clockQueue()
    const { queue: other } = here.clockQueue({}, clock)
    const runs: string[] = []
    const types = [queue, other].map((each) => defineTypes(each, { started: ({ id }) => runs.push(id) }))
    const workers = [queue, other].map((each) => each.work({ lease: '1s', concurrency: 5 }))
    await Promise.all(workers.map((worker) => worker.ready()))
    clock.advance('1h') // Time has gone on in the world; the timers of the processes have not.
    const added = await types[0]!.act.enqueueMany(Array.from({ length: 10 }, (_, i) => ({ name: `job-${i}`, ms: 1_000 })))
    await Promise.all(added.map(({ job }) => job.result()))
    expect(runs.sort()).toEqual(added.map(({ job }) => job.id).sort())
    const after = await Promise.all(added.map(({ job }) => job.refresh()))
    expect(after.map(({ attempts, history }) => [attempts, history])).toEqual(after.map(() => [1, []]))
  })

  it('R020: claims that cannot be started any more are each handed back once', async () => {
    const rows = ['a', 'b', 'c'].map((id) => ({ id }) as JobRow)
    const handedBack: string[] = []
    const store = {
      claim: () => Promise.resolve({ alive: true, jobs: rows.splice(0), nextDueInMs: null, settled: [] }),
      settle: (settlements: readonly ClaimSettlement[]) => {
        handedBack.push(...settlements.map(({ id }) => id))
        return Promise.resolve(settlements.map(() => 'settled' as const))
      },
    }
    const loop: ClaimLoop = new ClaimLoop({
      store: store as Partial<Store> as Store,
      workerId: () => 'worker',
      queues: () => ['default'],
      types: () => ['type'],
      maxAttempts: () => new Map(),
      concurrency: 2,
      prefetch: 0,
      pollIntervalMs: 60_000,
      start: (row) => loop.slotFreed({ id: row.id } as ClaimSettlement),
      handBack: (row) => ({ id: row.id }) as ClaimSettlement,
      settled() {},
      unwritable: (claim) => claim,
      leaseLost() {},
      failed: (error) => expect.unreachable(String(error)),
      recovered() {},
    })
    await loop.idle()
    loop.close()
    expect(handedBack).toEqual(['a', 'b', 'c'])
  })

  describe('with processes', { timeout: 90_000 }, () => {
    it('R020: a worker that was frozen beyond its lease does not get its claims back, and writes nothing to them', async () => {
      const here = await place()
      const queue = here.queue()
      const types = defineTypes(queue)
      const [first, second] = await startChildren(here, 2)
      const former = await first!.work(LEASE)
      const { job } = await types.act.enqueue({ name: 'contested', ms: 6_000 })
      await first!.saw('started', { id: job.id })
      const other = await second!.work(LEASE)
      await first!.freeze()
      await second!.saw('started', { id: job.id })
      const claim = () => here.sql(`SELECT locked_by, claim_token, attempts FROM jobs WHERE id = ?`, job.id)
      const held = await claim()
      expect(held).toMatchObject([[other, expect.any(String), 2]])
      first!.thaw()
      // Its next heartbeat tells it, and its handler.
      await first!.saw('event', { event: 'lease_lost', id: job.id })
      expect(await first!.saw('aborted', { id: job.id })).toMatchObject({ reason: 'lease_lost' })
      expect(await claim()).toEqual(held)
      // Its handler ends first, and what it returns changes nothing.
      await first!.saw('ended', { id: job.id })
      expect(await claim()).toEqual(held)
      await job.result()
      const { lockedBy, attempts, history } = await job.refresh()
      expect({ lockedBy, attempts, history }).toMatchObject({
        lockedBy: null,
        attempts: 2,
        history: [{ kind: 'lost', by: former }],
      })
      expect(first!.all('event').map(({ event }) => event)).toEqual(['lease_lost'])
    })

    it('R020: a handler that ends as its frozen worker wakes does not settle the job that another worker runs', async () => {
      const here = await place()
      const queue = here.queue()
      const types = defineTypes(queue)
      const [first, second] = await startChildren(here, 2)
      await first!.work(LEASE)
      const { job } = await types.act.enqueue({ name: 'contested', ms: 1_000 })
      await first!.saw('started', { id: job.id })
      await first!.freeze()
      await second!.work(LEASE)
      await second!.saw('started', { id: job.id })
      first!.thaw()
      await first!.saw('event', { event: 'lease_lost', id: job.id })
      await second!.saw('event', { event: 'succeeded', id: job.id })
      expect(first!.all('event').map(({ event }) => event)).toEqual(['lease_lost'])
      expect(await job.refresh()).toMatchObject({ status: 'succeeded', attempts: 2 })
    })

    it('R020: a worker that was frozen beyond its lease starts none of the jobs that it had claimed ahead', async () => {
      const here = await place()
      const queue = here.queue({ durability: 'relaxed' })
      const types = defineTypes(queue)
      const [first, second] = await startChildren(here, 2)
      await types.act.enqueueMany(Array.from({ length: 3_000 }, (_, i) => ({ name: `short-${i}`, ms: 2 })))
      await first!.work({ ...LEASE, concurrency: 4 })
      const [former] = (await queue.stats()).workers
      const held = async () =>
        (await here.sql(`SELECT id FROM jobs WHERE status = 'running' AND locked_by = ?`, former!.id)).flat()
      let ahead = new Set<string>()
      await first!.freeze(async () => {
        const started = new Set(here.ledger().map(({ id }) => id))
        ahead = new Set((await held()).map(String).filter((id) => !started.has(id)))
        return ahead.size > 4
      })
      await second!.work(LEASE)
      await until('the other worker has taken the claims over', async () => (await held()).length === 0)
      first!.thaw()
      await until('all of them are over', async () => (await queue.count({ status: ['succeeded'] })) === 3_000)
      const ofLostClaims = here.ledger().filter(({ id, attempt, pid }) => pid === first!.pid && attempt === 1 && ahead.has(id))
      // No more than the one whose start the freeze may have cut in two: after the look at the lease, and before the note of it.
      expect(ofLostClaims.length).toBeLessThanOrEqual(1)
    })

    it('R022: a lone worker that was frozen beyond its lease goes on by itself, and its job ends', async () => {
      const here = await place()
      const queue = here.queue()
      const types = defineTypes(queue)
      const child = await startChild(here)
      await child.work(LEASE)
      const { job } = await types.act.enqueue({ name: 'asleep', ms: 1_500 })
      await child.saw('started', { id: job.id })
      await child.freeze()
      await until('its lease has run out', async () => (await queue.stats()).workers[0]!.leaseUntil < Date.now())
      child.thaw()
      expect(await job.result({ timeout: '20s' })).toBe('asleep')
      const later = await types.act.enqueue({ name: 'later', ms: 0 })
      expect(await later.job.result({ timeout: '20s' })).toBe('later')
      expect(await queue.count({ status: ['running'] })).toBe(0)
    })
  })
})
