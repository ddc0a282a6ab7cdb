/**
 * How fast the jobs of one worker end while it has any. The time in which nothing ran does not count: waiting for the database
 * says nothing of the handlers, and if it did, claiming little would make for claiming less.
 */
export class Pace {
  #perMs = 0
  #ended = 0
  #busyMs = 0
  #busySince: number | undefined

  /** Jobs per millisecond, smoothed. */
  get perMs(): number {
    return this.#perMs
  }

  /** A job starts while none runs. */
  begin(): void {
    this.#busySince = performance.now()
  }

  /** A job has ended. */
  ended(): void {
    this.#ended++
  }

  /** None runs any more. */
  pause(): void {
    if (this.#busySince !== undefined) this.#busyMs += performance.now() - this.#busySince
    this.#busySince = undefined
  }

  /** Takes what has ended since the last time into account. */
  measure(): void {
    if (this.#ended === 0) return
    const now = performance.now()
    if (this.#busySince !== undefined) {
      this.#busyMs += now - this.#busySince
      this.#busySince = now
    }
    // The clock ticks in microseconds; a handler that does nothing may take less.
    this.#perMs = this.#perMs * 0.5 + (this.#ended / Math.max(this.#busyMs, 0.001)) * 0.5
    this.#ended = 0
    this.#busyMs = 0
  }

  /** What was known holds no more. */
  forget(): void {
    this.#perMs = 0
  }
}
