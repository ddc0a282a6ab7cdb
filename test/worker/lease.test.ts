import { expect, it } from 'vitest'
import { JobtableError } from '../../src/errors.js'
import type { Store, WorkerInfo } from '../../src/store.js'
import type { Heart } from '../../src/worker/heart.js'
import { Lease } from '../../src/worker/lease.js'

it('the heart is told of a registration whose answer was lost, by the first heartbeat that finds it', async () => {
  const workers = new Set<string>()
  let away = false
  const store: Pick<Store, 'register' | 'heartbeat'> = {
    register: async ({ id }) => {
      workers.add(id)
      if (away) throw new JobtableError('store_unavailable', 'no answer')
    },
    heartbeat: async (id) => (workers.has(id) ? { alive: true, claims: [] } : { alive: false }),
  }
  const told: string[] = []
  const heart: Pick<Heart, 'beats' | 'registered' | 'extended'> = {
    beats: true,
    registered: (id) => void told.push(id),
    extended: () => void told.push('extended'),
  }
  const lease = new Lease({
    store: store as Store,
    heart: heart as Heart,
    leaseMs: 30_000,
    attempts: new Set(),
    info: (id) => ({ id }) as WorkerInfo,
    lost: () => {},
    held: async () => {},
  })
  await lease.register()
  const former = lease.workerId
  workers.clear()
  away = true
  await expect(lease.beat()).rejects.toMatchObject({ code: 'store_unavailable' })
  await lease.beat()
  await lease.beat()
  expect(lease.workerId).not.toBe(former)
  expect(told).toEqual([former, lease.workerId, 'extended'])
})
