/** What runs in the process or thread of an isolated handler: takes a job, imports the module, runs its default export. */
import { pathToFileURL } from 'node:url'
import { parentPort, Worker as Thread } from 'node:worker_threads'
import { read } from '../classify/read.js'
import { JobAborted } from '../errors.js'
import { JobFile } from '../files.js'
import { PermanentError } from '../handler-errors.js'
import { encodeJson } from '../json.js'
import type { Handler } from '../job-type.js'
import { packFailure } from './failure.js'
import { IsolatedJob } from './job.js'
import type { FromHost, ToHost } from './protocol.js'

let job: IsolatedJob | undefined

function tell(message: FromHost): void {
  if (parentPort) parentPort.postMessage(message)
  else process.send!(message)
}

async function load(module: string): Promise<Handler<unknown, unknown>> {
  const url = /^[a-z][a-z0-9+.-]+:/i.test(module) ? module : pathToFileURL(module).href
  const about = { code: 'misconfigured', blame: 'developer' } as const
  let loaded: { default?: unknown }
  try {
    loaded = (await import(url).catch((error: unknown) => importTypeScript(url, error))) as typeof loaded
  } catch (cause) {
    const todo =
      isUnread(cause) && /\.[cm]?tsx?$/.test(module)
        ? ': this Node reads no TypeScript, so compile it, or install tsx, or use Node 22.18 or newer'
        : ''
    throw new PermanentError(`the handler module ${module} cannot be loaded${todo}`, { ...about, cause })
  }
  if (typeof loaded.default === 'function') return loaded.default as Handler<unknown, unknown>
  throw new PermanentError(`the handler module ${module} must export its handler as the default export`, about)
}

/** Threads do not always inherit the loader of their process: tsx, where it is installed, is asked for by name. */
async function importTypeScript(url: string, error: unknown): Promise<unknown> {
  if (!isUnread(error)) throw error
  let api: { tsImport(url: string, parent: string): Promise<unknown> }
  try {
    const name = 'tsx/esm/api' // No bundler follows it.
    api = (await import(name)) as typeof api
  } catch {
    throw error
  }
  return api.tsImport(url, import.meta.url)
}

/** By its kind: TypeScript, mostly. */
function isUnread(error: unknown): boolean {
  return read(error, 'code') === 'ERR_UNKNOWN_FILE_EXTENSION'
}

async function run({ module, job: facts }: ToHost & { type: 'run' }): Promise<void> {
  const mine = (job = new IsolatedJob(facts, tell))
  try {
    const handler = await load(module)
    const returned = await handler(mine)
    await mine.handlerReturned()
    const plain = returned instanceof JobFile ? returned.toJSON() : returned
    mine.end({
      type: 'returned',
      result: plain === undefined ? null : encodeJson(plain, `the result of ${facts.type}`, 'result_invalid'),
    })
  } catch (error) {
    const failure = packFailure(error, mine.signal)
    await mine.handlerThrew()
    mine.end({ type: 'threw', error: failure })
  }
}

function hear(message: ToHost): void {
  if (message.type === 'run') void run(message)
  else if (message.type === 'abort') job?.abort(new JobAborted(message.reason, message.message))
  else job?.hear(message)
}

/**
 * Ends this process when the one that started it is gone, be it that a handler never lets go of the event loop. The parent is the one of the
 * beginning: it may be gone before the thread has started.
 */
const WATCH = `const { workerData: parent } = require('node:worker_threads')
setInterval(() => { if (process.ppid !== parent) process.kill(process.pid, 'SIGKILL') }, 1_000)`

if (parentPort) {
  parentPort.on('message', hear)
} else {
  process.on('message', hear)
  process.on('disconnect', () => process.exit())
  new Thread(WATCH, { eval: true, execArgv: [], workerData: process.ppid }).unref()
}
