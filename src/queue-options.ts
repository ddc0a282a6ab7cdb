/** What a queue can be told. */
import { JobtableError } from './errors.js'
import type { FileStore } from './files.js'
import type { Logger } from './logger.js'
import { checkOptionNames, type OptionNames } from './options.js'
import type { RetentionOptions } from './retention.js'
import type { JobFilter, Store } from './store.js'
import { isPool } from './stores/postgres/index.js'

export interface QueueOptions {
  /**
   * SQLite. `full` (the default): an enqueued job survives a power cut. `relaxed`: it survives a crash of the process, and a power
   * cut may take the last moments. On PostgreSQL the server's `synchronous_commit` says it.
   */
  durability?: 'full' | 'relaxed'
  /** The SQLite driver. Default: `node:sqlite` where Node has it, else `better-sqlite3`. */
  driver?: 'node:sqlite' | 'better-sqlite3'
  /** PostgreSQL: the schema that holds the tables. Default `public`; the URL may say it too, by `?schema=`. */
  schema?: string
  /** Where handlers' files go: a folder, or a store of your own. Default: a folder beside the database file, named after it. */
  files?: string | FileStore
  /** Anything with pino's methods. Default: warnings and errors to stderr. */
  logger?: Logger
  /** The language of the messages for end users. Default `en`. */
  locale?: 'en' | 'zh'
  /** How long finished jobs are kept. Default: succeeded 7 days, failed and canceled 30 days. */
  retention?: RetentionOptions
  /** A store of your own, in place of the one that the URL names. */
  store?: Store
}

const NAMES: OptionNames<Required<QueueOptions>> = {
  durability: true,
  driver: true,
  schema: true,
  files: true,
  logger: true,
  locale: true,
  retention: true,
  store: true,
}

/** What TypeScript refuses and JavaScript does not. */
export function checkQueueOptions(database: unknown, options: QueueOptions): void {
  checkOptionNames('the queue', options, NAMES)
  const { locale, durability, driver } = options
  const choices: [string, unknown, readonly string[]][] = [
    ['locale', locale, ['en', 'zh']],
    ['durability', durability, ['full', 'relaxed']],
    ['driver', driver, ['node:sqlite', 'better-sqlite3']],
  ]
  for (const [name, value, allowed] of choices) {
    if (value === undefined || allowed.includes(value as string)) continue
    throw new JobtableError('config_invalid', `${name} must be ${allowed.join(' or ')}, not ${JSON.stringify(value)}`)
  }
  if (typeof database !== 'string' && !isPool(database)) {
    throw new JobtableError('config_invalid', 'the database must be a URL, such as sqlite:app.db, or a pool of the package pg')
  }
}

const FILTER: OptionNames<Required<JobFilter>> = {
  ids: true,
  status: true,
  type: true,
  queue: true,
  idempotencyKey: true,
  held: true,
  errorContains: true,
  olderThanMs: true,
  youngerThanMs: true,
}
const PAGE = { limit: true, before: true } as const

/** A misspelt part of a filter would match every job. */
export function checkFilter(filter: JobFilter, page: { limit?: number; before?: string } = {}): void {
  checkOptionNames('a filter of jobs', filter, FILTER)
  checkOptionNames('a page of jobs', page, PAGE)
}
