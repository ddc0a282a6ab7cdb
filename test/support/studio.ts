/** The example product as `npm start` runs it, in a folder of its own. */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const main = join(import.meta.dirname, '../../examples/studio/main.ts')
const tsx = import.meta.resolve('tsx')

/** What the environment of the tests says of the databases and services of whoever runs them is not the product's. */
const NOT_OURS = new Set(['JOBTABLE_URL', 'OPENAI_API_KEY', 'OPENAI_BASE_URL', 'SMTP_URL', 'PORT'])

export class Studio {
  readonly url: string
  readonly folder: string
  /** What it has printed, complete once all of its processes are gone. */
  readonly gone: Promise<string>
  readonly #process: ChildProcess

  private constructor(url: string, folder: string, child: ChildProcess, log: () => string) {
    this.url = url
    this.folder = folder
    this.#process = child
    // All of them write to its pipes, which close after the last.
    this.gone = once(child, 'close').then(log)
  }

  /** Resolves once it answers. Give the folder of one that was stopped to start it again. */
  static async start(env: NodeJS.ProcessEnv = {}, folder = mkdtempSync(join(tmpdir(), 'jobtable-studio-'))): Promise<Studio> {
    const own = Object.fromEntries(Object.entries(process.env).filter(([name]) => !NOT_OURS.has(name)))
    const child = spawn(process.execPath, ['--import', tsx, main], {
      env: { ...own, STUDIO_FOLDER: folder, ...env },
      // Ctrl-C is for the tests, which stop it in order.
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let log = ''
    const url = await new Promise<string>((resolve, reject) => {
      const read = (text: string): void => {
        log += text
        const [, found] = /The studio is at (\S+)/.exec(log) ?? []
        if (found) resolve(found)
      }
      child.stdout.setEncoding('utf8').on('data', read)
      child.stderr.setEncoding('utf8').on('data', (text: string) => {
        read(text)
        process.stderr.write(text)
      })
      child.once('close', (code) => reject(new Error(`the studio ended with ${code}:\n${log}`)))
    })
    return new Studio(url, folder, child, () => log)
  }

  /** Of the process that supervises. */
  get pid(): number {
    return this.#process.pid!
  }

  /** Ends it as SIGTERM does, and keeps what it has stored. Resolves once all of its processes are gone. */
  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    if (this.#process.exitCode === null && this.#process.signalCode === null) this.#process.kill(signal)
    await this.gone
  }

  async remove(): Promise<void> {
    await this.stop()
    rmSync(this.folder, { recursive: true, force: true })
  }

  /** Somebody who has come for the first time. */
  visitor(): Visitor {
    return new Visitor(this.url)
  }
}

/** A visitor without a browser: what the page's script would ask for. */
export class Visitor {
  readonly #url: string
  #cookies = new Map<string, string>()

  constructor(url: string) {
    this.#url = url
  }

  get #cookie(): string {
    return [...this.#cookies].map(([name, value]) => `${name}=${value}`).join('; ')
  }

  async fetch(path: string, init: RequestInit = {}): Promise<Response> {
    const headers = new Headers(init.headers)
    headers.set('cookie', this.#cookie)
    const response = await fetch(this.#url + path, { ...init, headers })
    for (const cookie of response.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(cookie)!
      this.#cookies.set(name!, value!)
    }
    return response
  }

  post(path: string, body: object): Promise<Response> {
    return this.fetch(path, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) })
  }

  /** As if the product were called so, which fetch does not allow; answers with the status. */
  async postAs(host: string, path: string, body: object): Promise<number> {
    const headers = { host, cookie: this.#cookie, 'content-type': 'application/json' }
    const request = httpRequest(this.#url + path, { method: 'POST', headers }).end(JSON.stringify(body))
    const [response] = (await once(request, 'response')) as [IncomingMessage]
    response.resume()
    return response.statusCode!
  }
}
