/** What the program needs of the world around it, so that tests can be that world. */
import type { EventEmitter } from 'node:events'
import type { Readable } from 'node:stream'

export interface Output {
  write(text: string): unknown
  readonly isTTY?: boolean
  /** The terminal's width; absent where there is none. */
  readonly columns?: number
  hasColors?(): boolean
}

export type Signals = Pick<EventEmitter, 'on' | 'removeListener'>

export interface Io {
  stdin: Readable & { isTTY?: boolean }
  stdout: Output
  stderr: Output
  /** Also written to: a module that `work` loads reads JOBTABLE_URL. */
  env: NodeJS.ProcessEnv
  /** Where signals and stray rejections are told: `process`. */
  signals: Signals
  now(): number
}
