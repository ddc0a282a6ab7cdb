/**
 * Handlers in a process or thread of their own: one that computes for long blocks nobody, one that never ends is killed at its
 * timeout, one that takes all memory or crashes costs its own job only.
 *
 * A host runs one job at a time and is kept for the next one. When the job's signal is aborted, the handler's own is; if it has not
 * ended a while after that, its host is killed. An attempt that ends before its handler, because it was cut off or its claim was lost,
 * kills the host at once, and waits for its end before anything is written: whoever gets the job next runs it alone. A host that dies by itself has an outcome that nobody knows: the job runs again, as
 * it does when its worker is lost.
 */
import { Readable } from 'node:stream'
import { knownVerdicts } from '../classify/own.js'
import { JobtableError, type JobAborted } from '../errors.js'
import type { Logged, StepLog } from '../effects/log.js'
import type { StepRow } from '../effects/record.js'
import type { FileDescription } from '../files.js'
import type { Handler } from '../job-type.js'
import { checkOptionNames } from '../options.js'
import type { JobContext, Stopped } from '../worker/context.js'
import { packFailure, unpackFailure } from './failure.js'
import { hostFile, startHost, type Host, type Isolation } from './host.js'
import type { FromHost } from './protocol.js'

export interface IsolateOptions {
  in: Isolation
  /** The most that its heap of JavaScript may take, in megabytes; Buffers and native code are outside of it. Default: Node's own limit. */
  memoryMb?: number
}

/** How long an aborted handler may take to end by itself; less than until it would be cut off. Milliseconds. */
const KILL_AFTER_MS = 1_500
/** An idle host is ended after so long. Milliseconds. */
const IDLE_MS = 5_000

export function prepareIsolation(name: string, isolate: Isolation | IsolateOptions, run: unknown): Handler<unknown, unknown> {
  if (typeof isolate === 'object') checkOptionNames(`${name}: isolate`, isolate, { in: true, memoryMb: true })
  const { in: isolation, memoryMb } = typeof isolate === 'string' ? { in: isolate } : isolate
  const wrong = (what: string): JobtableError => new JobtableError('config_invalid', `${name}: ${what}`)
  if (isolation !== 'thread' && isolation !== 'process')
    throw wrong(`isolate must be 'thread' or 'process', not ${String(isolation)}`)
  if (memoryMb !== undefined && !(Number.isInteger(memoryMb) && memoryMb >= 16)) {
    throw wrong(`isolate.memoryMb must be a whole number of megabytes from 16, not ${String(memoryMb)}`)
  }
  if (!(run instanceof URL)) {
    throw wrong(
      "an isolated handler is a module of its own, since a function cannot be sent there: run: new URL('./handler.js', import.meta.url), whose default export is the handler",
    )
  }
  hostFile()
  const hosts = new Hosts(isolation, memoryMb)
  return (job) => runIsolated(hosts, run.href, job)
}

class Hosts {
  readonly #isolation: Isolation
  readonly #memoryMb: number | undefined
  readonly #idle = new Map<Host, NodeJS.Timeout>()

  constructor(isolation: Isolation, memoryMb: number | undefined) {
    this.#isolation = isolation
    this.#memoryMb = memoryMb
  }

  take(): Host {
    for (const [host, timer] of this.#idle) {
      clearTimeout(timer)
      this.#idle.delete(host)
      host.hold(true)
      return host
    }
    return startHost(this.#isolation, this.#memoryMb)
  }

  giveBack(host: Host): void {
    const forget = (): void => {
      clearTimeout(timer)
      this.#idle.delete(host)
    }
    const timer = setTimeout(() => {
      forget()
      void host.kill()
    }, IDLE_MS)
    timer.unref()
    host.hold(false)
    this.#idle.set(host, timer)
    host.listen({ message() {}, ended: forget })
  }
}

async function runIsolated(hosts: Hosts, module: string, job: JobContext<unknown>): Promise<unknown> {
  const host = hosts.take()
  let healthy = false
  const conversation = new Conversation(host, job)
  // The context that a worker gives has it.
  const attempt = job as JobContext<unknown> & Stopped
  attempt.stopWith(() => host.kill())
  try {
    const result = await conversation.run(module)
    healthy = true
    return result
  } catch (error) {
    healthy = conversation.answered
    throw error
  } finally {
    conversation.end()
    attempt.stopWith(undefined)
    if (healthy) hosts.giveBack(host)
    else void host.kill()
  }
}

/** The last word of a handler. */
type End = FromHost & { type: 'returned' | 'threw' }

/** One job in one host. */
class Conversation {
  readonly #host: Host
  readonly #job: JobContext<unknown>
  readonly #files = new Map<number, Pieces>()
  #settle: ((message: End | string) => void) | undefined
  #killTimer: NodeJS.Timeout | undefined
  #over = false
  /** Whether the handler has come to its end, one way or the other. */
  answered = false

