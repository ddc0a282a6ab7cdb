/** The process or thread in which an isolated handler runs, as its worker sees it. */
import { fork, type ChildProcess } from 'node:child_process'
import { Worker as Thread } from 'node:worker_threads'
import { fileBeside } from '../beside.js'
import { JobtableError } from '../errors.js'
import { signal } from '../timers.js'
import type { FromHost, ToHost } from './protocol.js'

export type Isolation = 'thread' | 'process'

/** Who hears of a host: one at a time. */
export interface Ear {
  message(message: FromHost): void
  /** It has ended; why, in words. */
  ended(how: string): void
}

export interface Host {
  /** Throws when the message cannot be cloned. */
  send(message: ToHost): void
  /** From now on this one hears, and at once if it has ended already; undefined for nobody. */
  listen(ear: Ear | undefined): void
  /** Ends it at once, whatever it does; resolves when it has ended. */
  kill(): Promise<void>
  /** Whether this process waits for it. */
  hold(held: boolean): void
}

/** Megabytes that its heap may take; undefined for Node's own limit. */
export function startHost(isolation: Isolation, memoryMb: number | undefined): Host {
  const file = hostFile()
  return isolation === 'thread' ? startThread(file, memoryMb) : startProcess(file, memoryMb)
}

export function hostFile(): string {
  const file = fileBeside(import.meta.url, './isolate-host')
  if (file !== undefined) return file
  throw new JobtableError(
    'config_invalid',
    'isolated handlers need the file isolate-host.js beside the code of jobtable, where it is installed: do not bundle jobtable, mark it as external',
  )
}

/** Passes on to whoever listens. */
class Switch {
  #ear: Ear | undefined
  #ended: string | undefined
  readonly #end = signal()
  readonly whenEnded = this.#end.promise

  readonly listen = (ear: Ear | undefined): void => {
    this.#ear = ear
    if (this.#ended !== undefined) ear?.ended(this.#ended)
  }
  readonly message = (message: FromHost): void => this.#ear?.message(message)
  readonly end = (how: string): void => {
    if (this.#ended !== undefined) return
    this.#ended = how
    this.#end.resolve()
    this.#ear?.ended(how)
  }
}

/** Processes outlive the one that started them, if nobody ends them. */
const processes = new Set<ChildProcess>()
let ending = false
function endWithThisProcess(child: ChildProcess): void {
  if (!ending) process.once('exit', () => processes.forEach((each) => each.kill('SIGKILL')))
  ending = true
  processes.add(child)
  child.once('exit', () => processes.delete(child))
}

/** Loaders and the like go along; a debugger, which has one port for one process, and a program given as text do not. */
function inherited(execArgv: readonly string[]): string[] {
  const isText = (argument: string | undefined): boolean => /^(-e|-p|-pe|--eval|--print)$/.test(argument ?? '')
  return execArgv.filter(
    (argument, i) => !isText(argument) && !isText(execArgv[i - 1]) && !/^--(inspect|input-type)/.test(argument),
  )
}

function startProcess(file: string, memoryMb: number | undefined): Host {
  const limit = memoryMb === undefined ? [] : [`--max-old-space-size=${memoryMb}`]
  const child = fork(file, [], { serialization: 'advanced', execArgv: [...inherited(process.execArgv), ...limit] })
  endWithThisProcess(child)
  const { listen, message, end, whenEnded } = new Switch()
  child.on('message', message)
  child.once('error', (error) => end(`its process could not be started or reached: ${error.message}`))
  child.once('exit', (code, signal) => end(`its process ended with ${signal ?? `code ${code}`}${mayMean(signal, memoryMb)}`))
  return {
    listen,
    // What cannot be sent to a process that is gone is told by its end.
    send: (sent) => void child.send(sent, () => {}),
    kill: () => {
      child.kill('SIGKILL')
      return whenEnded
    },
    hold: (held) => {
      child[held ? 'ref' : 'unref']()
      child.channel?.[held ? 'ref' : 'unref']()
    },
  }
}

/** Node ends itself like this when its heap is full, and says so on its stderr only. */
function mayMean(signal: NodeJS.Signals | null, memoryMb: number | undefined): string {
  if (signal !== 'SIGABRT') return ''
  const limit = memoryMb === undefined ? "Node's limit of memory" : `its limit of memory, memoryMb: ${memoryMb}`
  return `, as it does when it has reached ${limit}`
}

function startThread(file: string, memoryMb: number | undefined): Host {
  const thread = new Thread(file, memoryMb === undefined ? {} : { resourceLimits: { maxOldGenerationSizeMb: memoryMb } })
  const { listen, message, end, whenEnded } = new Switch()
  thread.on('message', message)
  thread.once('error', (error) => end(`its thread ended: ${error instanceof Error ? error.message : String(error)}`))
  thread.once('exit', (code) => end(`its thread ended with code ${code}`))
  return {
    listen,
    send: (sent) => thread.postMessage(sent),
    kill: () => {
      void thread.terminate()
      return whenEnded
    },
    hold: (held) => thread[held ? 'ref' : 'unref'](),
  }
}
