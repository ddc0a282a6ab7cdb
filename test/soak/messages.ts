/** What the soak and its processes say to each other. */
import type { WorkerOptions } from '../../src/index.js'
import type { Moment } from './ledger.js'

interface Common {
  /** The database, by the way that this process takes to it. */
  url: string
  /** The ledger's file. */
  ledger: string
  /** The shortest lease of any worker. Milliseconds. */
  leaseMs: number
}

/** What a process is started for. */
export type Brief = Common &
  ({ role: 'worker'; options: WorkerOptions } | { role: 'producer'; seed: number; perSecond: number } | { role: 'locker' })

/** `die`: be killed at this moment, when it comes. `stop`: end in order, as for a deploy. */
export type ToProcess = { type: 'die'; moment: Moment } | { type: 'stop' }
export type FromProcess = { type: 'ready' }
