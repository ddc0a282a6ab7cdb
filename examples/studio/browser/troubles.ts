/** The panel of troubles: what the next request to the model meets, and the end of the worker. */
import type { Say, Word } from '../words.js'
import { byId, make } from './dom.js'
import type { State } from './server.js'

const KINDS = ['none', 'rate_limit', 'overloaded', 'cut', 'quota'] as const

export class Troubles {
  readonly #say: Say
  readonly #buttons = new Map<string, HTMLButtonElement>()
  readonly #worker = byId('worker', HTMLElement)

  constructor(say: Say, { choose, kill }: { choose(kind: string): void; kill(): void }) {
    this.#say = say
    for (const kind of KINDS) {
      const button = make('button', 'choice', say(kind satisfies Word))
      button.type = 'button'
      button.dataset['kind'] = kind
      button.addEventListener('click', () => choose(kind))
      this.#buttons.set(kind, button)
    }
    byId('troubles', HTMLElement).replaceChildren(...this.#buttons.values())
    byId('kill', HTMLElement).addEventListener('click', kill)
  }

  show({ kind, worker }: State['troubles']): void {
    for (const [name, button] of this.#buttons) button.setAttribute('aria-pressed', String(name === kind))
    this.#worker.textContent = worker === null ? this.#say('workerAway') : this.#say('workerPid', { worker })
  }
}
