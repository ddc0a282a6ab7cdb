import type { Command } from 'commander'
import type { Duration } from '../duration.js'
import type { Queue } from '../queue.js'
import type { Worker } from '../worker/worker.js'
import { shownName } from './database.js'
import { CliError, EXIT, stackOf } from './failure.js'
import { clean, cleanLines, span } from './format.js'
import type { Signals } from './io.js'
import { loadQueue } from './load.js'
import { duration, each, wholeNumber } from './options.js'
import type { On, Session } from './session.js'
import { handBack, Shutdown } from './shutdown.js'

interface WorkOptions {
  concurrency: number
  queue?: string[]
  lease: Duration
  stopTimeout: Duration
}

export function addWork(program: Command, on: On): void {
  program
    .command('work')
    .description('Run the jobs of the queue that a module exports, until a signal ends it.')
    .argument('<module>', 'a .js, .mjs, .cjs or .ts file that exports a queue')
    .option('-c, --concurrency <count>', 'jobs that run at the same time', wholeNumber(1, 10_000), 10)
    .option('-q, --queue <queue>', 'serve this queue; repeatable, in order of preference (default: those of the types)', each)
    .option('--lease <duration>', 'how long claims outlive a worker that is silent', duration, '30s')
    .option('--stop-timeout <duration>', 'how long running jobs may go on after the first signal', duration, '25s')
    .addHelpText(
      'after',
      `
SIGINT or SIGTERM stops it: nothing more is claimed, running jobs may go on for the stop timeout, then they are handed
back. A second signal within a second of the first is ignored as an echo; a later one hands them back at once.

With --json each event is a line of JSON of its own.

Exit codes: 0 stopped; 1 it could not start, was forced to end, or a promise was rejected that nobody handled;
2 wrong usage.

Examples:
  jobtable work jobs.mjs
  jobtable work dist/jobs.js --db data/app.db --concurrency 20 --queue mail --queue default
`,
    )
    .action(
      on(async (session, module: string, options: WorkOptions) => {
        const strays = watchStrays(session)
        try {
          return await Promise.race([runModule(session, module, options, strays), strays.crashed])
        } finally {
          strays.close()
        }
      }),
    )
}

async function runModule(session: Session, module: string, options: WorkOptions, strays: Strays): Promise<number> {
  const queue = await loadQueue(session, module)
  requireHandlers(queue, module)
  return supervise(session, queue, options, strays)
}

function requireHandlers(queue: Queue, module: string): void {
  const types = [...queue.types.values()]
  if (types.some(({ handler }) => handler !== undefined)) return
  const defined = types.map(({ name }) => name).join(', ')
  throw new CliError(
    types.length === 0
      ? `${module} defines no job type, so there is nothing to run`
      : `${module} gives no job type a handler (it defines ${defined})`,
    {
      hint: 'give define(...) a run function, or import the module that calls handle(...)',
    },
  )
}

async function supervise(session: Session, queue: Queue, options: WorkOptions, strays: Strays): Promise<number> {
  const { concurrency, queue: queues, lease, stopTimeout } = options
  const worker = queue.work({ concurrency, lease, stopTimeout, ...(queues && { queues }) })
  const shutdown = new Shutdown({ worker, stopTimeout, now: session.io.now, say: session.note })
  const release = listen(session.io.signals, (signal) => shutdown.signal(signal))
  strays.whenStray(() => shutdown.stop())
  const report = new Report(session, worker)
  try {
    const stopped = worker.stopped.then(() => 'stopped' as const)
    const forced = shutdown.forced.then(() => 'forced' as const)
    await Promise.race([worker.ready(), stopped, forced])
    if (worker.id !== undefined) report.ready(queue, options)
    const end = await Promise.race([stopped, forced])
    if (end === 'forced') await handBack(worker, session.note)
    else await Promise.race([queue.close(), forced])
    report.stopped(end)
    return end === 'stopped' && strays.count === 0 ? EXIT.ok : EXIT.failed
  } finally {
    report.close()
    shutdown.close()
    release()
  }
}

function listen(signals: Signals, listener: (signal: NodeJS.Signals) => void): () => void {
  signals.on('SIGINT', listener)
  signals.on('SIGTERM', listener)
  return () => {
    signals.removeListener('SIGINT', listener)
    signals.removeListener('SIGTERM', listener)
  }
}

