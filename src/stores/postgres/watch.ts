/**
 * Noticing changes. Commits of this store call its own listeners directly, and are announced to the other processes by NOTIFY,
 * in a transaction of its own after the commit: one that notifies holds a lock that all such commits of the database wait for, so
 * that inserts would stand in line for it. Announcements are throttled, the first is made at once, and none waits for the disk.
 * Rows that others insert are announced by a trigger, as are those in the product's own transactions, at their commit.
 *
 *   away:      no connection; tries to get one, with growing pauses.
 *   listening: a connection that is kept for LISTEN. A question every now and then tells whether it still lives.
 *   deaf:      LISTEN was accepted, but a notification from another connection did not arrive: a transaction pooler stands
 *              between. Or the pool has but one connection. Tried again after a while.
 *
 * In `away` and `deaf` the listeners are called at a steady pace instead. Coming to `listening` calls them once, for what may
 * have been missed. Nothing runs while nobody watches, and none of this keeps the process alive.
 */
import { randomUUID } from 'node:crypto'
import type { Change } from '../../store.js'
import { signal, Timers } from '../../timers.js'
import { array } from './array.js'
import type { PgClient } from './connections.js'
import { answered, destroy, type Database } from './database.js'
import { quoteName } from './dialect.js'

const POLL_MS = 250
const PROBE_MS = 2_000
const LIVES_EVERY_MS = 10_000
const LIVES_WITHIN_MS = 5_000
const DEAF_FOR_MS = 60_000
const FIRST_PAUSE_MS = 100
const LONGEST_PAUSE_MS = 5_000
/** What changes a state is announced at most so often. Milliseconds. */
const STATE_APART_MS = 50
/** What wakes a worker is announced at once, but so many times in a row and, after that, so far apart. Milliseconds. */
const AT_ONCE = 10
const APART_MS = 4

type Mode = 'away' | 'listening' | 'deaf'

export class Watcher {
  readonly #database: Database
  readonly #origin = randomUUID()
  readonly #listeners = new Set<(change: Change) => void>()
  readonly #told = new Set<Change>()
  readonly #unannounced = new Set<Change>()
  #announcing: Promise<void> | undefined
  #announcedAt = -Infinity
  /** Announcements that may be made at once; one more after each `APART_MS`. */
  #allowance = AT_ONCE
  #announceTimer: NodeJS.Timeout | undefined
  #mode: Mode = 'away'
  #poll: NodeJS.Timeout | undefined
  /** Closed when nobody watches any more, which ends the listening whatever it waits for. */
  #watching: Timers | undefined

  constructor(database: Database) {
    this.#database = database
  }

  /** How changes of other processes are noticed now, for the doctor. */
  get mode(): Mode {
    return this.#mode
  }

