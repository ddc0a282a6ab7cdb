/**
 * What a worker and its heart thread tell each other in shared memory, which either can read while the other is blocked. Times are
 * milliseconds on a clock that all threads of the process share.
 */

/** Each thread's `performance.now()` begins when the thread does. */
const OFFSET_MS = Number(process.hrtime.bigint() / 1_000n) / 1_000 - performance.now()

/** Does not jump, whatever happens to the time of day. */
export function monotonicMs(): number {
  return performance.now() + OFFSET_MS
}

const HELD_UNTIL = 0
const SEEN_AT = 1
const RUNS_UNTIL = 2
const COUNT = 3

export class HeartMarks {
  readonly memory: SharedArrayBuffer
  readonly #times: BigInt64Array

  constructor(memory = new SharedArrayBuffer(COUNT * BigInt64Array.BYTES_PER_ELEMENT)) {
    this.memory = memory
    this.#times = new BigInt64Array(memory)
  }

  /** Not after the store's own end of the lease; 0 before the worker has registered. */
  get heldUntil(): number {
    return this.#read(HELD_UNTIL)
  }
  set heldUntil(ms: number) {
    this.#write(HELD_UNTIL, ms)
  }

  /** When the event loop of the worker last showed that it turns. */
  get seenAt(): number {
    return this.#read(SEEN_AT)
  }
  set seenAt(ms: number) {
    this.#write(SEEN_AT, ms)
  }

  /** The latest end of the time that a job here may run; Infinity when one may run without end. */
  get runsUntil(): number {
    return this.#read(RUNS_UNTIL)
  }
  set runsUntil(ms: number) {
    this.#write(RUNS_UNTIL, ms)
  }

  #read(index: number): number {
    const micros = Atomics.load(this.#times, index)
    return micros === FOREVER ? Infinity : Number(micros) / 1_000
  }

  #write(index: number, ms: number): void {
    Atomics.store(this.#times, index, Number.isFinite(ms) ? BigInt(Math.round(ms * 1_000)) : FOREVER)
  }
}

const FOREVER = 2n ** 62n
