/**
 * Three workers drain a queue while everything breaks that can: the server crashes, connections are terminated, and the network of
 * one worker stalls. `npm run test:outage` does the same in full size.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it, onTestFailed, onTestFinished } from 'vitest'
import { jobtable } from '../../../src/index.js'
import { TestServer } from '../../support/postgres/server.js'
import { TcpProxy } from '../../support/tcp-proxy.js'
import { startChild } from '../support/child.js'
import type { LedgerLine } from '../support/messages.js'
import { folder, Ledger, recordingLog, until } from '../support/place.js'
import { defineTypes } from '../support/types.js'

interface Size {
  jobs: number
  crashes: number
  terminations: number
  stallMs: number
  /** How long a worker waits for an answer; undefined for the store's own time. */
  answerMs: number | undefined
  /** Of the server. */
  settings: Record<string, string>
}

const SMALL: Size = { jobs: 10_000, crashes: 1, terminations: 2, stallMs: 5_000, answerMs: 500, settings: {} }
const FULL: Size = {
  jobs: 100_000,
  crashes: 3,
  terminations: 5,
  stallMs: 20_000,
  answerMs: undefined,
  settings: { fsync: 'on', full_page_writes: 'on' },
}
const size = process.env['JOBTABLE_TEST_OUTAGES'] === 'full' ? FULL : SMALL

const WORKERS = 3
/** Claims are lost when a worker is cut off for longer: shorter than the stall, so that the others take them over. */
const LEASE_MS = 2_500
const LEASE = { lease: `${LEASE_MS}ms`, concurrency: 10, prefetch: 200 } as const
/** Those that it runs, has claimed ahead, or whose end is on its way to the database. */
const MOST_HELD = LEASE.concurrency + LEASE.prefetch
/** Of the jobs, so many are enqueued after everything is mended. */
const LAST_SHARE = 0.2
const LAST_PORTIONS = 40
const LAST_MS = 8_000

interface Break {
  what: string
  from: number
  to: number
}

