/** The test's end of a process: starts it, orders it about, and always ends it. `process.ts` is the other end. */
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, onTestFinished } from 'vitest'
import type { WorkerOptions } from '../../../src/index.js'
import { bundle, type Bundle } from '../../support/bundle.js'
import type { Answers, Message, Order } from './messages.js'
import { until, type Site } from './place.js'

let built: Bundle

beforeAll(async () => {
  built = await bundle('faults', fileURLToPath(new URL('./process.ts', import.meta.url)))
})
afterAll(() => built.remove())

/** Waits are on messages; this only ends a test that would hang. Milliseconds. */
const LONGEST_WAIT_MS = 40_000

type Of<Type extends Message['type']> = Message & { type: Type }

export class Child {
  readonly #site: Site
  readonly #process: ChildProcess
  readonly #messages: Message[] = []
  readonly #exit: Promise<unknown>
  #stderr = ''
  #answers = 0

  constructor(site: Site, env: NodeJS.ProcessEnv) {
    this.#site = site
    this.#process = fork(built.script, [site.url, site.folder], {
      execArgv: [],
      env: { ...process.env, ...env },
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    })
    this.#process.setMaxListeners(0)
    this.#exit = once(this.#process, 'exit')
    this.#process.stderr?.setEncoding('utf8').on('data', (text: string) => (this.#stderr += text))
    this.#process.on('message', (message: Message) => this.#messages.push(message))
  }

  get pid(): number {
    return this.#process.pid!
  }

  /** Everything that this process has logged as an error or told its error listeners. */
  get errors(): string[] {
    return this.#messages.filter((message) => message.type === 'error').map(({ message }) => message)
  }

  /** The messages so far that are of this type. */
  all<Type extends Message['type']>(type: Type): Of<Type>[] {
    return this.#messages.filter((message): message is Of<Type> => message.type === type)
  }

  async order<Kind extends Order['do']>(order: Order & { do: Kind }): Promise<Answers[Kind]> {
    const number = this.#answers++
    // One that has ended tells why in what follows.
    if (this.#process.connected) this.#process.send(order)
    const reply = await this.#wait((message) => message.type === 'answer' || message.type === 'refused', number, order.do)
    if (reply.type === 'answer') return reply.answer as Answers[Kind]
    throw new Error(`the process refused ${order.do}: ${reply.type === 'refused' ? reply.message : ''}`)
  }

  /** Starts a worker and answers with its id. */
  async work(options: WorkerOptions): Promise<string> {
    return (await this.order({ do: 'work', options })).workerId
  }

  /** The first message of this type and with these members, be it in the past or to come. */
  saw<Type extends Message['type']>(type: Type, members: Partial<Of<Type>> = {}): Promise<Of<Type>> {
    const fits = (message: Message): boolean =>
      message.type === type && Object.entries(members).every(([name, value]) => message[name as keyof Message] === value)
    return this.#wait(fits, 0, `${type} ${JSON.stringify(members)}`) as Promise<Of<Type>>
  }

  /** Asks it to stop, as a deploy does. */
  terminate(): void {
    this.#process.kill('SIGTERM')
  }

  /** Freezes it, not in the middle of a write, at a moment that the condition holds. */
  async freeze(condition: () => boolean | Promise<boolean> = () => true): Promise<void> {
    await until('the process is frozen as the test wants it', async () => {
      this.#process.kill('SIGSTOP')
      await sleep(20) // The signal has no answer.
      if ((await this.#site.writable()) && (await condition())) return true
      this.thaw()
      return false
    })
  }

  thaw(): void {
    this.#process.kill('SIGCONT')
  }

  /** Ends the process as a crash would. */
  async kill(): Promise<void> {
    this.#process.kill('SIGKILL')
    await this.#exit
  }

  /** Resolves when the process has ended by itself. */
  async exited(): Promise<number | null> {
    await this.#exit
    return this.#process.exitCode
  }

  /** Waits for the message after `skip` others that fit. */
  #wait(fits: (message: Message) => boolean, skip: number, what: string): Promise<Message> {
    return new Promise((resolve, reject) => {
      const look = (): void => {
        const found = this.#messages.filter(fits)[skip]
        if (found) end(() => resolve(found))
      }
      const gone = (): void => end(() => reject(new Error(`process ${this.pid} ended before: ${what}\n${this.said()}`)))
      const timer = setTimeout(
        () => end(() => reject(new Error(`process ${this.pid} never told: ${what}\n${this.said()}`))),
        LONGEST_WAIT_MS,
      )
      const end = (finish: () => void): void => {
        clearTimeout(timer)
        this.#process.off('message', look).off('exit', gone)
        finish()
      }
      this.#process.on('message', look).on('exit', gone)
      look()
      if (!this.#process.connected) gone()
    })
  }

  /** Its last messages, and what it wrote to stderr. */
  said(): string {
    return [...this.#messages.slice(-30).map((message) => JSON.stringify(message)), this.#stderr].join('\n')
  }
}

/** Starts a process on this database. It is ended with the test, whatever became of it. */
export async function startChild(site: Site, env: NodeJS.ProcessEnv = {}): Promise<Child> {
  const child = new Child(site, env)
  onTestFinished(() => child.kill())
  await child.saw('ready')
  return child
}

export function startChildren(site: Site, count: number): Promise<Child[]> {
  return Promise.all(Array.from({ length: count }, () => startChild(site)))
}
