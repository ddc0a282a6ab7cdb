/** The document as it is being written: what is in the fields, and what the server has. */
import type { Say } from '../words.js'
import { byId } from './dom.js'
import { act, type Answer, type State } from './server.js'

export class Draft {
  readonly #title = byId('title', HTMLInputElement)
  readonly #text = byId('text', HTMLTextAreaElement)
  readonly #note = byId('saved', HTMLElement)
  readonly #say: Say
  #saved: State['document'] | undefined
  #saving: Promise<Answer | undefined> = Promise.resolve(undefined)

  constructor(say: Say) {
    this.#say = say
    for (const field of [this.#title, this.#text]) field.addEventListener('input', () => this.#showNote())
  }

  get version(): number {
    return this.#saved?.version ?? 0
  }

  /** Takes what the server has, unless something newer is being written here. */
  show(document: State['document']): void {
    if (document.version === this.#saved?.version || this.#isDirty) return
    this.#take(document)
    this.#title.value = document.title
    this.#text.value = document.text
    this.#showNote()
  }

  /** Makes sure that the server has what is in the fields; one save after another, for each builds on the one before. */
  save(): Promise<Answer | undefined> {
    this.#saving = this.#saving.catch(() => {}).then(() => this.#saveNow())
    return this.#saving
  }

  async #saveNow(): Promise<Answer | undefined> {
    if (!this.#isDirty) return undefined
    const answer = await act('document', { base: this.version, title: this.#title.value, text: this.#text.value })
    this.#take(answer.document)
    this.#showNote()
    return answer
  }

  get #isDirty(): boolean {
    return this.#saved !== undefined && (this.#title.value.trim() !== this.#saved.title || this.#text.value !== this.#saved.text)
  }

  #take(document: State['document']): void {
    // A text field has its line ends in one form.
    this.#saved = { ...document, text: document.text.replaceAll('\r\n', '\n') }
  }

  #showNote(): void {
    this.#note.textContent = this.#isDirty ? this.#say('unsaved') : this.#say('saved', { version: this.version })
  }
}
