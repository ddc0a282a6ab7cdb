/**
 * A PostgreSQL server of a test's own, that it may stop, restart and let replicate. A test that only needs a database takes
 * one of the shared server: see `database.ts`.
 *
 *     const server = await TestServer.create()
 *     await server.restart('immediate')
 *     const standby = await server.standby()
 *     await server.stop('immediate')
 *     await standby.query('SELECT pg_promote()')
 *
 * It is not a comfortable server: text does not sort by bytes, and the time zone is no whole number of hours away. Its data
 * is in the temporary folder and goes when `remove` is called or this process ends.
 */
import { execFile, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import pg from 'pg'
import { ACCOUNT, giveToServers } from '../account.js'
import { Keeper } from '../keeper.js'
import { freePort } from '../ports.js'
import { askedVersion, binariesOf } from './binaries.js'

const run = promisify(execFile)

/** `fast` ends sessions and writes everything out; `immediate` is a crash. */
export type StopMode = 'fast' | 'immediate'

const SIGNALS = { fast: 'SIGINT', immediate: 'SIGQUIT' } as const

const SETTINGS = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  max_connections: '200',
  timezone: 'Asia/Kathmandu',
  // Losing a test's data in a power cut is no loss.
  fsync: 'off',
  full_page_writes: 'off',
  // A standby that was made a moment ago still finds what it needs.
  wal_keep_size: '32MB',
}

export class TestServer {
  readonly port: number
  readonly #folder: string
  readonly #keeper: Keeper
  readonly #settings: Record<string, string>
  #process: ChildProcess | undefined
  #binaries: string | undefined
  #log = ''

  private constructor(port: number, folder: string, settings: Record<string, string>) {
    this.port = port
    this.#folder = folder
    this.#keeper = new Keeper(folder)
    this.#settings = settings
  }

  /** A running server. Settings are those of postgresql.conf. */
  static async create(settings: Record<string, string> = {}): Promise<TestServer> {
    const server = await TestServer.#at(settings)
    return server.#orRemove(async () => {
      await server.#initialise()
      await server.start()
      return server
    })
  }

  static async #at(settings: Record<string, string>): Promise<TestServer> {
    const folder = mkdtempSync(join(tmpdir(), 'jobtable-postgres-'))
    chmodSync(folder, 0o755)
    giveToServers(folder)
    return new TestServer(await freePort(), folder, settings)
  }

  async #orRemove<Result>(work: () => Promise<Result>): Promise<Result> {
    try {
      return await work()
    } catch (error) {
      await this.remove()
      throw error
    }
  }

  get #data(): string {
    return join(this.#folder, 'data')
  }

  #program(name: 'initdb' | 'postgres'): string {
    this.#binaries ??= binariesOf(askedVersion(), this.#folder)
    return join(this.#binaries, name)
  }

  async #initialise(): Promise<void> {
    const options = ['--auth=trust', '--username=postgres', '--no-sync', '--no-instructions', '--wal-segsize=1']
    const locale = ['--encoding=UTF8', '--locale=C', '--locale-provider=icu', '--icu-locale=en-US']
    await run(this.#program('initdb'), ['-D', this.#data, ...options, ...locale], { ...ACCOUNT, cwd: this.#folder })
  }

  /** Of a database on it; connects as the superuser, who needs no password. */
  url(database = 'postgres'): string {
    return `postgres://postgres@127.0.0.1:${this.port}/${encodeURIComponent(database)}`
  }

  /** Resolves when it takes connections. */
  async start(): Promise<void> {
    if (this.#process) return
    const settings = Object.entries({ ...SETTINGS, ...this.#settings }).flatMap(([name, value]) => ['-c', `${name}=${value}`])
    const server = spawn(this.#program('postgres'), ['-D', this.#data, '-p', String(this.port), ...settings], {
      ...ACCOUNT,
      cwd: this.#folder,
      // Ctrl-C is for the tests, which end their servers in order.
      detached: true,
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    this.#process = server
    this.#keeper.watch(server.pid)
    this.#log = ''
    await new Promise<void>((resolve, reject) => {
      server.on('error', reject)
      server.once('exit', () => {
        this.#process = undefined
        this.#keeper.watch(undefined)
        reject(new Error(`PostgreSQL ended:\n${this.#log}`))
      })
      server.stderr.setEncoding('utf8').on('data', (text: string) => {
        this.#log = (this.#log + text).slice(-10_000)
        if (/ready to accept (?:read-only )?connections/.test(this.#log)) resolve()
      })
    })
  }

  async stop(mode: StopMode = 'fast'): Promise<void> {
    if (!this.#process) return
    const exited = once(this.#process, 'exit')
    this.#process.kill(SIGNALS[mode])
    await exited
  }

  /** On the same port, with the same data. */
  async restart(mode: StopMode = 'fast'): Promise<void> {
    await this.stop(mode)
    await this.start()
  }

  /** The end of what it wrote to its log since its last start. */
  get log(): string {
    return this.#log
  }

  /** Runs one statement on a connection of its own. */
  async query<Row extends pg.QueryResultRow>(sql: string, values: unknown[] = [], database?: string): Promise<Row[]> {
    const client = new pg.Client({ connectionString: this.url(database) })
    await client.connect()
    try {
      return (await client.query<Row>(sql, values)).rows
    } finally {
      await client.end()
    }
  }

  /** A running server that follows this one, until `SELECT pg_promote()`. */
  async standby(): Promise<TestServer> {
    const { port } = this
    const standby = await TestServer.#at({ ...this.#settings, primary_conninfo: `host=127.0.0.1 port=${port} user=postgres` })
    return standby.#orRemove(async () => {
      await this.#copyTo(standby)
      standby.#write('standby.signal', '')
      await standby.start()
      return standby
    })
  }

  /** A base backup, made while this server runs. */
  async #copyTo(standby: TestServer): Promise<void> {
    const client = new pg.Client({ connectionString: this.url() })
    await client.connect()
    try {
      await client.query(`SELECT pg_backup_start('standby', true)`)
      await run('cp', ['-R', this.#data, standby.#data], { ...ACCOUNT, cwd: this.#folder })
      const { rows } = await client.query<{ label: string }>('SELECT labelfile AS label FROM pg_backup_stop(false)')
      standby.#write('backup_label', rows[0]!.label)
      rmSync(join(standby.#data, 'postmaster.pid'))
    } finally {
      await client.end()
    }
  }

  #write(name: string, text: string): void {
    const file = join(this.#data, name)
    writeFileSync(file, text, { mode: 0o600 })
    giveToServers(file)
  }

  /** Resolves when the standby shows everything that this server has committed until now. */
  async caughtUp(standby: TestServer): Promise<void> {
    const [now] = await this.query<{ lsn: string }>('SELECT pg_current_wal_lsn() AS lsn')
    for (;;) {
      const [row] = await standby.query<{ done: boolean }>('SELECT pg_last_wal_replay_lsn() >= $1::pg_lsn AS done', [now!.lsn])
      if (row!.done) return
    }
  }

  /** Ends it and removes its data. */
  async remove(): Promise<void> {
    await this.stop('immediate')
    await this.#keeper.release()
  }
}
