/** The command line in this process with captured output, or in a process of its own. */
import { spawn, type ChildProcess } from 'node:child_process'
import { EventEmitter } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { PassThrough } from 'node:stream'
import { afterAll } from 'vitest'
import { groupBy } from '../../src/cli/group.js'
import type { Io } from '../../src/cli/io.js'
import { run } from '../../src/cli/run.js'
import { openDriver } from '../../src/stores/sqlite/driver.js'

const root = join(import.meta.dirname, '../..')

export interface Answer {
  code: number
  stdout: string
  stderr: string
}

export interface Around {
  /** What is typed or piped in. */
  stdin?: string
  /** Whether stdin is a terminal that can be asked on. */
  terminal?: boolean
  /** The width of the terminal that stdout is; absent for a pipe. */
  columns?: number
  env?: NodeJS.ProcessEnv
}

/** Runs one command line in this process. */
export async function cli(
  args: readonly string[],
  { stdin = '', terminal = false, columns, env = {} }: Around = {},
): Promise<Answer> {
  const answer: Answer = { code: -1, stdout: '', stderr: '' }
  const input = Object.assign(new PassThrough(), { isTTY: terminal })
  input.end(stdin)
  const io: Io = {
    stdin: input,
    stdout: {
      write: (text) => (answer.stdout += text),
      ...(columns !== undefined && { isTTY: true, columns, hasColors: () => false }),
    },
    stderr: { write: (text) => (answer.stderr += text) },
    env,
    signals: new EventEmitter(),
    now: Date.now,
  }
  answer.code = await run(args, io)
  return answer
}

/** The one JSON document that a command prints. */
export async function cliJson<T>(args: readonly string[], around?: Around): Promise<T> {
  const { stdout } = await cli([...args, '--json'], around)
  return JSON.parse(stdout) as T
}

mkdirSync(join(root, '.tmp'), { recursive: true })
const base = mkdtempSync(join(root, '.tmp/cli-'))
afterAll(() => rmSync(base, { recursive: true, force: true }))

/** Inside the project, so that modules in it find jobtable by its own name. */
export function temporaryFolder(): string {
  return mkdtempSync(join(base, 'test-'))
}

export function write(folder: string, name: string, text: string): string {
  writeFileSync(join(folder, name), text)
  return name
}

/** What any SQL client can do to the file. */
export function sql(file: string, ...statements: string[]): unknown[][] {
  const driver = openDriver(file)
  try {
    return statements.flatMap((statement) => {
      if (/^\s*select/i.test(statement)) return driver.prepare(statement).all()
      driver.exec(statement)
      return []
    })
  } finally {
    driver.close()
  }
}

export type Columns = Readonly<Record<string, string | number | null>>

/** A database to point the command line at, and what any SQL client can do to it. */
export interface Place {
  /** The options that name it. */
  db: readonly string[]
  /** What the command line calls it. */
  name: string
  /** Times come as milliseconds since 1970, JSON as text. */
  sql(statement: string): Promise<unknown[][]>
  /** Times are milliseconds since 1970, JSON is text. */
  insert(table: 'jobs' | 'job_events' | 'job_steps' | 'job_streams' | 'job_workers', ...rows: Columns[]): Promise<void>
}

export async function sqlitePlace(): Promise<Place> {
  const file = join(temporaryFolder(), 'app.db')
  return {
    db: ['--db', file],
    name: `sqlite:${file}`,
    sql: async (statement) => sql(file, statement),
    insert: async (table, ...rows) => void sql(file, ...insertions(table, rows, (_, value) => literal(value))),
  }
}

export function literal(value: string | number | null): string {
  return typeof value === 'string' ? `'${value.replaceAll("'", "''")}'` : String(value)
}

/** One statement for each shape of rows. */
export function insertions(
  table: string,
  rows: readonly Columns[],
  write: (column: string, value: string | number | null) => string,
): string[] {
  const shapes = groupBy(rows, (row) => Object.keys(row).join(', '))
  return [...shapes].map(([columns, alike]) => {
    const values = alike.map(
      (row) =>
        `(${Object.entries(row)
          .map(([column, value]) => write(column, value))
          .join(', ')})`,
    )
    return `INSERT INTO ${table} (${columns}) VALUES ${values.join(', ')}`
  })
}

/** What some tests put into jobs and URLs, and no command may print. */
export const SECRETS = /hunter2|sk_live_x1|abc123|pw42/

export function job(id: string, columns: Columns): Columns {
  return { id, type: 'mail', payload: '{}', status: 'pending', ...columns }
}

/** Accepts any payload. */
export const SCHEMA = `{ '~standard': { version: 1, vendor: 'test', validate: (value) => ({ value }) } }`

/** A module for `work` whose type `mail` has this handler. */
export function moduleOf(run: string, { url = '', before = '' } = {}): string {
  return `import { jobtable } from 'jobtable'
${before}
export const queue = jobtable(${url})
export const mail = queue.define('mail', { payload: ${SCHEMA}, idempotency: { none: 'test' }, run: ${run} })
`
}

export interface Running {
  child: ChildProcess
  /** What both streams have said so far, in order. */
  lines: readonly string[]
  /** Resolves with the first line of either stream that matches, also one that has passed already. Rejects when the process ends first. */
  line(pattern: RegExp): Promise<string>
  /** Resolves when the process has ended and its output is complete. */
  ended: Promise<Answer>
}

/** Runs the built program in a process of its own. The module it works on can get messages by IPC. */
export function spawnCli(folder: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): Running {
  const { JOBTABLE_URL: _, NODE_OPTIONS: __, DEBUG: ___, ...clean } = process.env
  const child = spawn(process.execPath, [join(root, 'dist/cli/main.js'), ...args], {
    cwd: folder,
    env: { ...clean, ...env },
    stdio: ['pipe', 'pipe', 'pipe', 'ipc'],
  })
  const answer: Answer = { code: -1, stdout: '', stderr: '' }
  const lines: string[] = []
  const news = new EventEmitter().setMaxListeners(100)
  for (const name of ['stdout', 'stderr'] as const) {
    createInterface({ input: child[name]! }).on('line', (line) => {
      answer[name] += `${line}\n`
      lines.push(line)
      news.emit('line')
    })
  }
  const ended = new Promise<Answer>((resolve) => {
    child.once('close', (code, signal) => {
      answer.code = code ?? -1
      if (signal) answer.stderr += `killed by ${signal}\n`
      resolve(answer)
      news.emit('end')
    })
  })
  afterAll(() => void child.kill('SIGKILL'))
  const line = (pattern: RegExp): Promise<string> =>
    new Promise((resolve, reject) => {
      const look = (): void => {
        const found = lines.find((text) => pattern.test(text))
        if (found !== undefined) resolve(found)
      }
      news.on('line', look)
      news.once('end', () => reject(new Error(`the process ended without a line ${pattern}: ${JSON.stringify(answer)}`)))
      look()
    })
  return { child, lines, line, ended }
}
