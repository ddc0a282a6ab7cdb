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

export interface Tabs {
  /** Undefined until that is known. A tab that cannot share leads nobody. */
  role(): 'leading' | 'following' | undefined
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
  /** Somebody looks at this tab, or does no longer. */
  looked(): void
}

export function createTabs({ locks, openChannel, isVisible, after, random }: Environment, name: string, host: TabsHost): Tabs {
  const tab = String(random())
  const jobs = new Map<string, Channel>()
  /** What each of the other tabs wants of this one. */
  const others = new Map<string, readonly Want[]>()
  let role: 'leading' | 'following' | undefined
  let channel: Channel | undefined
  let wants: readonly Want[] = []
  let leader: string | undefined
  let release = (): void => {}
  let callOff = (): void => {}
  let queued: AbortController | undefined

  const tabs: Tabs = {
    role: () => role,
    others: () => [...others.values()].flat(),
    join() {
      if (!locks || !openChannel) {
        if (!role) become('leading')
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
      if (role !== 'following' || JSON.stringify(now) === JSON.stringify(wants)) return
      wants = now
      for (const [id, each] of jobs) {
        if (now.some((want) => want.id === id)) continue
        each.close()
        jobs.delete(id)
      }
      for (const { id } of now) channelOf(id)
      ask()
    },
    tell(id, news) {
      if (tabs.others().some((want) => want.id === id)) for (const each of news) channelOf(id).postMessage(each)
    },
    refuse(ids) {
      if (role !== 'leading') return
      post({ type: 'refused', ids })
      for (const [other, theirs] of others) {
        others.set(
          other,
          theirs.filter(({ id }) => !ids.includes(id)),
        )
      }
    },
    looked() {
      if (role === 'leading') sayLead()
      else if (role) ask()
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
        become('leading')
        sayLead()
        return new Promise<void>((resolve) => (release = resolve))
      })
    } catch (error) {
      // Another tab has taken it, or we have left the line; otherwise there are no locks for this page.
      isOthers = (error as Error).name === 'AbortError'
      if (!isOthers && isCurrent()) become('leading')
    }
    if (!isOthers || !isCurrent()) return
    become('following')
    queued = new AbortController()
    void hold({ signal: queued.signal })
  }

  function take(): void {
    queued?.abort()
    void hold({ steal: true })
  }

  function become(now: typeof role): void {
    release()
    callOff()
    for (const each of jobs.values()) each.close()
    jobs.clear()
    others.clear()
    wants = []
    leader = undefined
    role = now
    host.changed()
  }

  function sayLead(): void {
    post({ type: 'lead', tab, visible: isVisible() })
  }

  function ask(): void {
    post({ type: 'want', tab, wants })
    callOff()
    if (isVisible()) callOff = after(ANSWER_MS, take)
  }

  function heard(message: Message): void {
    if (message.type === 'want' && role === 'leading') {
      others.set(message.tab, message.wants)
      sayLead()
      host.wanted(message.wants)
    } else if (message.type === 'lead' && role === 'following') {
      callOff()
      if (!message.visible && isVisible()) return take()
      if (message.tab === leader) return
      leader = message.tab
      host.changed()
      ask()
    } else if (message.type === 'refused' && role === 'following') {
      host.refused(message.ids)
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