  add(listener: (change: Change) => void): () => void {
    // A function of its own for each call, so that the same listener may watch twice.
    const entry = (change: Change): void => listener(change)
    this.#listeners.add(entry)
    if (this.#listeners.size === 1) this.#start()
    return () => {
      if (this.#listeners.delete(entry) && this.#listeners.size === 0) this.#stop()
    }
  }

  /** A commit of this store. */
  changed(change: Change): void {
    this.#tellSoon(change)
    this.#unannounced.add(change)
    this.#announceSoon()
  }

  /**
   * Whether the next insert may announce itself, by the trigger and within its own commit, in place of an announcement after it: as
   * often as announcements are made at once.
   */
  takesAnnouncement(): boolean {
    if (this.#announcing || this.#announceTimer || this.#unannounced.size > 0) return false
    const now = performance.now()
    if (this.#allowance + (now - this.#announcedAt) / APART_MS < 1) return false
    this.#spend(now)
    return true
  }

  /** A commit of this store that was announced by itself. */
  announced(change: Change): void {
    this.#tellSoon(change)
  }

  /** Ends the listening; resolves when what is to be announced has been. */
  async close(): Promise<void> {
    this.#listeners.clear()
    this.#stop()
    clearTimeout(this.#announceTimer)
    this.#announceTimer = undefined
    await Promise.all([this.#announcing, this.#announce()])
  }

  /** Listeners are called once for all commits of this turn of the event loop. */
  #tellSoon(change: Change): void {
    if (this.#listeners.size === 0) return
    if (this.#told.size === 0) setImmediate(() => this.#tell())
    this.#told.add(change)
  }

  #tell(): void {
    const changes = [...this.#told]
    this.#told.clear()
    for (const listener of this.#listeners) for (const change of changes) listener(change)
  }

  #announceSoon(): void {
    if (this.#announcing || this.#announceTimer) return
    const passedMs = performance.now() - this.#announcedAt
    const onlyState = this.#unannounced.size === 1 && this.#unannounced.has('state')
    const apartMs = onlyState ? STATE_APART_MS : this.#allowance + passedMs / APART_MS >= 1 ? 0 : APART_MS
    if (passedMs >= apartMs) void this.#announce()
    // A change that wakes a worker does not wait for the timer of a state.
    else this.#announceTimer = setTimeout(() => this.#announceLater(), Math.min(apartMs - passedMs, APART_MS)).unref()
  }

  #announceLater(): void {
    this.#announceTimer = undefined
    this.#announceSoon()
  }

  #announce(): Promise<void> {
    if (this.#unannounced.size === 0) return Promise.resolve()
    const payloads = [...this.#unannounced].map((change) => `${change} ${this.#origin}`)
    this.#unannounced.clear()
    this.#spend(performance.now())
    // Whoever was not told finds out by polling.
    const told = this.#notify(payloads).catch(() => {})
    this.#announcing = told.then(() => {
      this.#announcing = undefined
      if (this.#unannounced.size > 0) this.#announceSoon()
    })
    return this.#announcing
  }

  #spend(now: number): void {
    this.#allowance = Math.max(0, Math.min(AT_ONCE, this.#allowance + (now - this.#announcedAt) / APART_MS) - 1)
    this.#announcedAt = now
  }

  /** Does not wait for the disk: a notification that a crash takes is of no worth after it. */
  async #notify(payloads: readonly string[]): Promise<void> {
    const sql = `SELECT pg_notify($1, payload) FROM set_config('synchronous_commit', 'off', true), unnest($2::text[]) AS payload`
    const params = [this.#database.dialect.channel, array(payloads)]
    const work = function* () {
      yield { hot: true as const, sql, params }
    }
    await this.#database.run(work)
  }

  #start(): void {
    this.#watching = new Timers({ background: true })
    this.#become('away')
    void this.#listen(this.#watching)
  }

  #stop(): void {
    this.#watching?.close()
    this.#watching = undefined
    clearInterval(this.#poll)
    this.#poll = undefined
    this.#told.clear()
  }

  #become(mode: Mode): void {
    this.#mode = mode
    clearInterval(this.#poll)
    this.#poll = mode === 'listening' ? undefined : setInterval(() => this.#tellSoon('any'), POLL_MS).unref()
  }

  async #listen(watching: Timers): Promise<void> {
    for (let pauseMs = FIRST_PAUSE_MS; !watching.closed; pauseMs = Math.min(LONGEST_PAUSE_MS, pauseMs * 2)) {
      let restMs = pauseMs
      try {
        if (await this.#listenOnce(watching)) restMs = pauseMs = FIRST_PAUSE_MS
        else restMs = DEAF_FOR_MS
      } catch {
        // The next try comes after the pause; whoever calls the store meanwhile is told what is wrong.
      }
      if (watching.closed) return
      if (this.#mode === 'listening') this.#become('away')
      await watching.sleep(restMs)
    }
  }

  /** Listens until the connection is lost. Answers false when notifications do not get through. */
  async #listenOnce(watching: Timers): Promise<boolean> {
    if ((await this.#database.size()) === 1) {
      this.#become('deaf') // The only connection is for the calls.
      return false
    }
    const client = await this.#database.take()
    if (watching.closed) {
      destroy(client)
      return true
    }
    // Closed when the connection is lost, or nobody watches any more.
    const connection = new Timers({ background: true })
    const lost = (): void => connection.close()
    const probe = `probe ${randomUUID()}`
    const heard = signal()
    const onNotification = (message: unknown): void => {
      const { payload } = message as { payload?: string }
      if (payload === probe) heard.resolve()
      else if (payload !== undefined) this.#hear(payload)
    }
    const release = watching.onClose(lost)
    try {
      client.on('notification', onNotification)
      client.on('error', lost)
      client.on('end', lost)
      client.unref?.()
      await answered(client.query(`LISTEN ${quoteName(this.#database.dialect.channel)}`), LIVES_WITHIN_MS)
      await this.#notify([probe])
      const late = connection.sleep(PROBE_MS).then(() => false)
      if (!(await Promise.race([heard.promise.then(() => true), late]))) {
        if (!connection.closed) this.#become('deaf')
        return connection.closed
      }
      this.#become('listening')
      this.#tellSoon('any')
      await stayAlive(client, connection)
      return true
    } finally {
      release()
      client.off('notification', onNotification)
      destroy(client)
    }
  }

  #hear(payload: string): void {
    const [change, origin] = payload.split(' ')
    if (origin === this.#origin) return // Its listeners have been told.
    if (change !== 'due' && change !== 'cancel' && change !== 'state' && change !== 'any') return
    // Announcements are few: whoever waits for one need not wait for the turn of the event loop too.
    for (const listener of this.#listeners) listener(change)
  }
}

/**
 * Returns when the connection is lost, or its server takes no writes any more: another one has taken over then, and what happens
 * there is not heard here. Rejects when it gives no answer.
 */
async function stayAlive(client: PgClient, connection: Timers): Promise<void> {
  for (;;) {
    await connection.sleep(LIVES_EVERY_MS)
    if (connection.closed) return
    const ask = { text: `SELECT current_setting('transaction_read_only')`, values: [], rowMode: 'array' } as const
    const { rows } = await answered(client.query(ask), LIVES_WITHIN_MS)
    if (rows[0]![0] === 'on') return
  }
}
