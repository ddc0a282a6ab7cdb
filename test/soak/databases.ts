/** The databases of a soak, and how each of them can be broken. */
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { TestServer } from '../support/postgres/server.js'
import { TcpProxy } from '../support/tcp-proxy.js'
import type { Dice } from './dice.js'
import type { BreakKind } from './ledger.js'

export interface BreakEnv {
  dice: Dice
  /** Of the workers with short leases. Milliseconds. */
  leaseMs: number
  /** Locks a SQLite file from another process, until the answer is called: in order, or by killing that process. */
  lock(): Promise<(end: 'stop' | 'kill') => Promise<void>>
  /** Writes down what was broken, for everybody or for whoever goes this way; resolves when it is mended. */
  broken(how: BreakKind, work: () => Promise<unknown>, way?: number): Promise<void>
}

export interface SoakDatabase {
  /** Past everything that is broken. */
  readonly url: string
  /** The way of one of the processes, of which there are as many as were asked for. */
  urlFor(way: number): string
  /** One card for each way of breaking it. */
  readonly breaks: readonly ((env: BreakEnv) => Promise<void>)[]
  remove(): Promise<void>
}

/** Longer than a lease, so that others take over. */
const beyond = ({ dice, leaseMs }: BreakEnv): number => leaseMs * (1.2 + dice.next())

export function sqliteDatabase(folder: string): SoakDatabase {
  const url = `sqlite:${join(folder, 'app.db')}`
  const locked = async (env: BreakEnv, end: 'stop' | 'kill'): Promise<void> =>
    env.broken(end === 'kill' ? 'writer killed' : 'locked', async () => {
      const unlock = await env.lock()
      await sleep(end === 'kill' ? env.dice.between(50, 500) : beyond(env))
      await unlock(end)
    })
  return {
    url,
    urlFor: () => url,
    breaks: [(env) => locked(env, 'stop'), (env) => locked(env, 'kill')],
    remove: async () => {}, // Its files lie in the soak's folder.
  }
}

/** A server of the soak's own, to which each process has a network of its own. */
export async function postgresDatabase(ways: number): Promise<SoakDatabase> {
  const server = await TestServer.create()
  const proxies: TcpProxy[] = []
  const remove = async (): Promise<void> => {
    await Promise.all(proxies.map((proxy) => proxy.remove()))
    await server.remove()
  }
  const onOneWay = ({ dice, broken }: BreakEnv, how: BreakKind, work: (proxy: TcpProxy) => Promise<void>): Promise<void> => {
    const way = dice.between(0, ways - 1)
    return broken(how, () => work(proxies[way]!), way)
  }
  try {
    for (let way = 0; way < ways; way++) proxies.push(await TcpProxy.create(server.port))
  } catch (error) {
    await remove()
    throw error
  }
  return {
    url: server.url(),
    urlFor: (way) => proxies[way]!.url(server.url()),
    breaks: [
      ({ broken }) => broken('restarted', () => server.restart('fast')),
      ({ broken }) => broken('crashed', () => server.restart('immediate')),
      (env) =>
        onOneWay(env, 'stalled', async (proxy) => {
          proxy.stall()
          await sleep(beyond(env)) // The length of the stall is the case.
          proxy.resume()
        }),
      (env) => onOneWay(env, 'cut', async (proxy) => proxy.cut()),
      (env) => onOneWay(env, 'stranded', async (proxy) => proxy.strand()),
    ],
    remove,
  }
}