  constructor(host: Host, job: JobContext<unknown>) {
    this.#host = host
    this.#job = job
  }

  async run(module: string): Promise<unknown> {
    const { id, type, queue, payload, attempt, maxAttempts, idempotencyKey, traceContext, createdAt, signal } = this.#job
    const last = new Promise<End | string>((resolve) => (this.#settle = resolve))
    this.#host.listen({ message: (message) => this.#hear(message), ended: (how) => this.#settle!(how) })
    signal.addEventListener('abort', this.#abort)
    const job = { id, type, queue, payload, attempt, maxAttempts, idempotencyKey, traceContext, createdAt }
    try {
      this.#host.send({ type: 'run', module, job })
    } catch (cause) {
      const problem = `the payload of ${type}, as its schema makes it, cannot be sent to an isolated handler`
      throw new JobtableError('payload_invalid', `${problem}: let the schema leave out functions and the like`, { cause })
    }
    if (signal.aborted) this.#abort()
    const message = await last
    if (typeof message === 'string') throw signal.aborted ? signal.reason : crashed(message)
    this.answered = true
    if (message.type === 'threw') throw unpackFailure(message.error)
    return message.result === null ? undefined : (JSON.parse(message.result) as unknown)
  }

  /** Nothing that the host says from now on is heard. */
  end(): void {
    this.#over = true
    this.#host.listen(undefined)
    clearTimeout(this.#killTimer)
    this.#job.signal.removeEventListener('abort', this.#abort)
    for (const pieces of this.#files.values()) pieces.fail(new Error('the handler ended before its file did'))
  }

  readonly #abort = (): void => {
    const { reason, message } = this.#job.signal.reason as JobAborted
    this.#host.send({ type: 'abort', reason, message })
    this.#killTimer = setTimeout(() => void this.#host.kill(), KILL_AFTER_MS)
  }

  #hear(message: FromHost): void {
    if (this.#over) return
    switch (message.type) {
      case 'returned':
      case 'threw':
        return this.#settle!(message)
      case 'progress':
        return this.#job.progress(message.fraction)
      case 'log':
        return this.#job.log[message.level](...(message.said as [string, object?]))
      case 'stage':
        return void this.#answer(
          message.call,
          this.#job.stage(message.stage).then(() => undefined),
        )
      case 'file':
        return this.#beginFile(message)
      case 'stream':
        return void this.#answer(message.call, this.#appendTo(message))
      case 'recall':
        return void this.#answer(message.call, this.#log.load())
      case 'record':
        return void this.#answer(
          message.call,
          this.#log.record(message.step).then(() => undefined),
        )
      case 'piece':
        return this.#files.get(message.call)?.add(message.bytes)
      case 'broken':
        return this.#files.get(message.call)?.fail(unpackFailure(message.error))
    }
  }

  /** The context that a worker gives has it. */
  get #log(): StepLog {
    return (this.#job as JobContext<unknown> & Logged).stepLog
  }

  /** At once, so that the order of the messages is that of the text. */
  async #appendTo({ name, maxLength, text, end }: FromHost & { type: 'stream' }): Promise<undefined> {
    const stream = this.#job.stream(name, { maxLength })
    await (end ? stream.end() : stream.write(text!))
  }

  #beginFile({ call, name, contentType }: FromHost & { type: 'file' }): void {
    const pieces = new Pieces(() => this.#say({ type: 'more', call }))
    this.#files.set(call, pieces)
    const stored = this.#job.file(name, pieces.stream, contentType === undefined ? {} : { contentType })
    const about = stored.then((file) => file.toJSON().$file).finally(() => this.#files.delete(call))
    void this.#answer(call, about)
  }

  async #answer(call: number, work: Promise<FileDescription | StepRow[] | undefined>): Promise<void> {
    try {
      const value = await work
      this.#say({ type: 'answer', call, ...(value && { value }) })
    } catch (error) {
      this.#say({ type: 'refused', call, error: packFailure(error) })
    }
  }

  #say(message: Parameters<Host['send']>[0]): void {
    if (!this.#over) this.#host.send(message)
  }
}

/** The content of a file, as it arrives. */
class Pieces {
  readonly stream: Readable

  constructor(askForMore: () => void) {
    this.stream = new Readable({ read: askForMore })
  }

  add(bytes: Uint8Array | null): void {
    this.stream.push(bytes)
  }

  fail(error: Error): void {
    this.stream.destroy(error)
  }
}

function crashed(how: string): Error {
  const error = new Error(`the isolated handler did not come to its end: ${how}`)
  knownVerdicts.set(error, { kind: 'unknown_outcome', code: 'worker_lost', blame: 'developer' })
  return error
}
