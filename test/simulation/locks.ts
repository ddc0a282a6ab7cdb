/**
 * Rows that a transaction of somebody else's has locked, as PostgreSQL answers those who want to write them: settlements and reports are told so
 * and change nothing, recoveries pass over them. Only running rows are locked here, so that claims meet none.
 */
import type { Fence, JobRow, Store } from '../../src/store.js'
import type { World } from './world.js'

export class Locks {
  readonly #world: World
  readonly #rowOf: (id: string) => JobRow | undefined
  readonly #until = new Map<string, number>()

  constructor(world: World, rowOf: (id: string) => JobRow | undefined) {
    this.#world = world
    this.#rowOf = rowOf
  }

  lock(id: string, ms: number): void {
    this.#until.set(id, Math.max(this.until(id), this.#world.time.now + ms))
    this.#world.note(null, () => `${id} is locked for ${ms.toFixed(0)} ms`)
  }

  /** Until when it is, or was last. True time, in milliseconds. */
  until(id: string): number {
    return this.#until.get(id) ?? 0
  }

  /** What the store answers while rows are locked. */
  around(store: Store): Partial<Store> {
    return {
      settle: (writes) => this.#ofFree(writes, (free) => store.settle(free)),
      claim: async (request, writes = []) => {
        const settled = await this.#ofFree(writes, (free) => store.settle(free))
        return { ...(await store.claim(request)), settled }
      },
      report: (writes) => this.#ofFree(writes, (free) => store.report(free)),
      lost: async (limit, types) => {
        const rows = await store.lost(this.#anyLocked() ? 1_000 : limit, types)
        return rows.filter(({ id }) => !this.#isLocked(id)).slice(0, limit)
      },
    }
  }

  #anyLocked(): boolean {
    return [...this.#until.keys()].some((id) => this.#isLocked(id))
  }

  #isLocked(id: string): boolean {
    return !this.#world.healthy && this.until(id) > this.#world.time.now
  }

  async #ofFree<Write extends Fence, Outcome>(
    writes: readonly Write[],
    make: (free: readonly Write[]) => Promise<Outcome[]>,
  ): Promise<(Outcome | 'locked' | 'lost')[]> {
    const isFree = ({ id }: Write): boolean => !this.#isLocked(id)
    const made = await make(writes.filter(isFree))
    let next = 0
    return writes.map((write) => (isFree(write) ? made[next++]! : this.#heldOut(write)))
  }

  #heldOut({ id, token }: Fence): 'locked' | 'lost' {
    const row = this.#rowOf(id)
    return row?.status === 'running' && row.claimToken === token ? 'locked' : 'lost'
  }
}
