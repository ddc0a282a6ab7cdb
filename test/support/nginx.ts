/** nginx in front of a server, with its own defaults, which gather what the server sends. It comes from the system's packages. */
import { spawnSync } from 'node:child_process'
import { freePort } from './ports.js'
import { orRemove, Program } from './program.js'

/** Debian keeps it where only root looks. */
const COMMAND = ['nginx', '/usr/sbin/nginx'].find((command) => spawnSync(command, ['-v']).status === 0)

/** Why there is no nginx here; undefined when there is one. In CI there must be one. */
export function absence(): string | undefined {
  if (COMMAND !== undefined) return undefined
  const reason = 'nginx is not installed: apt-get install nginx-light'
  if (process.env['CI']) throw new Error(reason)
  return reason
}

export class Nginx {
  readonly port: number
  readonly #program: Program

  private constructor(port: number) {
    this.port = port
    this.#program = new Program('nginx')
  }

  /** In front of this port of 127.0.0.1, perhaps with more directives for all that it passes on. */
  static async create(target: number, directives = ''): Promise<Nginx> {
    const nginx = new Nginx(await freePort())
    const { folder } = nginx.#program
    const places = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) => `${name}_temp_path ${folder}/${name};`)
    const file = nginx.#program.write(
      'nginx.conf',
      `daemon off;
master_process off;
pid ${folder}/nginx.pid;
error_log stderr notice;
events {}
http {
  access_log off;
  ${places.join('\n  ')}
  gzip on;
  gzip_types *;
  gzip_proxied any;
  server {
    listen 127.0.0.1:${nginx.port};
    location / { proxy_pass http://127.0.0.1:${target}; ${directives} }
  }
}
`,
    )
    return orRemove(nginx.#program, async () => {
      await nginx.#program.start(COMMAND ?? 'nginx', ['-e', 'stderr', '-c', file], /getrlimit/)
      return nginx
    })
  }

  async remove(): Promise<void> {
    await this.#program.remove()
  }
}
