/** From a user's module to the queue that it exports. */
import { statSync } from 'node:fs'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { Queue } from '../queue.js'
import { nameOf, sameDatabase, shownName } from './database.js'
import { CliError, messageOf, usageError } from './failure.js'
import type { Session } from './session.js'

const TYPESCRIPT_CODES: ReadonlySet<unknown> = new Set([
  'ERR_UNKNOWN_FILE_EXTENSION',
  'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX',
  'ERR_INVALID_TYPESCRIPT_SYNTAX',
  'ERR_NO_TYPESCRIPT',
])

/** Imports the module and finds its queue. A module that calls `jobtable()` gets the database of this command. */
export async function loadQueue(session: Session, module: string): Promise<Queue> {
  const file = resolve(module)
  const stats = statSync(file, { throwIfNoEntry: false })
  if (!stats) throw new CliError(`there is no module ${module}`, { hint: `looked for ${file}` })
  if (stats.isDirectory())
    throw new CliError(`${module} is a folder`, { hint: 'name the module in it that exports the queue, such as jobs.mjs' })
  const { env } = session.io
  if (session.db !== undefined || env['JOBTABLE_URL']) env['JOBTABLE_URL'] = session.url
  const queue = onlyQueue(await importModule(session, module, file), module)
  if (session.db !== undefined && !sameDatabase(queue.name, nameOf(session.url))) {
    throw usageError(
      `the queue of ${module} is on ${shownName(queue.name)}, not on ${shownName(session.url)} as --db says`,
      'leave out --db, or call jobtable() without a URL in the module, which then takes the one of --db',
    )
  }
  return queue
}

async function importModule(session: Session, module: string, file: string): Promise<object> {
  const { signals } = session.io
  let neverLoaded: (() => void) | undefined
  const stuck = new Promise<never>((_resolve, reject) => {
    neverLoaded = () =>
      reject(new CliError(`${module} never finishes loading: a top-level await in it waits for nothing that could happen`))
  })
  signals.on('beforeExit', neverLoaded!)
  try {
    return await Promise.race([import(pathToFileURL(file).href) as Promise<object>, stuck])
  } catch (error) {
    if (error instanceof CliError) throw error
    throw new CliError(`${module} cannot be loaded: ${messageOf(error)}`, { hint: hintFor(error, module), cause: error })
  } finally {
    signals.removeListener('beforeExit', neverLoaded!)
  }
}

function hintFor(error: unknown, module: string): string | undefined {
  if (!(error instanceof Error)) return undefined
  const code = 'code' in error ? error.code : undefined
  if (/\.[cm]?tsx?$/.test(module) && TYPESCRIPT_CODES.has(code)) {
    return (
      `Node ${process.version} does not run this TypeScript by itself: use Node 22.18 or newer with types that can be erased, compile it first, ` +
      'or `npm install tsx` and set NODE_OPTIONS="--import tsx"'
    )
  }
  const place = (error.stack ?? '')
    .split('\n')
    .map((line) => /(?:^|[\s(]|file:\/\/)((?:[A-Za-z]:)?\/[^\s()]+:\d+)(?::\d+)?\)?$/.exec(line.trim())?.[1])
    .find((found) => found !== undefined && !found.includes('/node_modules/'))
  // Node keeps the place of a syntax error to itself, and prints it only when the error ends the process.
  if (place === undefined && error instanceof SyntaxError) return `\`node ${module}\` shows where`
  return place === undefined ? 'add --verbose for the stack' : `at ${place}; add --verbose for the stack`
}

function onlyQueue(namespace: object, module: string): Queue {
  const names = new Map<Queue, string[]>()
  for (const [name, value] of exportsOf(namespace)) {
    if (isQueue(value)) names.set(value, [...(names.get(value) ?? []), name])
  }
  const [queue, ...others] = names.keys()
  if (queue === undefined) {
    throw new CliError(`${module} exports no queue`, { hint: 'export what jobtable(...) gives: export const queue = jobtable()' })
  }
  if (others.length > 0) {
    const list = [...names.values()].map(([name]) => name).join(', ')
    throw new CliError(`${module} exports ${names.size} queues: ${list}`, {
      hint: 'export one per module, and start a worker for each',
    })
  }
  return queue
}

/** The exports of a module; for CommonJS also the members of what it exports. */
function exportsOf(namespace: object): [string, unknown][] {
  const entries = Object.entries(namespace)
  const whole: unknown = 'default' in namespace ? namespace.default : undefined
  const members = typeof whole === 'object' && whole !== null && !isQueue(whole) ? Object.entries(whole) : []
  return [...entries, ...members]
}

/** Also a queue of another copy of jobtable: a program that is installed globally loads modules that have their own. */
function isQueue(value: unknown): value is Queue {
  if (value instanceof Queue) return true
  if ((value as object | undefined)?.constructor?.name !== 'Queue') return false
  const { work, open, close, types } = value as Partial<Queue>
  return typeof work === 'function' && typeof open === 'function' && typeof close === 'function' && types instanceof Map
}
