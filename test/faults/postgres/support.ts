/** What the tests of faults on PostgreSQL share. */
import { onTestFinished } from 'vitest'
import { jobtable, type Queue, type QueueOptions, type Worker, type WorkerOptions } from '../../../src/index.js'
import { postgresStore } from '../../../src/stores/postgres/index.js'
import { TestServer } from '../../support/postgres/server.js'
import { TcpProxy } from '../../support/tcp-proxy.js'
import { recordingLog } from '../support/place.js'

/** So long is waited for an answer where none will come, lest the test take the ten seconds that it is by default. Milliseconds. */
export const ANSWER_MS = 500
export const HASTY = { answerMs: ANSWER_MS }

/** A queue that is closed with the test. */
export function queueOn(
  connection: string,
  { answerMs, schema = 'public', ...options }: { answerMs?: number; schema?: string } & QueueOptions = {},
): Queue {
  const store = postgresStore({ connection, schema, ...(answerMs !== undefined && { answerMs }) })
  const queue = jobtable(connection, { logger: recordingLog(), ...options, store })
  onTestFinished(() => queue.close())
  return queue
}

/** A running server that goes with the test. */
export async function testServer(settings: Record<string, string> = {}): Promise<TestServer> {
  const server = await TestServer.create(settings)
  onTestFinished(() => server.remove())
  return server
}

/** A network to this port that goes with the test. */
export async function testProxy(target: number): Promise<TcpProxy> {
  const proxy = await TcpProxy.create(target)
  onTestFinished(() => proxy.remove())
  return proxy
}

/** A worker, and the codes of the errors that it has told its listeners. */
export function working(queue: Queue, options: WorkerOptions = {}): { worker: Worker; errors: string[] } {
  const errors: string[] = []
  const worker = queue.work(options).on('error', (error) => errors.push((error as { code?: string }).code ?? String(error)))
  return { worker, errors }
}

/** Ends every connection of clients but the one that asks. */
export const TERMINATE = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
  WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()`

/** How often it is looked whether the machine lets this process run, and what is not late yet. Milliseconds. */
const TICK_MS = 20

/** How long the work takes, in milliseconds, without the time in which a loaded machine kept this process from running. */
export async function timed(work: Promise<unknown>): Promise<number> {
  const since = performance.now()
  let last = since
  let lateMs = 0
  const ticks = setInterval(() => {
    const now = performance.now()
    lateMs += Math.max(0, now - last - 2 * TICK_MS)
    last = now
  }, TICK_MS)
  await work.finally(() => clearInterval(ticks))
  return performance.now() - since - lateMs
}
