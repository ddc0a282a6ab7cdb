/** One job of the visitor: what it is about, how it goes, and what comes of it. */
import type { JobsClient, PublicJob } from 'jobtable/client'
import type { CopiedFile } from '../contract.js'
import { STAGES } from '../stages.js'
import type { Language, Say, Word } from '../words.js'
import { icon, make } from './dom.js'
import { getToken, type State } from './server.js'

type Activity = State['activity'][number]

interface Synced {
  copied: number
  earlier: number
  unchanged: number
}

export interface CardOptions {
  jobs: JobsClient
  language: Language
  say: Say
  /** Called when the job has changed its status. */
  onStatus(): void
}

export class Card {
  readonly element = make('li', 'card job')
  readonly #options: CardOptions
  readonly #type: string
  readonly #about: string
  readonly #stages = make('ol', 'stages')
  readonly #asked = make('p', 'hint')
  readonly #outcome = make('p', 'hint')
  readonly #stops: (() => void)[] = []
  #status = ''

  constructor({ job, type, about }: Activity, options: CardOptions) {
    this.#options = options
    this.#type = type
    this.#about = about
    this.element.dataset['type'] = type
    const heading = make('h3', '', titleOf(options.say, type, about))
    const note = noteOf(options.say, type, about)
    this.element.append(make('div', 'job-head', icon(type), heading, ...(note ? [make('span', 'hint about', note)] : [])))
    this.element.append(this.#stages, this.#progress(job), ...this.#streams(job), this.#outcome, this.#asked)
  }

  update({ type, asked }: Activity): void {
    this.#asked.textContent = asked > 1 ? this.#options.say(type === 'add_credits' ? 'delivered' : 'asked', { asked }) : ''
  }

  /** Draws the eye to what answers for a request. */
  point(): void {
    const { top, bottom } = this.element.getBoundingClientRect()
    // At the edge it would grow out of sight again.
    if (top < 0 || bottom > innerHeight) this.element.scrollIntoView({ block: 'center' })
    for (const each of document.querySelectorAll('.pointed')) each.classList.remove('pointed')
    void this.element.offsetWidth // Or the animation would not begin anew.
    this.element.classList.add('pointed')
  }

  close(): void {
    for (const stop of this.#stops) stop()
    this.element.remove()
  }

  #show(job: PublicJob): void {
    this.element.dataset['status'] = job.status
    this.#showStages(job)
    if (this.#type === 'sync_folder' && job.result) {
      const { copied, earlier, unchanged } = job.result as Synced
      this.#outcome.textContent = this.#options.say(earlier > 0 ? 'syncedOn' : 'synced', { copied, earlier, unchanged })
    }
    if (this.#status !== job.status) this.#options.onStatus()
    this.#status = job.status
  }

  #showStages({ stage, status }: PublicJob): void {
    const labels = Object.entries(STAGES[this.#type as keyof typeof STAGES] ?? {}) as [string, Record<Language, string>][]
    const reached = stage?.index ?? -1
    this.#stages.replaceChildren(
      ...labels.map(([key, label], index) => {
        const item = make('li', '', label[this.#options.language])
        const isDone = index < reached || status === 'succeeded'
        item.dataset['stage'] = key
        item.dataset['is'] = isDone ? 'done' : index === reached ? 'now' : 'next'
        if (item.dataset['is'] === 'now') item.setAttribute('aria-current', 'step')
        return item
      }),
    )
  }

  #progress(job: string): HTMLElement {
    const progress = make('job-progress')
    progress.setAttribute('job', job)
    progress.getToken = getToken
    progress.addEventListener('jobchange', () => {
      if (progress.snapshot) this.#show(progress.snapshot)
    })
    return progress
  }

  /** What the job writes while it runs. */
  #streams(job: string): HTMLElement[] {
    const { jobs, say } = this.#options
    if (this.#type === 'assist') {
      const text = scrollable(make('div', 'written'), titleOf(say, this.#type, this.#about))
      this.#stops.push(jobs.stream(job, 'text', (now) => show(text, now.text)))
      return [text]
    }
    if (this.#type !== 'sync_folder') return []
    const files = scrollable(make('ul', 'files'), say('files'))
    this.#stops.push(
      jobs.stream(job, 'files', ({ text }) => {
        // What follows the last end of a line is a part of one.
        const lines = text.split('\n').slice(0, -1)
        files.replaceChildren(...lines.map((line) => fileItem(JSON.parse(line) as CopiedFile)))
        files.scrollTop = files.scrollHeight
      }),
    )
    return [files]
  }
}

function fileItem({ path, earlier }: CopiedFile): HTMLElement {
  return make('li', earlier ? 'earlier' : '', path)
}

/** A long text can be scrolled by keyboard too. */
function scrollable<Kind extends HTMLElement>(element: Kind, label: string): Kind {
  element.tabIndex = 0
  if (element instanceof HTMLDivElement) element.role = 'group'
  element.ariaLabel = label
  return element
}

/** Keeps the end in sight, unless somebody reads further up. */
function show(element: HTMLElement, text: string): void {
  const isAtEnd = element.scrollHeight - element.scrollTop - element.clientHeight < 40
  element.textContent = text
  if (isAtEnd) element.scrollTop = element.scrollHeight
}

function titleOf(say: Say, type: string, about: string): string {
  return say((type === 'assist' ? `assist_${about.split('/')[0]}` : type) as Word)
}

function noteOf(say: Say, type: string, about: string): string {
  const version = type === 'export_pdf' ? about : type === 'assist' && about.split('/')[1]
  if (version) return say('version', { about: version })
  if (type === 'add_credits') return say('paid', { about })
  return type === 'send_mail' ? about : ''
}