interface Strays {
  readonly count: number
  /** Rejects when an exception was thrown that nothing caught. */
  readonly crashed: Promise<never>
  whenStray(listener: () => void): void
  close(): void
}

/**
 * A rejection that nobody handles says that the program is wrong somewhere: the jobs are brought to an end, and then it stops.
 * An exception that nothing caught ends it at once, as Node does. The jobs are not handed back then, so that their attempt
 * counts: one that crashes its worker each time would otherwise do so for ever.
 */
function watchStrays({ io, note }: Session): Strays {
  let count = 0
  let listener: (() => void) | undefined
  let crash: ((reason: CliError) => void) | undefined
  const crashed = new Promise<never>((_resolve, reject) => (crash = reject))
  crashed.catch(() => {}) // It may come before anybody listens.
  const stray = (reason: unknown): void => {
    count++
    note(`a promise was rejected and nobody handled it; the worker stops: ${cleanLines(stackOf(reason))}`)
    listener?.()
  }
  const uncaught = (error: unknown): void => {
    note(`an exception was thrown and nothing caught it: ${cleanLines(stackOf(error))}`)
    crash!(
      new CliError('the process ends because of this exception; the jobs it was running are run again, and their attempt counts'),
    )
  }
  io.signals.on('unhandledRejection', stray)
  io.signals.on('uncaughtException', uncaught)
  return {
    crashed,
    get count() {
      return count
    },
    whenStray: (each) => {
      listener = each
      if (count > 0) each()
    },
    close: () => {
      io.signals.removeListener('unhandledRejection', stray)
      io.signals.removeListener('uncaughtException', uncaught)
    },
  }
}

/** What happens, as lines: one for each job that did not succeed, and one a second at most for those that did. */
class Report {
  readonly #session: Session
  readonly #worker: Worker
  readonly #succeeded = new Map<string, number>()
  #timer: NodeJS.Timeout | undefined

  constructor(session: Session, worker: Worker) {
    this.#session = session
    this.#worker = worker
    worker
      .on('succeeded', ({ type }) => {
        this.#succeeded.set(type, (this.#succeeded.get(type) ?? 0) + 1)
        this.#timer ??= setTimeout(() => this.#flush(), 1_000)
      })
      .on('failed', (job) => this.#line('failed', job, `failed ${job.type} ${job.id} at attempt ${job.attempt}: ${job.code}`))
      .on('canceled', (job) => this.#line('canceled', job, `canceled ${job.type} ${job.id}`))
      .on('lease_lost', (job) =>
        this.#line('lease_lost', job, `lost the claim on ${job.type} ${job.id}, which may run elsewhere now`),
      )
      .on('retrying', (job) => {
        const after = job.code === null ? 'was handed back or asked to wait' : `attempt ${job.attempt} ended with ${job.code}`
        this.#line('retrying', job, `retrying ${job.type} ${job.id} in ${span(job.delayMs)}: ${after}`)
      })
  }

  ready(queue: Queue, { concurrency, queue: queues, lease }: WorkOptions): void {
    const handled = [...queue.types.values()].filter(({ handler }) => handler !== undefined)
    const database = shownName(queue.name)
    const types = handled.map(({ name }) => name)
    const served = queues ?? [...new Set(handled.map((type) => type.queue))]
    this.#line(
      'ready',
      { worker: this.#worker.id, database, types, queues: served, concurrency, lease },
      `worker ${this.#worker.id} is ready on ${database}: types ${types.join(', ')}; queues ${served.join(', ')}; ${concurrency} at once`,
    )
  }

  stopped(how: 'stopped' | 'forced'): void {
    this.#flush()
    const { totals } = this.#worker
    const words = Object.entries(totals).map(([status, count]) => `${count} ${status}`)
    this.#line(how, { totals }, `${how === 'stopped' ? 'stopped' : 'forced to end'}: ${words.join(', ')}`)
  }

  close(): void {
    clearTimeout(this.#timer)
  }

  #flush(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    if (this.#succeeded.size === 0) return
    const counts = Object.fromEntries(this.#succeeded)
    this.#succeeded.clear()
    const words = Object.entries(counts).map(([type, count]) => `${count} ${type}`)
    this.#line('succeeded', { counts }, `succeeded: ${words.join(', ')}`)
  }

  #line(event: string, facts: object, text: string): void {
    this.#session.print(this.#session.json ? `${JSON.stringify({ event, ...facts })}\n` : `${clean(text)}\n`)
  }
}
