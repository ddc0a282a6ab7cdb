/** A crash of the server takes back nothing that a store has answered to have settled. */
import pg from 'pg'
import { describe, expect, it, onTestFinished } from 'vitest'
import { postgresStore } from '../../../src/stores/postgres/index.js'
import type { FencedSettlement } from '../../../src/store.js'
import { retrying, settling, succeeded } from '../../../src/testing/conformance/bench.js'
import { newJob } from '../../../src/testing/new-job.js'
import { testServer } from './support.js'

const TEN_MINUTES = 600_000
const [queues, types] = [['default'], ['type']]
const WORKER = { id: 'worker', host: 'here', pid: 1, process: null, queues, types, concurrency: 3 }

describe('a server that crashes', { timeout: 60_000 }, () => {
  it.each([
    ['another one goes back to wait', retrying({ delayMs: TEN_MINUTES }), { lock: false, left: 'retrying' }],
    ['the row of another one is locked', succeeded, { lock: true, left: 'running' }],
  ])('keeps the settlement that came with a claim, where %s', async (_, another, { lock, left }) => {
    // What does not wait for the disk does not come there until the crash.
    const server = await testServer({ wal_writer_delay: '10s' })
    const store = postgresStore({ connection: server.url() })
    onTestFinished(() => store.close())
    await store.migrate()
    await store.insert(['a', 'b'].map((id) => newJob({ id, type: 'type' })))
    await store.register(WORKER, TEN_MINUTES)
    const claim = (token: string, settlements: FencedSettlement[] = []) =>
      store.claim({ workerId: WORKER.id, token, queues, types, limit: 3 }, settlements)
    const [a, b] = (await claim('first')).jobs
    // Takes the claim to the disk.
    await store.heartbeat(WORKER.id, TEN_MINUTES)
    const other = new pg.Client({ connectionString: server.url() })
    other.on('error', () => {})
    await other.connect()
    if (lock) await other.query(`BEGIN; SELECT id FROM jobs WHERE id = 'b' FOR UPDATE`)
    const { settled } = await claim('second', [settling(a!, succeeded), settling(b!, another)])
    expect(settled).toEqual(['settled', lock ? 'locked' : 'settled'])
    await server.restart('immediate')
    expect((await store.get(['a', 'b'])).map((row) => row!.status)).toEqual(['succeeded', left])
  })
})
