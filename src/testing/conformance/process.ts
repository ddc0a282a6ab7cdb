/** The parent's end of a child process: `child.ts` is the other one. */
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Answers, FromChild, Order } from './orders.js'
import type { ProcessModule } from './suite.js'

export class Child {
  readonly #process: ChildProcess
  readonly #acknowledged: string[] = []
  #errors = ''

  constructor({ module, args, execArgv = [] }: ProcessModule) {
    const script = fileURLToPath(new URL(`./child${extname(import.meta.url)}`, import.meta.url))
    this.#process = fork(script, [module, JSON.stringify(args)], {
      execArgv: [...execArgv],
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    })
    this.#process.stderr?.setEncoding('utf8').on('data', (text: string) => (this.#errors += text))
    this.#process.on('message', (message: FromChild) => {
      if (message.type === 'acknowledged') this.#acknowledged.push(...message.ids)
    })
  }

  /** The ids whose insertion this process has been told of so far. */
  get acknowledged(): readonly string[] {
    return this.#acknowledged
  }

  async order<Kind extends Order['do']>(order: Order & { do: Kind }): Promise<Answers[Kind]> {
    const answer = this.next('answer')
    this.#process.send(order)
    // The child answers an order of a kind with the answer of that kind.
    return (await answer).answer as Answers[Kind]
  }

  /** Waits for a message; a child that fails or ends before it rejects with what it said. */
  async next<Type extends FromChild['type']>(type: Type): Promise<FromChild & { type: Type }> {
    return new Promise((resolve, reject) => {
      const settle = (finish: () => void): void => {
        this.#process.off('message', onMessage)
        this.#process.off('exit', onExit)
        finish()
      }
      const onMessage = (message: FromChild): void => {
        if (message.type === 'failed') settle(() => reject(new Error(`a process failed: ${message.message}`)))
        else if (message.type === type) settle(() => resolve(message as FromChild & { type: Type }))
      }
      const onExit = (code: number | null): void => {
        settle(() => reject(new Error(`a process ended with code ${code}: ${this.#errors}`)))
      }
      this.#process.on('message', onMessage).on('exit', onExit)
    })
  }

  /** Ends the process as a crash would. */
  async kill(): Promise<void> {
    if (this.#process.exitCode !== null || this.#process.signalCode !== null) return
    const exited = once(this.#process, 'exit')
    this.#process.kill('SIGKILL')
    await exited
  }
}

export async function startChild(module: ProcessModule): Promise<Child> {
  const child = new Child(module)
  try {
    await child.next('ready')
  } catch (error) {
    await child.kill()
    throw error
  }
  return child
}
