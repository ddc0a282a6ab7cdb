/**
 * Virtual time. Everything that happens in a run is an event in one heap: a timer that fires, a call that reaches the database, an answer
 * that comes back. Time jumps from one event to the next.
 *
 *   event: belongs to a host (a simulated process) or to nobody (the database, the network, fate)
 *   step:  the event's callback runs, and then every microtask that follows from it, to the last one; then comes the next event
 *
 * While a run lasts, the global timers, `performance.now` and `Math.random` are its own. The code under test needs no hooks: a timer
 * belongs to the host whose step has set it. Nothing else of this process has a turn meanwhile, for a whole run is one turn of Node's
 * event loop: `process.nextTick` calls back once the microtasks are done, before anything else.
 *
 * What is due at the same time comes in an order that the seed decides, and timers are late by a little that the seed decides.
 */
import type { Random } from './random.js'

/** A simulated process. Its clock counts from its start, at its own rate, and stands still while it is suspended. */
export class Host {
  readonly name: string
  /** Whoever is on the same machine can tell whether its process is gone. */
  readonly machine: number
  alive = true
  frozen = false
  /** The id under which its worker has registered last. */
  workerId: string | null = null
  /** When its worker had come up, in true time. */
  upSince = Infinity
  /** When it was last set going again. */
  resumedAt = -1
  /** It is about to be told to stop: what it leaves undone it may. */
  stopping = false
  /** It has been told, and has heard it. */
  toldToStop = false
  /** The last moment at which something kept it from working as it should, in true time. */
  troubledAt: number
  /** When its lease was last extended, in true time. */
  beatAt = -1
  /** When the last of its late calls takes effect, in true time. */
  lateUntil = -1
  /** When it last sent settlements without a claim, in true time. */
  settledAt = -1
  /** Timers that are set and have neither fired nor been cleared. */
  timers = 0
  /** How long its clock has stood still, in true time. */
  suspendedMs = 0
  readonly startedAt: number
  rate = 1
  #leapMs = 0
  readonly backlog: Event[] = []

  constructor(name: string, machine: number, now: number) {
    this.name = name
    this.machine = machine
    this.startedAt = now
    this.troubledAt = now
  }

  /** What `performance.now()` says there. */
  clock(now: number): number {
    return grid((now - this.startedAt - this.suspendedMs) * this.rate + this.#leapMs + 1_000)
  }

  /** Something keeps it from working as it should until then. */
  trouble(until: number): void {
    this.troubledAt = Math.max(this.troubledAt, until)
  }

  /** Its clock goes ahead all at once, as after a correction. */
  leap(ms: number): void {
    this.#leapMs += ms
  }
}

export interface Event {
  at: number
  order: number
  host: Host | null
  /** Counts on the clock of its host, so that it waits while that one stands still. */
  timer: boolean
  suspendedMs: number
  run: (() => void) | null
}

/** Hundredths of a millisecond: sums of such times are the same whatever the order in which they are made. */
export function grid(ms: number): number {
  return Math.round(ms * 100) / 100
}

export class VirtualTime {
  /** True time, in milliseconds since the run began. No host can read it. */
  now = 0
  steps = 0
  /** Called with what a step threw where nobody could catch it. */
  uncaught: (error: unknown) => void = (error) => {
    throw error
  }
  readonly #random: Random
  readonly #heap: Event[] = []
  #current: Host | null = null

  constructor(random: Random) {
    this.#random = random
  }

