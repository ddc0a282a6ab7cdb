/**
 * One connection for all tabs of a browser that show jobs of one path: one tab leads, reads what all of them want, and tells them. The
 * model is in docs/decisions/0028.
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
  | { type: 'lead'; tab: number; visible: boolean; live: boolean }
  | { type: 'want'; tab: number; wants: readonly Want[] }
  | { type: 'refused'; ids: readonly string[] }

export interface TabsHost {
  /** Who leads has changed. */
  changed(): void
  /** Another tab wants these: it is to be told all that is known. */
  wanted(wants: readonly Want[]): void
  told(id: string, news: News): void
  /** The leader may not read these, so this tab has to do it itself. */
  refused(ids: readonly string[]): void
  /** Whether the leader reaches the server. */
  live(isLive: boolean): void
  isLive(): boolean
}

export interface Tabs {
  /** Undefined until that is known. A tab that cannot share leads nobody. */
  leads(): boolean | undefined
  /** What the others want of this tab. */
  others(): readonly Want[]
  join(): void
  /** Another tab may lead. */
  leave(): void
  /** What this tab wants of the one that leads, and may have. */
  want(wants: readonly Want[]): void
  /** To the others, as far as they want it. */
  tell(id: string, news: Iterable<News>): void
  /** The others have to read these themselves. */
  refuse(ids: readonly string[]): void
  /** To the others, if it leads: whether it is looked at, and reaches the server. */
  sayLead(): void
  /** Somebody looks at this tab, or does no longer. */
  looked(): void
}

export function createTabs({ locks, openChannel, isVisible, after, random }: Environment, name: string, host: TabsHost): Tabs {
  const tab = random()
  const jobs = new Map<string, Channel>()
  /** What each of the other tabs wants of this one. */
  const others = new Map<number, readonly Want[]>()
  let leads: boolean | undefined
  let channel: Channel | undefined
  let wants: readonly Want[] = []
  let leader: number | undefined
  let release = (): void => {}
  let callOff = (): void => {}
  let queued: AbortController | undefined

  const tabs: Tabs = {
    sayLead,
    leads: () => leads,
    others: () => [...others.values()].flat(),
    join() {
      if (!locks || !openChannel) {
        if (!leads) become(true)
      } else if (!channel) {
        channel = openChannel(name, (message) => heard(message as Message))
        void hold({ ifAvailable: true })
      }
    },
    leave() {
      tabs.want([])
      become(undefined)
      queued?.abort()
      channel?.close()
      channel = undefined
    },
    want(now) {
      if (leads !== false || JSON.stringify(now) === JSON.stringify(wants)) return
      wants = now
      keep(now)
      for (const { id } of now) channelOf(id)
      ask()
    },
    tell(id, news) {
      if (tabs.others().some((want) => want.id === id)) for (const each of news) channelOf(id).postMessage(each)
    },
    refuse(ids) {
      if (!leads) return
      post({ type: 'refused', ids })
      for (const [other, theirs] of others) {
        others.set(
          other,
          theirs.filter(({ id }) => !ids.includes(id)),
        )
      }
    },
    looked() {
      sayLead()
      if (leads === false) ask()
    },
  }
  return tabs

  /** Asks for the lock, and leads while it is held. Afterwards, and where it is another's, waits for it in line. */
  async function hold(options: { ifAvailable?: boolean; steal?: boolean; signal?: AbortSignal }): Promise<void> {
    const here = channel
    const isCurrent = (): boolean => here === channel && !options.signal?.aborted
    let isOthers = false
    try {
      await locks!.request(name, options, (lock) => {
        isOthers = lock === null
        if (isOthers || !isCurrent()) return
        become(true)
        sayLead()
        return new Promise<void>((resolve) => (release = resolve))
      })
    } catch (error) {
      // Another tab has taken it, or we have left the line; otherwise there are no locks for this page.
      isOthers = (error as Error).name === 'AbortError'
      if (!isOthers && isCurrent()) become(true)
    }
    if (!isOthers || !isCurrent()) return
    become(false)
    queued = new AbortController()
    void hold({ signal: queued.signal })
  }

  function take(): void {
    queued?.abort()
    void hold({ steal: true })
  }

  function become(now: typeof leads): void {
    release()
    callOff()
    keep((wants = []))
    others.clear()
    leader = undefined
    leads = now
    host.changed()
  }

  function sayLead(): void {
    if (leads) post({ type: 'lead', tab, visible: isVisible(), live: host.isLive() })
  }

  function ask(): void {
    post({ type: 'want', tab, wants })
    callOff()
    if (isVisible()) callOff = after(ANSWER_MS, take)
  }

  function heard(message: Message): void {
    if (message.type === 'want' && leads) {
      others.set(message.tab, message.wants)
      sayLead()
      host.wanted(message.wants)
    } else if (message.type === 'lead' && leads === false) {
      callOff()
      if (!message.visible && isVisible()) return take()
      host.live(message.live)
      if (message.tab === leader) return
      leader = message.tab
      host.changed()
      ask()
    } else if (message.type === 'refused' && leads === false) {
      host.refused(message.ids)
    }
  }

  /** Of the channels of jobs, those of these. */
  function keep(wanted: readonly Want[]): void {
    for (const [id, each] of jobs) {
      if (wanted.some((want) => want.id === id)) continue
      each.close()
      jobs.delete(id)
    }
  }

  function channelOf(id: string): Channel {
    let each = jobs.get(id)
    if (!each) jobs.set(id, (each = openChannel!(`${name} ${id}`, (news) => host.told(id, news as News))))
    return each
  }

  function post(message: Message): void {
    channel?.postMessage(message)
  }
}
