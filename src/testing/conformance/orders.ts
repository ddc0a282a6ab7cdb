/** What the suite's parent process and its children say to each other. */
import type { InsertOutcome } from '../../store.js'

export type Order =
  | { do: 'migrate' }
  /** Inserts `calls` times `perCall` jobs, of which job number i has the key number i modulo `keys`. */
  | { do: 'insert'; prefix: string; calls: number; perCall: number; keys: number }
  /** Claims and settles until nothing is left. */
  | { do: 'drain'; workerId: string; limit: number }
  /** Claims once and keeps what it got. */
  | { do: 'claim'; workerId: string; limit: number; leaseMs: number }

export interface Told {
  type: InsertOutcome['type']
  key: number
  /** The caller's own id, or that of the job that holds the key. */
  id: string
}

export interface Answers {
  migrate: { from: number; to: number }
  insert: Told[]
  drain: string[]
  claim: string[]
}

export type FromChild =
  | { type: 'ready' }
  /** A call of an `insert` order has been answered with these ids. */
  | { type: 'acknowledged'; ids: string[] }
  | { type: 'answer'; answer: Answers[Order['do']] }
  | { type: 'failed'; message: string }
