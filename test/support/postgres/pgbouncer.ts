/**
 * PgBouncer in front of a server, in transaction mode: each transaction may run in another session than the one before, so
 * whatever a client leaves in its session is not there any more, or is somebody else's. It comes from the system's packages.
 */
import { spawnSync } from 'node:child_process'
import { freePort } from '../ports.js'
import { Program, orRemove } from '../program.js'

/** Debian keeps it where only root looks. */
const COMMAND = ['pgbouncer', '/usr/sbin/pgbouncer'].find((command) => spawnSync(command, ['--version']).status === 0)

/** Why there is no PgBouncer here; undefined when there is one. In CI there must be one. */
export function absence(): string | undefined {
  if (COMMAND !== undefined) return undefined
  const reason = 'pgbouncer is not installed: apt-get install pgbouncer'
  if (process.env['CI']) throw new Error(reason)
  return reason
}

const quoted = (value: string): string => `'${decodeURIComponent(value).replaceAll("'", "''")}'`

export class PgBouncer {
  readonly #port: number
  readonly #program: Program

  private constructor(port: number) {
    this.#port = port
    this.#program = new Program('pgbouncer')
  }

  /** In front of the server at this URL, all of whose databases it serves. */
  static async create(server: string): Promise<PgBouncer> {
    const { hostname, port, username, password } = new URL(server)
    const bouncer = new PgBouncer(await freePort())
    const file = bouncer.#program.write(
      'pgbouncer.ini',
      `[databases]
* = host=${quoted(hostname)} port=${port || 5432} user=${quoted(username)}${password && ` password=${quoted(password)}`}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${bouncer.#port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
; Takes another session as often as it can.
server_round_robin = 1
`,
    )
    return orRemove(bouncer.#program, async () => {
      await bouncer.#program.start(COMMAND ?? 'pgbouncer', [file], /process up/)
      return bouncer
    })
  }

  /** The same database through it, for a URL of the server. */
  url(database: string): string {
    return Object.assign(new URL(database), { hostname: '127.0.0.1', port: String(this.#port) }).href
  }

  async remove(): Promise<void> {
    await this.#program.remove()
  }
}
