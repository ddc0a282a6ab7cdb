/** What an isolated handler is given: the same verbs, whose effect is on the other side. */
import type { Readable } from 'node:stream'
import { classify } from '../classify/index.js'
import type { StepRow } from '../effects/record.js'
import { Steps } from '../effects/steps.js'
import { JobtableError, type JobAborted } from '../errors.js'
import { JobFile, toReadable, type FileContent, type FileDescription, type FileStore } from '../files.js'
import type { JobContext, JobLog } from '../worker/context.js'
import { checkStream, unheard, writeFrom, type JobStream, type StreamOptions } from '../streams/stream.js'
import { logOf } from '../worker/words.js'
import { packFailure, unpackFailure } from './failure.js'
import type { FromHost, JobFacts, ToHost } from './protocol.js'

type Answer = FileDescription | StepRow[] | undefined

interface Call {
  resolve(value: Answer): void
  reject(error: Error): void
  /** Of a file: its next piece is asked for; there is no next one to send when it is over. */
  more?(): void
  over?: true
}

export class IsolatedJob implements JobContext<unknown> {
  readonly id: string
  readonly type: string
  readonly queue: string
  readonly payload: unknown
  readonly attempt: number
  readonly maxAttempts: number
  readonly idempotencyKey: string | null
  readonly traceContext: string | null
  readonly createdAt: Date
  readonly #tellWorker: (message: FromHost) => void
  readonly #controller = new AbortController()
  readonly #calls = new Map<number, Call>()
  /** What is recorded is on the other side; the functions run here. */
  readonly #steps = new Steps({
    job: this,
    classify,
    warn: (message) => this.log.warn(message),
    log: {
      load: async () => (await this.#call((call) => ({ type: 'recall', call }))) as StepRow[],
      record: async (step) => void (await this.#call((call) => ({ type: 'record', call, step }))),
    },
  })
  #count = 0
  #over = false

