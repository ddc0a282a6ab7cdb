/**
 * One connection for all tabs of a browser that show jobs of one path: one tab leads, reads what all of them want, and tells them. The
 * model is in docs/decisions/0027.
 *
 *   joining ──the lock is free──> leading ──the lock was taken──> following
 *      │                             ^                              │  ^
 *      │                             └── the lock is free, or taken ┘  │
 *      └───────────────the lock is another's───────────────────────────┘
 *
 * The channel of the path says who leads, what the others want, and what the leader may not read. The news of a job goes over a channel of
 * its own, which a tab opens once the server has let it in itself.
 *
 * A page that nobody looks at may be frozen, and keeps its lock. So one that is looked at takes the lock from a leader that is not, or that
 * gives no answer.
 */
import type { Channel, Environment } from './environment.js'
import type { News, Want } from './known.js'

/** For the leader to answer. Milliseconds. */
const ANSWER_MS = 2_000

type Message =
  | { type: 'lead'; tab: string; visible: boolean }
  | { type: 'want'; tab: string; wants: readonly Want[] }
  | { type: 'refused'; ids: readonly string[] }

export interface TabsHost {
  /** Who leads has changed. */
  changed(): void
  /** Another tab wants these: it is to be told all that is known. */
  wanted(wants: readonly Want[]): void
  told(id: string, news: News): void
  /** The leader may not read these, so this tab has to do it itself. */
  refused(ids: readonly string[]): void
}

export class Tabs {
  readonly #environment: Environment
  readonly #name: string
  readonly #host: TabsHost
  readonly #tab: string
  readonly #jobs = new Map<string, Channel>()
  /** What each of the other tabs wants of this one. */
  readonly #others = new Map<string, readonly Want[]>()
  #role: 'leading' | 'following' | undefined
  #channel: Channel | undefined
  #wants: readonly Want[] = []
  #leader: string | undefined
  #release = (): void => {}
  #queued: AbortController | undefined
  #callOff = (): void => {}

  constructor(environment: Environment, name: string, host: TabsHost) {
    this.#environment = environment
    this.#name = name
    this.#host = host
    this.#tab = String(environment.random())
  }

  /** Undefined until that is known. A tab that cannot share leads nobody. */
  get role(): 'leading' | 'following' | undefined {
    return this.#role
  }

  /** What the others want of this tab. */
  get others(): readonly Want[] {
    return [...this.#others.values()].flat()
  }

  join(): void {
    const { locks, openChannel } = this.#environment
    if (!locks || !openChannel) {
      this.#role = 'leading'
    } else if (!this.#channel) {
      this.#channel = openChannel(this.#name, (message) => this.#heard(message as Message))
      void this.#hold({ ifAvailable: true })
    }
  }

  /** Another tab may lead. */
  leave(): void {
    this.want([])
    this.#become(undefined)
    this.#queued?.abort()
    this.#release()
    this.#channel?.close()
    this.#channel = undefined
  }

  /** What this tab wants of the one that leads, and may have. */
  want(wants: readonly Want[]): void {
    if (this.#role !== 'following' || JSON.stringify(wants) === JSON.stringify(this.#wants)) return
    this.#wants = wants
    for (const [id, channel] of this.#jobs) {
      if (wants.some((want) => want.id === id)) continue
      channel.close()
      this.#jobs.delete(id)
    }
    for (const { id } of wants) this.#channelOf(id)
    this.#ask()
  }

  /** To the others, as far as they want it. */
  tell(id: string, news: Iterable<News>): void {
    if (this.others.some((want) => want.id === id)) for (const each of news) this.#channelOf(id).postMessage(each)
  }

  /** The others have to read these themselves. */
  refuse(ids: readonly string[]): void {
    if (this.#role !== 'leading') return
    this.#post({ type: 'refused', ids })
    for (const [tab, wants] of this.#others) {
      this.#others.set(
        tab,
        wants.filter(({ id }) => !ids.includes(id)),
      )
    }
  }

  /** Somebody looks at this tab, or does no longer. */
  looked(): void {
    if (this.#role === 'leading') this.#sayLead()
    else if (this.#role) this.#ask()
  }

  /** Asks for the lock, and leads while it is held. Afterwards, and where it is another's, waits for it in line. */
  async #hold(options: { ifAvailable?: boolean; steal?: boolean; signal?: AbortSignal }): Promise<void> {
    const channel = this.#channel
    const isCurrent = (): boolean => channel === this.#channel && !options.signal?.aborted
    let isOthers = false
    try {
      await this.#environment.locks!.request(this.#name, options, (lock) => {
        isOthers = lock === null
        if (isOthers || !isCurrent()) return
        this.#become('leading')
        this.#sayLead()
        return new Promise<void>((resolve) => (this.#release = resolve))
      })
    } catch (error) {
      // Another tab has taken it, or we have left the line; otherwise there are no locks for this page.
      isOthers = (error as Error).name === 'AbortError'
      if (!isOthers && isCurrent()) this.#become('leading')
    }
    if (!isOthers || !isCurrent()) return
    this.#become('following')
    this.#queued = new AbortController()
    void this.#hold({ signal: this.#queued.signal })
  }

  #take(): void {
    this.#queued?.abort()
    void this.#hold({ steal: true })
  }

  #become(role: 'leading' | 'following' | undefined): void {
    this.#release()
    this.#callOff()
    for (const channel of this.#jobs.values()) channel.close()
    this.#jobs.clear()
    this.#others.clear()
    this.#wants = []
    this.#leader = undefined
    this.#role = role
    this.#host.changed()
  }

  #sayLead(): void {
    this.#post({ type: 'lead', tab: this.#tab, visible: this.#environment.isVisible() })
  }

  #ask(): void {
    this.#post({ type: 'want', tab: this.#tab, wants: this.#wants })
    this.#callOff()
    if (this.#environment.isVisible()) this.#callOff = this.#environment.after(ANSWER_MS, () => this.#take())
  }

  #heard(message: Message): void {
    if (message.type === 'want' && this.#role === 'leading') {
      this.#others.set(message.tab, message.wants)
      this.#sayLead()
      this.#host.wanted(message.wants)
    } else if (message.type === 'lead' && this.#role === 'following') {
      this.#callOff()
      if (!message.visible && this.#environment.isVisible()) return this.#take()
      if (message.tab === this.#leader) return
      this.#leader = message.tab
      this.#host.changed()
      this.#ask()
    } else if (message.type === 'refused' && this.#role === 'following') {
      this.#host.refused(message.ids)
    }
  }

  #channelOf(id: string): Channel {
    let channel = this.#jobs.get(id)
    if (!channel) {
      channel = this.#environment.openChannel!(`${this.#name} ${id}`, (news) => this.#host.told(id, news as News))
      this.#jobs.set(id, channel)
    }
    return channel
  }

  #post(message: Message): void {
    this.#channel?.postMessage(message)
  }
}
