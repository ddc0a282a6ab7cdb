/** One run of one command: its database, its options that all commands share, and where its output goes. */
import type { Command } from 'commander'
import { colored, type Layout } from './format.js'
import type { Io } from './io.js'
import { inSchema, toUrl } from './database.js'

export interface Globals {
  db?: string
  schema?: string
  json?: boolean
  verbose?: boolean
}

export interface Session {
  readonly io: Io
  readonly url: string
  /** The value of `--db`, if it was given. */
  readonly db: string | undefined
  /** The value of `--schema`, if it was given. */
  readonly schema: string | undefined
  readonly json: boolean
  readonly verbose: boolean
  readonly layout: Layout
  /** To stdout. */
  print(text: string): void
  /** To stdout, as the one JSON document that the command answers with. */
  printJson(value: unknown): void
  /** To stderr: what people should know and programs need not parse. */
  note(text: string): void
  bold(text: string): string
}

const DEFAULT_URL = 'sqlite:jobtable.db'
/** A schema is asked for and no database is named: the one of PGHOST and its like. */
const DEFAULT_WITH_SCHEMA = 'postgres:///'

export function openSession(io: Io, command: Command): Session {
  const { db, schema, json = false, verbose = false } = command.optsWithGlobals<Globals>()
  const { stdout, stderr, env } = io
  const color = stdout.isTTY === true && (stdout.hasColors?.() ?? false)
  const named = db ?? (env['JOBTABLE_URL'] || undefined)
  const url = named === undefined ? (schema === undefined ? DEFAULT_URL : DEFAULT_WITH_SCHEMA) : toUrl(named)
  return {
    io,
    url: schema === undefined ? url : inSchema(url, schema),
    db,
    schema,
    json,
    verbose: isVerbose(verbose, env),
    layout: { color, width: stdout.isTTY ? stdout.columns : undefined },
    print: (text) => void stdout.write(text),
    printJson: (value) => void stdout.write(`${JSON.stringify(value, null, 2)}\n`),
    note: (text) => void stderr.write(`jobtable: ${text}\n`),
    bold: (text) => colored(text, 'bold', color),
  }
}

export function isVerbose(option: boolean, env: NodeJS.ProcessEnv): boolean {
  return option || Boolean(env['DEBUG'])
}

/** Makes a command's function into what commander calls; the function answers with the exit code. */
export type On = <Args extends unknown[]>(
  run: (session: Session, ...args: Args) => Promise<number>,
) => (this: Command, ...args: Args) => Promise<void>
