/** What an end user's page is given, as types: all that `jobtable/client` shares with the server. */
import type { Status } from '../transition.js'

/** A job as its end user may see it. Moments are ISO 8601 texts. */
export interface PublicJob {
  id: string
  type: string
  status: Status
  /** Whether it is over: `succeeded`, `failed` or `canceled`. A person's repair starts the latter two anew. */
  final: boolean
  /** Grows with every change: of two snapshots of a job, the one with the larger number is the newer. */
  rev: number
  stage: PublicStage | null
  /** From 0 to 1, or null where the handler reports none. 1 once the job has succeeded. */
  progress: number | null
  /** Runs started, without those that only waited or were handed back. */
  attempt: number
  /** Null where neither the row nor a type that this process knows says it. */
  maxAttempts: number | null
  /** When the next attempt is due, while the job is `retrying`. */
  retryAt: string | null
  /** Why it failed, in words for whoever ordered it. Null unless it has failed. */
  userMessage: string | null
  cancelRequested: boolean
  createdAt: string | null
  finishedAt: string | null
  /** What the handler returned, once the job has succeeded. Null for a file. */
  result: unknown
  file: PublicFile | null
  /** The names of the streams that there may be to read, as the type's `publicStreams` lists them. Their texts come on their own. */
  streams: readonly string[]
}

export interface PublicStage {
  /** As the handler names it. */
  key: string
  /** As the type's `stageLabels` name it in the reader's language; else the key. */
  label: string
  /** Its place in the type's `stages`, from 0. Null where it is none of them. */
  index: number | null
  /** How many stages the type has. */
  count: number
}

export interface PublicFile {
  name: string
  /** Bytes. */
  size: number
  contentType: string
  /** The path to download it from, on this server. It needs the action `download`. */
  url: string
}

/** A part of a stream's text. */
export interface PublicText {
  /** Which run of the handler has written it: a greater number has replaced the text of those before, from 0. */
  attempt: number
  /** Where it begins, in UTF-16 code units, as `String.length` counts. */
  offset: number
  text: string
  /** Nothing follows in this attempt: the stream was ended, or the job is over. */
  done: boolean
  /** Nothing follows at all: `done`, and the job is over. */
  final: boolean
}