  constructor(facts: JobFacts, tell: (message: FromHost) => void) {
    this.id = facts.id
    this.type = facts.type
    this.queue = facts.queue
    this.payload = facts.payload
    this.attempt = facts.attempt
    this.maxAttempts = facts.maxAttempts
    this.idempotencyKey = facts.idempotencyKey
    this.traceContext = facts.traceContext
    this.createdAt = facts.createdAt
    this.#tellWorker = tell
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** The last word. What the handler left running says nothing any more: the worker would take it for the next job's. */
  end(message: FromHost & { type: 'returned' | 'threw' }): void {
    this.#tell(message)
    this.#over = true
  }

  #tell(message: FromHost): void {
    if (!this.#over) this.#tellWorker(message)
  }

  abort(reason: JobAborted): void {
    this.#controller.abort(reason)
  }

  /** An answer from the other side. */
  hear(message: Exclude<ToHost, { type: 'run' | 'abort' }>): void {
    const call = this.#calls.get(message.call)
    if (!call) return
    if (message.type === 'more') return call.more?.()
    this.#calls.delete(message.call)
    call.over = true
    call.more?.()
    if (message.type === 'answer') call.resolve(message.value)
    else call.reject(unpackFailure(message.error))
  }

  // The verbs are getters, so that a handler may take its job apart: `({ payload, stage, file }) => ...`.

  get stage(): (stage: string) => Promise<void> {
    return async (stage) => void (await this.#call((call) => ({ type: 'stage', call, stage })))
  }

  get progress(): (fraction: number) => void {
    return (fraction) => this.#tell({ type: 'progress', fraction })
  }

  get log(): JobLog {
    return logOf((level, ...said) => this.#tell({ type: 'log', level, said: said.map(plain) }))
  }

  get file(): JobContext<unknown>['file'] {
    return (name, content, options) => this.#storeFile(name, content, options)
  }

  get stream(): JobContext<unknown>['stream'] {
    return (name, options) => this.#openStream(name, options)
  }

  get step(): JobContext<unknown>['step'] {
    return (name, fn) => this.#steps.step(name, fn)
  }

  get effect(): JobContext<unknown>['effect'] {
    return (name, options) => this.#steps.effect(name, options)
  }

  get recorded(): JobContext<unknown>['recorded'] {
    return (name) => this.#steps.recorded(name)
  }

  get transaction(): JobContext<unknown>['transaction'] {
    return () => noTransaction('transaction')
  }

  get checkpoint(): JobContext<unknown>['checkpoint'] {
    return () => noTransaction('checkpoint')
  }

  get complete(): JobContext<unknown>['complete'] {
    return () => noTransaction('complete')
  }

  /** See `InFlight`. */
  handlerReturned(): Promise<void> {
    return this.#steps.handlerReturned()
  }

  handlerThrew(): Promise<void> {
    return this.#steps.inFlight.handlerThrew()
  }

  #openStream(name: string, { maxLength: given }: StreamOptions = {}): JobStream {
    const maxLength = checkStream(name, given === undefined ? {} : { maxLength: given })
    const say = async (said: { text?: string; end?: true }): Promise<void> =>
      void (await this.#call((call) => ({ type: 'stream', call, name, maxLength, ...said })))
    const stream: JobStream = {
      write: (text) => unheard(say({ text })),
      end: () => unheard(say({ end: true })),
      from: (pieces) => writeFrom(stream, pieces, this.signal),
    }
    return stream
  }

  async #storeFile(name: string, content: FileContent, { contentType }: { contentType?: string } = {}): Promise<JobFile> {
    const about = await this.#call(
      (call) => ({ type: 'file', call, name, contentType }),
      (call, number) => void this.#sendPieces(call, number, toReadable(content)),
    )
    return new JobFile(about as FileDescription, NO_FILES)
  }

  /** A piece is sent when it is asked for, so that a fast source does not fill the memory. */
  async #sendPieces(call: Call, number: number, source: Readable): Promise<void> {
    const asking = (): Promise<void> => new Promise((resolve) => (call.more = resolve))
    try {
      let asked = asking()
      for await (const piece of source) {
        await asked
        if (call.over) return
        asked = asking()
        this.#tell({ type: 'piece', call: number, bytes: new Uint8Array(Buffer.from(piece as Uint8Array)) })
      }
      this.#tell({ type: 'piece', call: number, bytes: null })
    } catch (error) {
      this.#tell({ type: 'broken', call: number, error: packFailure(error, this.signal) })
    }
  }

  #call(message: (call: number) => FromHost, begun?: (call: Call, number: number) => void): Promise<Answer> {
    const number = ++this.#count
    return new Promise((resolve, reject) => {
      const call: Call = { resolve, reject }
      this.#calls.set(number, call)
      this.#tell(message(number))
      begun?.(call, number)
    })
  }
}

/** What can be cloned for certain; an error is told by its text. */
function plain(said: unknown): unknown {
  if (typeof said !== 'object' || said === null) return typeof said === 'function' ? 'a function' : said
  if (said instanceof Error) return { err: { name: said.name, message: said.message } }
  try {
    return JSON.parse(JSON.stringify(said)) as unknown
  } catch {
    return { facts: 'not storable' }
  }
}

/** Thrown at once, so that the function of a synchronous transaction ends with it. */
function noTransaction(verb: string): never {
  throw new JobtableError(
    'config_invalid',
    `job.${verb} cannot be used in an isolated handler, whose claim is held by another process or thread: use job.step and job.effect there, or run the handler without isolate`,
  )
}

function elsewhere(): Promise<never> {
  return Promise.reject(
    new JobtableError(
      'file_missing',
      'an isolated handler cannot read stored files back: keep what it needs, or read it in another job',
    ),
  )
}
const NO_FILES: FileStore = { write: elsewhere, read: elsewhere, exists: elsewhere, delete: elsewhere }
