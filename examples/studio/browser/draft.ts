/** The document as it is being written: what is in the fields, and what the server has. */
import type { Say } from '../words.js'
import { byId } from './dom.js'
import { act, Refused, type Answer, type State } from './server.js'

/** What is in the fields while another page is shown in this tab, and the version that it builds on. */
interface Kept {
  version: number
  title: string
  text: string
}

const KEY = 'studio-draft'

/** The document cannot be saved without a title. */
export class Untitled extends Error {
  override readonly name = 'Untitled'
}

export class Draft {
  readonly #title = byId('title', HTMLInputElement)
  readonly #text = byId('text', HTMLTextAreaElement)
  readonly #note = byId('saved', HTMLElement)
  readonly #say: Say
  #saved: State['document'] | undefined
  /** Somebody has saved another version since, so this one cannot be. */
  #isOutdated = false
  #saving: Promise<Answer | undefined> = Promise.resolve(undefined)

  constructor(say: Say) {
    this.#say = say
    for (const field of [this.#title, this.#text]) field.addEventListener('input', () => this.#showNote())
    // Also for a link that is followed, and for a phone that ends the page behind its back.
    addEventListener('pagehide', () => this.#keep())
    document.addEventListener('visibilitychange', () => this.#keep())
  }

  get version(): number {
    return this.#saved?.version ?? 0
  }

  /** Takes what the server has, unless something newer is being written here. */
  show(document: State['document']): void {
    if (document.version === this.#saved?.version || this.#isDirty) return
    const kept = this.#saved ? undefined : taken()
    this.#take(document)
    this.#isOutdated = kept !== undefined && kept.version !== document.version
    this.#title.value = (kept ?? document).title
    this.#text.value = (kept ?? document).text
    this.#showNote()
  }

  /** Makes sure that the server has what is in the fields; one save after another, for each builds on the one before. Rejects with `Untitled`. */
  save(): Promise<Answer | undefined> {
    this.#saving = this.#saving.catch(() => {}).then(() => this.#saveNow())
    return this.#saving
  }

  async #saveNow(): Promise<Answer | undefined> {
    if (!this.#isDirty) return undefined
    if (this.#title.value.trim() === '') {
      this.#title.focus()
      throw new Untitled()
    }
    // What it builds on was saved elsewhere: only a page that shows that may save over it.
    if (this.#isOutdated) throw new Refused(409)
    const answer = await act('document', { base: this.version, title: this.#title.value, text: this.#text.value }).catch(
      (error: unknown) => {
        this.#isOutdated = error instanceof Refused && error.status === 409
        this.#showNote()
        throw error
      },
    )
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
    const { version } = this
    this.#note.textContent = this.#say(!this.#isDirty ? 'saved' : this.#isOutdated ? 'changedElsewhere' : 'unsaved', { version })
  }

  /** An outdated one is shown once more, and not for ever. */
  #keep(): void {
    if (!this.#isDirty || this.#isOutdated) return sessionStorage.removeItem(KEY)
    const kept: Kept = { version: this.version, title: this.#title.value, text: this.#text.value }
    sessionStorage.setItem(KEY, JSON.stringify(kept))
  }
}

function taken(): Kept | undefined {
  const kept = sessionStorage.getItem(KEY)
  sessionStorage.removeItem(KEY)
  return kept === null ? undefined : (JSON.parse(kept) as Kept)
}
