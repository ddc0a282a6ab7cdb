/** What came of a click where no job shows it: in a fixed place, which is in sight wherever the page is scrolled to. */
import { byId } from './dom.js'

export class Notice {
  readonly #box = byId('problem', HTMLElement)
  readonly #text = byId('problem-text', HTMLElement)

  constructor() {
    byId('problem-close', HTMLElement).addEventListener('click', () => this.hide())
  }

  show(text: string, kind: 'problem' | 'note' = 'problem'): void {
    this.#box.className = kind
    this.#text.textContent = text
    this.#box.hidden = false
  }

  hide(): void {
    this.#box.hidden = true
    this.#text.textContent = ''
  }
}