  /** The host whose step this is. */
  get host(): Host {
    if (!this.#current) throw new Error('code that belongs to no simulated process asked for its own')
    return this.#current
  }

  /** Does something later, on this host or on nobody's. */
  after(ms: number, host: Host | null, run: () => void, timer = false): Event {
    const at = grid(this.now + Math.max(0, ms))
    const event = { at, order: this.#random.next(), host, timer, suspendedMs: host?.suspendedMs ?? 0, run }
    this.#push(event)
    return event
  }

  /** The host goes on; what it has missed comes at once, in the order in which it was due. */
  resume(host: Host): void {
    host.frozen = false
    for (const event of host.backlog.splice(0)) {
      event.at = Math.max(this.now, event.at)
      this.#push(event)
    }
  }

  /** Runs events until the condition holds or none is left. Answers whether the condition holds. */
  async run(until: () => boolean): Promise<boolean> {
    const restore = this.#install()
    try {
      while (!until()) {
        const event = this.#pop()
        if (!event) return until()
        if (event.run && this.#isDue(event)) await this.#step(event)
      }
      return true
    } finally {
      restore()
    }
  }

  #isDue(event: Event): boolean {
    const { host } = event
    if (host === null) return true
    if (!host.alive) return false
    if (host.frozen) {
      host.backlog.push(event)
      return false
    }
    if (event.timer && host.suspendedMs > event.suspendedMs) {
      event.at = grid(event.at + host.suspendedMs - event.suspendedMs)
      event.suspendedMs = host.suspendedMs
      if (event.at > this.now) {
        this.#push(event)
        return false
      }
    }
    return true
  }

  async #step(event: Event): Promise<void> {
    this.now = Math.max(this.now, event.at)
    this.steps++
    this.#current = event.host
    try {
      event.run!()
    } catch (error) {
      this.uncaught(error)
    }
    await new Promise<void>((resolve) => process.nextTick(resolve))
    this.#current = null
  }

  #install(): () => void {
    const real = { setTimeout, clearTimeout, setInterval, clearInterval, setImmediate }
    const random = Math.random
    const set = (run: () => void, ms: number): unknown => this.#setTimer(run, ms)
    // What is set has none of the overloads of Node's own; the code under test uses none.
    globalThis.setTimeout = ((run: () => void, ms = 0) => set(run, Math.max(1, ms) + this.#random.next())) as typeof setTimeout
    globalThis.clearTimeout = ((timer: VirtualTimer | undefined) => timer?.clear()) as typeof clearTimeout
    globalThis.setInterval = ((run: () => void, ms: number) => this.#setInterval(run, ms)) as unknown as typeof setInterval
    globalThis.clearInterval = globalThis.clearTimeout
    globalThis.setImmediate = ((run: () => void) => set(run, this.#random.next() / 20)) as unknown as typeof setImmediate
    Math.random = () => this.#random.next()
    performance.now = () => this.host.clock(this.now)
    return () => {
      Object.assign(globalThis, real)
      Math.random = random
      // It was an own property that hid the one of the prototype.
      Reflect.deleteProperty(performance, 'now')
    }
  }

  #setTimer(run: () => void, ms: number): VirtualTimer {
    const { host } = this
    host.timers++
    const timer = new VirtualTimer(host)
    timer.event = this.after(
      ms / host.rate,
      host,
      () => {
        timer.clear()
        run()
      },
      true,
    )
    return timer
  }

  #setInterval(run: () => void, ms: number): VirtualTimer {
    const again = (): void => {
      timer.event = this.#setTimer(() => {
        again()
        run()
      }, ms).event
    }
    const timer = new VirtualTimer(this.host)
    again()
    return timer
  }

  #push(event: Event): void {
    const heap = this.#heap
    let at = heap.length
    heap.push(event)
    while (at > 0) {
      const parent = (at - 1) >> 1
      if (!comesFirst(event, heap[parent]!)) break
      heap[at] = heap[parent]!
      at = parent
    }
    heap[at] = event
  }

  #pop(): Event | undefined {
    const heap = this.#heap
    const first = heap[0]
    const last = heap.pop()
    if (first === undefined || last === undefined || heap.length === 0) return first
    let at = 0
    for (;;) {
      let child = 2 * at + 1
      if (child >= heap.length) break
      if (child + 1 < heap.length && comesFirst(heap[child + 1]!, heap[child]!)) child++
      if (!comesFirst(heap[child]!, last)) break
      heap[at] = heap[child]!
      at = child
    }
    heap[at] = last
    return first
  }
}

function comesFirst(a: Event, b: Event): boolean {
  return a.at < b.at || (a.at === b.at && a.order < b.order)
}

/** What the code under test holds of a timer. */
class VirtualTimer {
  event: Event | undefined
  readonly #host: Host

  constructor(host: Host) {
    this.#host = host
  }

  clear(): void {
    if (!this.event?.run) return
    this.event.run = null
    this.#host.timers--
  }

  unref(): this {
    return this
  }
}
