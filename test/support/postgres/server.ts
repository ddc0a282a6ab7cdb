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
 * It is not a comfortable server: text does not sort by bytes, and the time zone is no whole number of hours away.
 */
import { execFile } from 'node:child_process'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import pg from 'pg'
import { ACCOUNT } from '../account.js'
import { freePort } from '../ports.js'
import { Program, orRemove } from '../program.js'
import { askedVersion, binariesOf } from './binaries.js'

const run = promisify(execFile)

/** `fast` ends sessions and writes everything out; `immediate` is a crash. */
export type StopMode = 'fast' | 'immediate'

const SIGNALS = { fast: 'SIGINT', immediate: 'SIGQUIT' } as const
const READY = /ready to accept (?:read-only )?connections/

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
  readonly #program: Program
  readonly #settings: Record<string, string>
  #binaries: string | undefined

  private constructor(port: number, settings: Record<string, string>) {
    this.port = port
    this.#program = new Program('postgres')
    this.#settings = settings
  }

  /** A running server. Settings are those of postgresql.conf. */
  static async create(settings: Record<string, string> = {}): Promise<TestServer> {
    const server = new TestServer(await freePort(), settings)
    return orRemove(server.#program, async () => {
      await server.#initialise()
      await server.start()
      return server
    })
  }

  get #data(): string {
    return join(this.#program.folder, 'data')
  }

  #binary(name: 'initdb' | 'postgres'): string {
    this.#binaries ??= binariesOf(askedVersion(), this.#program.folder)
    return join(this.#binaries, name)
  }

  async #initialise(): Promise<void> {
    const options = ['--auth=trust', '--username=postgres', '--no-sync', '--no-instructions', '--wal-segsize=1']
    const locale = ['--encoding=UTF8', '--locale=C', '--locale-provider=icu', '--icu-locale=en-US']
    await this.#run(this.#binary('initdb'), '-D', this.#data, ...options, ...locale)
  }

  async #run(command: string, ...args: string[]): Promise<void> {
    await run(command, args, { ...ACCOUNT, cwd: this.#program.folder })
  }

  /** Of a database on it; connects as the superuser, who needs no password. */
  url(database = 'postgres'): string {
    return `postgres://postgres@127.0.0.1:${this.port}/${encodeURIComponent(database)}`
  }

  /** Resolves when it takes connections. */
  async start(): Promise<void> {
    if (this.#program.running) return
    const settings = Object.entries({ ...SETTINGS, ...this.#settings }).flatMap(([name, value]) => ['-c', `${name}=${value}`])
    await this.#program.start(this.#binary('postgres'), ['-D', this.#data, '-p', String(this.port), ...settings], READY)
  }

  async stop(mode: StopMode = 'fast'): Promise<void> {
    await this.#program.stop(SIGNALS[mode])
  }

  /** On the same port, with the same data. */
  async restart(mode: StopMode = 'fast'): Promise<void> {
    await this.stop(mode)
    await this.start()
  }

  /** The end of what it wrote to its log since its last start. */
  get log(): string {
    return this.#program.log
  }

  /** Runs one statement on a connection of its own. */
  async query<Row extends pg.QueryResultRow>(sql: string, values: unknown[] = [], database?: string): Promise<Row[]> {
    return query<Row>(this.url(database), sql, values)
  }

  /** A running server that follows this one, until `SELECT pg_promote()`. */
  async standby(): Promise<TestServer> {
    const primary = `host=127.0.0.1 port=${this.port} user=postgres`
    const standby = new TestServer(await freePort(), { ...this.#settings, primary_conninfo: primary })
    return orRemove(standby.#program, async () => {
      await this.#copyTo(standby)
      standby.#program.write('data/standby.signal', '')
      await standby.start()
      return standby
    })
  }

  /** A base backup, made while this server runs: its packages have no pg_basebackup. */
  async #copyTo(standby: TestServer): Promise<void> {
    const client = new pg.Client({ connectionString: this.url() })
    await client.connect()
    try {
      await client.query(`SELECT pg_backup_start('standby', true)`)
      await this.#run('cp', '-R', this.#data, standby.#data)
      const { rows } = await client.query<{ label: string }>('SELECT labelfile AS label FROM pg_backup_stop(false)')
      standby.#program.write('data/backup_label', rows[0]!.label)
      rmSync(join(standby.#data, 'postmaster.pid'))
    } finally {
      await client.end()
    }
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
    await this.#program.remove()
  }
}

/** Runs one statement on a connection of its own. */
export async function query<Row extends pg.QueryResultRow>(url: string, sql: string, values: unknown[] = []): Promise<Row[]> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query<Row>(sql, values)).rows
  } finally {
    await client.end()
  }
}
