/** A process of the tests: opens the queue, then carries out orders. `child.ts` is the other end. */
import { openSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { jobtable, type JobContext, type Logger, type Worker } from '../../../src/index.js'
import { postgresStore } from '../../../src/stores/postgres/index.js'
import type { Answers, Enqueued, LedgerLine, Message, Order } from './messages.js'
import { defineTypes, type Witness } from './types.js'

const [url, folder] = process.argv.slice(2) as [string, string]
const ledger = openSync(join(folder, `ledger-${process.pid}.jsonl`), 'a')

function tell(message: Message): void {
  process.send?.(message)
}

function line(facts: object, message: string): string {
  const err = 'err' in facts ? facts.err : undefined
  return err instanceof Error ? `${message}: ${err.name} ${'code' in err ? String(err.code) : ''} ${err.message}` : message
}

const logger: Logger = {
  debug() {},
  info() {},
  warn: (facts, message) => tell({ type: 'warning', message: line(facts, message) }),
  error: (facts, message) => tell({ type: 'error', message: line(facts, message) }),
}

function facts(job: JobContext<{ name: string }>): LedgerLine {
  return { id: job.id, name: job.payload.name, attempt: job.attempt, at: Date.now(), pid: process.pid }
}

const witness: Witness = {
  started(job) {
    const run = facts(job)
    writeSync(ledger, `${JSON.stringify(run)}\n`)
    if (job.type !== 'count') tell({ type: 'started', ...run })
  },
  ended: (job) => tell({ type: 'ended', ...facts(job) }),
  aborted: (job, reason) => tell({ type: 'aborted', id: job.id, name: job.payload.name, reason }),
}

/** In a test that does not want to wait for the deadline of answers, this is a shorter one. Milliseconds. */
const answerMs = process.env['ANSWER_MS']
const store = answerMs === undefined ? {} : { store: postgresStore({ connection: url, answerMs: Number(answerMs) }) }
const queue = jobtable(url, { logger, files: join(folder, 'files'), ...store })
const { act, count, keyed } = defineTypes(queue, witness)
let worker: Worker | undefined

async function work({ options }: Order & { do: 'work' }): Promise<Answers['work']> {
  worker = queue.work(options)
  for (const event of ['succeeded', 'retrying', 'failed', 'canceled', 'lease_lost'] as const) {
    worker.on(event, ({ id, type, attempt }) => {
      if (type !== 'count') tell({ type: 'event', event, id, attempt })
    })
  }
  worker.on('error', (error) => tell({ type: 'error', message: String(error) }))
  await worker.ready()
  return { workerId: worker.id! }
}

async function enqueue({ acts, options = {} }: Order & { do: 'enqueue' }): Promise<Enqueued[]> {
  const { runAfterMs, ...rest } = options
  const answers = await act.enqueueMany(acts, runAfterMs === undefined ? rest : { ...rest, runAfter: new Date(runAfterMs) })
  return answers.map(({ job, duplicate }) => ({ id: job.id, duplicate, runAfterMs: job.runAfter.getTime() }))
}

/** Calls `one` so often, with at most `inFlight` calls at the same time. */
async function spread<Answer>(calls: number, inFlight: number, one: (i: number) => Promise<Answer>): Promise<Answer[]> {
  const answers: Answer[] = []
  let next = 0
  const lane = async (): Promise<void> => {
    for (let i = next++; i < calls; i = next++) answers[i] = await one(i)
  }
  await Promise.all(Array.from({ length: inFlight }, lane))
  return answers
}

async function carryOut(order: Order): Promise<Answers[Order['do']]> {
  switch (order.do) {
    case 'work':
      return work(order)
    case 'run_once':
      return queue.runOnce(order.options)
    case 'stop':
      await worker?.stop({ timeout: order.timeout })
      return null
    case 'enqueue':
      return enqueue(order)
    case 'enqueue_keys':
      return spread(order.count, order.inFlight, async (i) => {
        const key = (i * 37) % order.keys
        const { job, duplicate } = await keyed.enqueue({ key })
        return { key, id: job.id, duplicate }
      })
    case 'enqueue_counts':
      return spread(order.count, order.inFlight, async (i) => {
        const { job } = await count.enqueue({ name: `${process.pid}-${i}` })
        return job.id
      })
    case 'result':
      return (await queue.get(order.id))!.result()
  }
}

process.on('message', (order: Order) => {
  carryOut(order).then(
    (answer) => tell({ type: 'answer', answer }),
    (error: unknown) =>
      tell({ type: 'refused', message: error instanceof Error ? (error.stack ?? error.message) : String(error) }),
  )
})
// A deploy: stop as the worker's options say, then leave.
process.on('SIGTERM', () => {
  const stopped = worker ? worker.stop() : Promise.resolve()
  void stopped
    .then(() => tell({ type: 'stopped' }))
    .then(() => queue.close())
    .then(() => process.exit(0))
})
// A test that is gone leaves no processes behind.
process.on('disconnect', () => process.exit(0))

await queue.open()
tell({ type: 'ready' })