describe(`${size.jobs} jobs while the server and the network break`, { timeout: 240_000 }, () => {
  it('all end, none ends twice, and only what was under way runs twice', async () => {
    const server = await TestServer.create(size.settings)
    onTestFinished(() => server.remove())
    const ledger = new Ledger(folder())
    const queue = jobtable(server.url(), { logger: recordingLog() })
    onTestFinished(() => queue.close())
    await queue.open()
    // Every end of a job, in the transaction that ends it.
    await server.query(`CREATE TABLE ends (id text, at timestamptz DEFAULT clock_timestamp())`)
    await server.query(`CREATE FUNCTION note_end() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN INSERT INTO ends (id) VALUES (NEW.id); RETURN NULL; END $$`)
    await server.query(`CREATE TRIGGER note_end AFTER UPDATE ON jobs FOR EACH ROW
      WHEN (NEW.status IN ('succeeded', 'failed', 'canceled')) EXECUTE FUNCTION note_end()`)

    const { count } = defineTypes(queue)
    let made = 0
    const enqueue = async (jobs: number): Promise<void> => {
      for (let left = jobs; left > 0; left -= 1_000)
        await count.enqueueMany(Array.from({ length: Math.min(1_000, left) }, () => ({ name: `${made++}` })))
    }
    const last = Math.round(size.jobs * LAST_SHARE)
    await enqueue(size.jobs - last)

    const proxies: TcpProxy[] = []
    for (let i = 0; i < WORKERS; i++) {
      const proxy = await TcpProxy.create(server.port)
      onTestFinished(() => proxy.remove())
      proxies.push(proxy)
    }
    const workers = await Promise.all(
      proxies.map((proxy) =>
        startChild(
          { url: proxy.url(server.url()), folder: ledger.folder, writable: () => true },
          size.answerMs === undefined ? {} : { ANSWER_MS: String(size.answerMs) },
        ),
      ),
    )
    onTestFailed(() => console.log(workers.map((worker) => worker.said()).join('\n\n')))
    await Promise.all(workers.map((worker) => worker.work(LEASE)))

    const breaks: Break[] = []
    const broken = async (what: string, work: () => Promise<unknown>): Promise<void> => {
      const from = Date.now()
      await work()
      breaks.push({ what, from, to: Date.now() })
    }
    const terminate = (): Promise<unknown> =>
      server.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()`)
    // The stall goes on while the rest breaks.
    await until('each worker has run something', () => workers.every(({ pid }) => ledger.bytesOf(pid) > 0))
    const stall = broken('stall', async () => {
      proxies[2]!.stall()
      await sleep(size.stallMs) // The length of the stall is the case.
      proxies[2]!.resume()
    })
    const steps = [...evenly('crash', size.crashes), ...evenly('termination', size.terminations)].sort((a, b) => a.at - b.at)
    const bytesAt = (share: number): number => share * (size.jobs - last) * BYTES_PER_RUN
    for (const { what, at } of steps) {
      await until(`the drain has gone on before the next ${what}`, () => ledger.bytes >= bytesAt(at))
      await broken(what, () => (what === 'crash' ? server.restart('immediate') : terminate()))
    }
    await stall
    const mended = Date.now()
    await until('the store of this process is back', () =>
      queue.count({ ids: [] }).then(
        () => true,
        () => false,
      ),
    )
    // For longer than a worker pauses between its tries, so that each of them is back before all is done.
    for (let portion = 0; portion < LAST_PORTIONS; portion++) {
      await enqueue(last / LAST_PORTIONS)
      await sleep(LAST_MS / LAST_PORTIONS)
    }
    const open = `SELECT count(*)::int AS n FROM jobs WHERE status <> 'succeeded'`
    await until('all have succeeded', async () => (await server.query<{ n: number }>(open))[0]!.n === 0, 120_000)
    await Promise.all(workers.map((worker) => worker.order({ do: 'stop', timeout: '1000ms' })))

    const [ends] = await server.query<{ all: number; jobs: number }>(
      'SELECT count(*)::int AS all, count(DISTINCT id)::int AS jobs FROM ends',
    )
    expect(ends).toEqual({ all: size.jobs, jobs: size.jobs })
    const rows = await server.query<{ id: string; attempts: number; finished: number }>(
      `SELECT id, attempts, date_part('epoch', finished_at) * 1000 AS finished FROM jobs`,
    )
    const runs = byJob(ledger.ledger())
    expect(runs.size).toBe(size.jobs)
    // Each went on by itself.
    const afterwards = ledger.ledger().filter(({ at }) => at > mended)
    expect(new Set(afterwards.map(({ pid }) => pid))).toEqual(new Set(workers.map(({ pid }) => pid)))

    const repeated = [...runs.values()].filter(({ length }) => length > 1)
    const extra = repeated.reduce((sum, { length }) => sum + length - 1, 0)
    console.log(`${extra} of ${size.jobs} jobs ran again; errors: ${workers.map(({ errors }) => errors.length).join(', ')}`)
    // Between two runs of a job something was broken.
    expect(repeated.filter((lines) => !isExplained(lines, breaks))).toEqual([])
    // A worker holds so many at most, and lost its lease at most once for each thing that broke.
    expect(extra).toBeLessThanOrEqual(breaks.length * MOST_HELD)
    // What has ended does not start again.
    const finished = new Map(rows.map((row) => [row.id, row.finished]))
    expect([...runs].filter(([id, lines]) => lines.some(({ at }) => at > finished.get(id)! + 1))).toEqual([])
  })
})

/** A line of the ledger has at least so many bytes. */
const BYTES_PER_RUN = 100

/** So many of the kind, at even distances. */
function evenly(what: string, times: number): { what: string; at: number }[] {
  return Array.from({ length: times }, (_, i) => ({ what, at: (i + 1) / (times + 1) }))
}

/** The runs of each job, in order. */
function byJob(lines: readonly LedgerLine[]): Map<string, LedgerLine[]> {
  const runs = new Map<string, LedgerLine[]>()
  for (const line of lines) runs.set(line.id, [...(runs.get(line.id) ?? []), line])
  for (const each of runs.values()) each.sort((a, b) => a.at - b.at)
  return runs
}

/** Whether each run but the last was under way, or its claim was, when something broke. */
function isExplained(lines: readonly LedgerLine[], breaks: readonly Break[]): boolean {
  return lines.slice(1).every(({ at }, i) => breaks.some(({ from, to }) => from <= at && to >= lines[i]!.at))
}
