/**
 * The element `<job-progress>`: a job's progress for any page, without a framework.
 *
 *   <job-progress job="report-1" path="/jobs" token="..." label="Export"></job-progress>
 */
import { JobsError, type JobsClient, type PublicJob } from '../client/index.js'
import { handleOf, type GetToken, type Handle } from '../client/handle.js'
import { faceOf, type Face } from './face.js'
import { actionsOf, isSigned, shareToken } from './tokens.js'
import { createView, type View } from './view.js'
import { languageOf, wordsOf, type Language, type Words } from './words.js'

/** A `<job-progress>`. It fires `jobchange` with each snapshot and `joberror` when nothing more comes; both have it as `detail`. */
export interface JobProgressElement extends HTMLElement {
  /** As of `jobsClient`. Elements with the same function share a connection. */
  getToken: GetToken
  /** The newest snapshot. It can be set, with one that came with the page. */
  snapshot: PublicJob | undefined
}

declare global {
  interface HTMLElementTagNameMap {
    'job-progress': JobProgressElement
  }
}

type Button = 'cancel' | 'download'
const BUTTONS = 'cancel download'

/** What was asked for in vain, and why. */
interface InVain {
  button: Button
  isForbidden: boolean
}

/** Defines the element, unless that has been done, or there is no document, as on a server. */
export function defineJobProgress(name = 'job-progress'): void {
  if (typeof customElements === 'undefined' || customElements.get(name)) return
  customElements.define(name, createClass())
}

/** Within a function, for there is no HTMLElement on a server. */
function createClass(): CustomElementConstructor {
  return class extends HTMLElement implements JobProgressElement {
    static readonly observedAttributes = ['job', 'path', 'token', 'lang', 'label', 'buttons']
    readonly #view: View
    /** Asked for when the attribute `token` says it, so that it is always the same function. */
    readonly #tokenOfAttribute = (): string | null => this.getAttribute('token')
    #getToken: GetToken
    #snapshot: PublicJob | undefined
    #error: JobsError | undefined
    #using: { handle: Handle; client: JobsClient; stop: () => void } | undefined
    #inVain: InVain | undefined
    #isOffline = false
    #isChanging = false
    #timer: ReturnType<typeof setTimeout> | undefined

    constructor() {
      super()
      this.#view = createView(this.attachShadow({ mode: 'open' }), (button) => void this.#act(button))
    }

    get getToken(): GetToken {
      return this.#getToken
    }
    set getToken(getToken: GetToken) {
      this.#getToken = getToken
      this.#change()
    }

    get snapshot(): PublicJob | undefined {
      return this.#snapshot
    }
    set snapshot(snapshot: PublicJob | undefined) {
      this.#snapshot = snapshot
      this.#change()
    }

    connectedCallback(): void {
      this.#adopt('getToken')
      this.#adopt('snapshot')
      this.#change()
    }
    disconnectedCallback(): void {
      this.#change()
    }
    attributeChangedCallback(): void {
      this.#change()
    }

    /** What is set together is seen to together. */
    #change(): void {
      if (this.#isChanging) return
      this.#isChanging = true
      queueMicrotask(() => {
        this.#isChanging = false
        this.#follow()
      })
    }

    #follow(): void {
      this.#using?.stop()
      this.#using = undefined
      clearTimeout(this.#timer)
      const id = this.getAttribute('job')
      if (this.#snapshot?.id !== id) this.#snapshot = undefined
      this.#error = undefined
      this.#inVain = undefined
      this.#isOffline = false
      if (!this.isConnected) return
      if (id) this.#watch(id)
      this.#show()
    }

    #watch(id: string): void {
      const path = this.getAttribute('path') ?? undefined
      const token = this.#getToken ? null : this.getAttribute('token')
      const shared = token !== null && isSigned(token) ? shareToken(path ?? '', id, token) : undefined
      const getToken = this.#getToken ?? shared?.getToken ?? (token === null ? undefined : this.#tokenOfAttribute)
      const handle = handleOf({ path, getToken, locale: this.#language })
      const { client, giveBack } = handle.use()
      const stop = client.watch(
        id,
        (job) => {
          this.#snapshot = job
          this.#tell('jobchange', job)
        },
        {
          onError: (error) => {
            this.#error = error
            this.#tell('joberror', error)
          },
          onConnection: (isLive) => {
            this.#isOffline = !isLive
            this.#show()
          },
          ...(this.#snapshot && { initial: this.#snapshot }),
        },
      )
      this.#using = { handle, client, stop: () => (stop(), giveBack(), shared?.leave()) }
    }

    #tell(name: string, detail: PublicJob | JobsError): void {
      this.#show()
      this.dispatchEvent(new CustomEvent(name, { detail }))
    }

    get #language(): Language {
      const around = this.closest<HTMLElement>('[lang]') ?? document.documentElement
      return languageOf(around.lang, navigator.language)
    }

    #show(): void {
      clearTimeout(this.#timer)
      const language = this.#language
      const words = wordsOf(language)
      const face = faceOf(this.#snapshot, this.#error, words, Date.now())
      const buttons = this.#buttons
      // What could not be canceled and is over by now says that itself.
      const isTold = this.#inVain && !(this.#inVain.button === 'cancel' && this.#snapshot?.final)
      this.#view.show(isTold ? told(face, this.#inVain!, words) : face, words, {
        language,
        name: this.getAttribute('label'),
        buttons,
        isOffline: this.#isOffline && !this.#snapshot?.final && !this.#error,
      })
      if (face.ticks) this.#timer = setTimeout(() => this.#show(), 1_000)
    }

    /** Those that are permitted, as far as the token tells. */
    get #buttons(): ReadonlySet<string> {
      const wanted = (this.getAttribute('buttons') ?? BUTTONS).split(/\s+/)
      const permitted = actionsOf(this.#getToken ? this.#using?.handle.token : this.getAttribute('token'))
      const isForbidden = (button: string): boolean => !!this.#inVain?.isForbidden && this.#inVain.button === button
      return new Set(wanted.filter((button) => (permitted?.includes(button) ?? true) && !isForbidden(button)))
    }

    async #act(button: Button): Promise<void> {
      const id = this.getAttribute('job')
      const using = this.#using
      if (!using || !id) return
      let inVain: InVain | undefined
      try {
        if (button === 'cancel') await using.client.cancel(id)
        else download(await using.client.fileUrl(id))
      } catch (error) {
        inVain = { button, isForbidden: error instanceof JobsError && error.status === 403 }
      }
      // It may show another job by now, or be off the page.
      if (this.#using !== using) return
      this.#inVain = inVain
      this.#show()
    }

    /** What was set before the element was defined, which is on the instance and hides the accessors. */
    #adopt(name: 'getToken' | 'snapshot'): void {
      if (!Object.hasOwn(this, name)) return
      const value: unknown = this[name]
      Reflect.deleteProperty(this, name)
      Object.assign(this, { [name]: value })
    }
  }
}

function told(face: Face, { button }: { button: Button }, words: Words): Face {
  const text = button === 'cancel' ? words.notCanceled : words.notDownloaded
  return { ...face, detail: text, spoken: text }
}

/** The server sends it as an attachment, so that the page stays. */
function download(address: string): void {
  const link = document.createElement('a')
  link.href = address
  link.download = ''
  link.click()
}
