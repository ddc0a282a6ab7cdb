/** What a test and the processes that it starts say to each other. */
import type { EnqueueOptions, RunOnceOptions, RunOnceResult, WorkerEvents, WorkerOptions } from '../../../src/index.js'

/** The payload of the type `act`: a handler that does as it is told. */
export interface Act {
  name: string
  /** How long it takes, in milliseconds. */
  ms: number
  /** Stops when its signal is aborted. */
  obey?: boolean | undefined
  /** Lets nothing else in its process have a turn meanwhile. */
  block?: boolean | undefined
  end?: 'return' | 'throw' | undefined
}

/** One run of a handler, written down at its start. */
export interface LedgerLine {
  id: string
  name: string
  attempt: number
  at: number
  pid: number
}

export type Order =
  | { do: 'work'; options: WorkerOptions }
  | { do: 'run_once'; options: RunOnceOptions }
  | { do: 'stop'; timeout: `${number}ms` }
  | { do: 'enqueue'; acts: Act[]; options?: Omit<EnqueueOptions, 'runAfter'> & { runAfterMs?: number } }
  | { do: 'enqueue_keys'; count: number; keys: number; inFlight: number }
  | { do: 'enqueue_counts'; count: number; inFlight: number }
  | { do: 'result'; id: string }

export interface Enqueued {
  id: string
  duplicate: boolean
  runAfterMs: number
}

export interface Answers {
  work: { workerId: string }
  run_once: RunOnceResult
  stop: null
  enqueue: Enqueued[]
  enqueue_keys: { key: number; id: string; duplicate: boolean }[]
  enqueue_counts: string[]
  result: unknown
}

export type Message =
  | { type: 'ready' }
  | { type: 'answer'; answer: Answers[Order['do']] }
  | { type: 'refused'; message: string }
  | ({ type: 'started' | 'ended' } & LedgerLine)
  | { type: 'aborted'; id: string; name: string; reason: string }
  | { type: 'event'; event: Exclude<keyof WorkerEvents, 'error'>; id: string; attempt: number }
  /** What was logged at the level error, or told to the worker's error listeners. */
  | { type: 'error'; message: string }
  | { type: 'warning'; message: string }
  | { type: 'stopped' }
