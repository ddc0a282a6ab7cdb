/**
 * One database: borrowing a connection, running statements in a transaction or alone, waiting for answers, trying again.
 *
 * Hot statements are prepared, each under a name made of its text: planning a claim anew takes longer than running it. Two things
 * can go wrong with that. A pooler in transaction mode gives each transaction another connection, which does not know the name, or
 * knows it from elsewhere: the first such error ends preparing for this store. And a plan that was made when the table was small
 * may be a bad one later, until the server's statistics catch up: whoever sees a statement become slow calls `planAnew`.
 *
 * Every answer has a deadline, because a half-open connection gives neither data nor an error. A connection that misses it is
 * destroyed, and whether its statement took effect is unknown: the statements here are fenced, or say when they are not. What broke
 * one connection has likely broken the others that lie idle, or leads them to a server that takes no writes any more: none of them
 * is used again.
 */
import { createHash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { JobtableError } from '../../errors.js'
import type { Query, Values, Work } from '../../transactions/transaction.js'
import { Thrown } from '../thrown.js'
import { within } from '../../timers.js'
import { isPool, openPool, PLANNED_FREELY, refusesParameters, type PgClient, type PgPool } from './connections.js'
import type { Dialect } from './dialect.js'
import { explain, isBroken, isConflict, isLockTimeout, isUnprepared, NoAnswer } from './failure.js'

export interface RunOptions<T = unknown> {
  /** All statements in one transaction; else each is its own. */
  transaction?: boolean
  /** Reads much: in one transaction, planned for what is there, and with all the time that it takes. */
  much?: boolean
  /** How long to wait for each answer. Milliseconds. */
  answerMs?: number
  /** What to do in its place, in one transaction, once it has failed for waiting for a row that somebody else has locked. */
  ifLocked?: () => Work<T>
}

const ANSWER_MS = 10_000
/** For statements that read or build much. */
export const LONG_ANSWER_MS = 600_000
/** A conflict with another transaction is over when that one is: so often it is tried again. */
const MOST_TRIES = 10
const PLANS_APART_MS = 10_000
/** How long a closing store waits for the calls in flight. Milliseconds. */
const LAST_ANSWERS_MS = 2_000

/** Work on its way: which statement is the next, until it is answered. */
class Steps<T> {
  readonly #steps: Work<T>
  #next: ReturnType<Work<T>['next']>
  #begun = false

  constructor(work: () => Work<T>) {
    this.#steps = work()
    this.#next = this.#steps.next()
  }

  get next(): ReturnType<Work<T>['next']> {
    return this.#next
  }

  /** Whether any statement has been answered. */
  get begun(): boolean {
    return this.#begun
  }

  answered(rows: readonly Values[]): void {
    this.#begun = true
    this.#next = this.#steps.next(rows)
  }
}

export class Database {
  readonly name: string
  readonly dialect: Dialect
  readonly #connection: string | PgPool
  readonly #answerMs: number
  readonly #names = new Map<string, string>()
  #prepares = true
  /** Connections of an earlier generation are not used again: they have old plans, or may be broken. */
  #generation = 0
  readonly #generations = new WeakMap<PgClient, number>()
  #plannedAt = -Infinity
  readonly #calls = new Set<Promise<unknown>>()
  /** Connections that are lent, and those that are spoilt: what went wrong there could not be taken back. */
  readonly #lent = new Set<PgClient>()
  readonly #spoilt = new WeakSet<PgClient>()
  /** Connections that are lent to products, and who waits for one. */
  #onLoan = 0
  readonly #borrowers = new Set<() => void>()
  /** Rejects whoever waits for a connection. */
  readonly #refusals = new Set<(error: Error) => void>()
  #pool: Promise<PgPool> | undefined
  #plainPool: Promise<PgPool> | undefined
  #closing: Promise<void> | undefined

  constructor(connection: string | PgPool, dialect: Dialect, answerMs = ANSWER_MS) {
    this.#connection = connection
    this.#answerMs = answerMs
    this.dialect = dialect
    this.name = nameOf(connection, dialect.schema)
  }

  /** Whether the pool is the product's, which it closes itself. */
  get shared(): boolean {
    return isPool(this.#connection)
  }

  /** The most connections that the pool opens; undefined while it is not known. */
  async size(): Promise<number | undefined> {
    return (await this.#opened()).options?.max
  }

  /** Whether the pool has a connection to give at once. */
  async hasRoom(): Promise<boolean> {
    const { totalCount, idleCount = 0, options } = await this.#opened()
    return idleCount > 0 || (totalCount !== undefined && options?.max !== undefined && totalCount < options.max)
  }

  /**
   * Does the work. What ran into a conflict with another transaction is done again: a transaction from its beginning, and of statements
   * that are each its own the one that failed, for those before it have taken effect.
   */
  run<T>(work: () => Work<T>, { much = false, transaction = much, ifLocked, ...options }: RunOptions<T> = {}): Promise<T> {
    const answerMs = options.answerMs ?? (much ? LONG_ANSWER_MS : this.#answerMs)
    const begin = much ? `BEGIN; ${PLANNED_FREELY}` : 'BEGIN'
    const call = this.#explained(async () => {
      let next: (() => Work<T>) | Steps<T> = transaction ? work : new Steps(work)
      for (let tries = 1; ; tries++) {
        const now = next
        try {
          return await this.#borrowed((client) =>
            now instanceof Steps ? this.#goOn(client, now, answerMs) : this.#inTransaction(client, begin, now, answerMs),
          )
        } catch (error) {
          const begun = now instanceof Steps && now.begun
          if (this.#prepares && isUnprepared(error)) this.#prepares = false
          else if (ifLocked && now !== ifLocked && !begun && isLockTimeout(error)) next = ifLocked
          else if (!isConflict(error) || tries === MOST_TRIES) throw error
        }
        await sleep(tries * 5 * Math.random())
      }
    })
    this.#calls.add(call)
    const forget = (): void => void this.#calls.delete(call)
    call.then(forget, forget)
    return call
  }

  /** Plans the hot statements anew: the tables may be of another size than when they were planned. Does so now and then at most. */
  planAnew(): void {
    const now = performance.now()
    if (now < this.#plannedAt + PLANS_APART_MS) return
    this.#plannedAt = now
    this.#generation++
  }

  /**
   * A connection for a transaction of the product's, whose statements take their time: until the signal is aborted, which cuts it.
   * Whether a commit that got no answer took effect is unknown, as everywhere.
   */
  async lend<T>(work: (client: PgClient) => Promise<T>, signal?: AbortSignal): Promise<T> {
    // One connection listens, and of the others half is for claims, heartbeats and settlements.
    const most = Math.floor((((await this.#explained(() => this.size())) ?? 0) - 1) / 2)
    if (most < 1) {
      throw new JobtableError(
        'config_invalid',
        `job.transaction needs a pool of at least 3 connections, for it takes no more than half of those that do not listen: let the pool of ${this.name} have more, or use a transaction of your own library with job.complete or job.checkpoint`,
      )
    }
    while (this.#onLoan >= most) {
      await this.#loanIsBack(signal)
      if (signal?.aborted) break
    }
    this.#onLoan++
    try {
      signal?.throwIfAborted()
      return await this.#explained(() => this.#borrowed((client) => this.#commit(client, work, signal)))
    } catch (error) {
      throw error instanceof Thrown ? error.cause : error
    } finally {
      this.#onLoan--
      const [next] = this.#borrowers
      next?.()
    }
  }

  #loanIsBack(signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve) => {
      if (signal?.aborted) return resolve()
      const wake = (): void => {
        this.#borrowers.delete(wake)
        signal?.removeEventListener('abort', wake)
        resolve()
      }
      this.#borrowers.add(wake)
      signal?.addEventListener('abort', wake)
    })
  }

  /** A connection for good, which the caller gives back by `release(true)`. */
  take(): Promise<PgClient> {
    return this.#explained(() => this.#connect())
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  /** A pool that is told to end serves nobody who waits, and waits for all that are lent: so calls have their time before it, and no more. */
  async #close(): Promise<void> {
    await within(LAST_ANSWERS_MS, Promise.allSettled(this.#calls)).catch(() => {})
    for (const refuse of this.#refusals) refuse(this.#closedError())
    for (const client of this.#lent) cut(client)
    const pool = await this.#pool?.catch(() => undefined)
    if (!pool || this.shared) return
    const ended = pool.end()
    for (const client of pool._clients ?? []) cut(client) // Those that are still being connected.
    await ended
  }

  async #explained<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      throw explain(error, this.name, this.dialect.schema)
    }
  }

  async #borrowed<T>(work: (client: PgClient) => Promise<T>): Promise<T> {
    const client = await this.#borrow()
    let broken = false
    try {
      return await work(client)
    } catch (error) {
      broken = !(error instanceof Thrown) && isBroken(error)
      throw error
    } finally {
      this.#giveBack(client, broken)
    }
  }

  async #borrow(): Promise<PgClient> {
    const client = await this.#connect()
    this.#lent.add(client)
    client.on('error', ignore)
    return client
  }

  #giveBack(client: PgClient, broken: boolean): void {
    this.#lent.delete(client)
    client.off('error', ignore)
    if (broken) this.#generation++
    if (broken || this.#spoilt.has(client) || this.#isOld(client)) destroy(client)
    else client.release()
  }

  async #connect(): Promise<PgClient> {
    for (;;) {
      const client = await this.#connectAny()
      if (!this.#generations.has(client)) this.#generations.set(client, this.#generation)
      if (!this.#isOld(client)) return client
      destroy(client)
    }
  }

  #isOld(client: PgClient): boolean {
    return this.#generations.get(client) !== this.#generation
  }

  async #connectAny(): Promise<PgClient> {
    try {
      return await this.#connectTo(await this.#opened())
    } catch (error) {
      if (this.shared || !refusesParameters(error)) throw error
      // What comes next stands behind a pooler, which may give each transaction another connection.
      this.#prepares = false
      this.#pool = this.#plainPool ??= this.#openPlain()
      return this.#connectTo(await this.#pool)
    }
  }

  async #connectTo(pool: PgPool): Promise<PgClient> {
    const connecting = pool.connect()
    let refuse!: (error: Error) => void
    const refused = new Promise<never>((_, reject) => this.#refusals.add((refuse = reject)))
    try {
      return await answered(Promise.race([connecting, refused]), this.#answerMs)
    } catch (error) {
      // One that comes too late goes back.
      void connecting.then(
        (client) => client.release(),
        () => {},
      )
      throw error
    } finally {
      this.#refusals.delete(refuse)
    }
  }

  #closedError(): JobtableError {
    return new JobtableError('store_unavailable', `the store of ${this.name} was closed: make a new one`)
  }

  async #opened(): Promise<PgPool> {
    if (this.#closing) throw this.#closedError()
    this.#pool ??= this.#open()
    return this.#pool
  }

  async #open(): Promise<PgPool> {
    return survivingErrors(
      isPool(this.#connection) ? this.#connection : await openPool(this.#connection, { tuned: true, connectMs: this.#answerMs }),
    )
  }

  /** In place of a pool whose connections were refused for their parameters; it has none. */
  async #openPlain(): Promise<PgPool> {
    return survivingErrors(await openPool(this.#connection as string, { tuned: false, connectMs: this.#answerMs }))
  }

  async #inTransaction<T>(client: PgClient, begin: string, work: () => Work<T>, answerMs: number): Promise<T> {
    await answered(client.query(begin), answerMs)
    try {
      const answer = await this.#goOn(client, new Steps(work), answerMs)
      await answered(client.query('COMMIT'), answerMs)
      return answer
    } catch (error) {
      if (!isBroken(error)) await answered(client.query('ROLLBACK'), answerMs).catch(() => this.#spoilt.add(client))
      throw error
    }
  }

  async #commit<T>(client: PgClient, work: (client: PgClient) => Promise<T>, signal: AbortSignal | undefined): Promise<T> {
    const begin = `BEGIN; ${PLANNED_FREELY}; SELECT pg_backend_pid() AS pid`
    const answers = (await answered(client.query(begin), this.#answerMs)) as unknown as { rows: { pid: number }[] }[]
    let answer: T
    try {
      answer = await this.#unlessAborted(client, answers.at(-1)!.rows[0]!.pid, () => work(client), signal)
    } catch (error) {
      await this.#rollBack(client)
      throw new Thrown(error)
    }
    const { command } = await answered(client.query('COMMIT'), this.#answerMs)
    // Whoever has seen its statements knows which of them it was.
    if (command === 'ROLLBACK') throw new Thrown(new RolledBack())
    return answer
  }

  /** What was cut is given up at once, though the work may take its time to see it. */
  async #unlessAborted<T>(client: PgClient, pid: number, work: () => Promise<T>, signal: AbortSignal | undefined): Promise<T> {
    if (!signal) return work()
    signal.throwIfAborted()
    let abort!: () => void
    const aborted = new Promise<never>((_, reject) => {
      abort = () => {
        cut(client)
        this.#cancel(pid)
        reject(signal.reason as Error)
      }
      signal.addEventListener('abort', abort)
    })
    try {
      return await Promise.race([work(), aborted])
    } finally {
      signal.removeEventListener('abort', abort)
    }
  }

  /** A server that is at a statement does not see that its client has gone. Where it cannot be told, it sees that at its end. */
  #cancel(pid: number): void {
    const cancel = function* (): Work<void> {
      yield { sql: 'SELECT pg_cancel_backend($1::int)', params: [pid] }
    }
    this.run(cancel).catch(() => {})
  }

  /** The function has thrown, for whatever reason. A connection on which that cannot be taken back is of no more use. */
  async #rollBack(client: PgClient): Promise<void> {
    await answered(client.query('ROLLBACK'), this.#answerMs).catch(() => this.#spoilt.add(client))
  }

  async #goOn<T>(client: PgClient, steps: Steps<T>, answerMs: number): Promise<T> {
    for (;;) {
      const step = steps.next
      if (step.done) return step.value
      steps.answered(await answered(this.#ask(client, step.value), answerMs))
    }
  }

  #ask(client: PgClient, { sql, params, hot }: Query): Promise<readonly Values[]> {
    const named = hot && this.#prepares && { name: this.#nameOf(sql) }
    const query = { text: sql, values: params, rowMode: 'array' as const, ...named }
    return new Promise((resolve, reject) => {
      // A text of several statements, which only migrations have, is answered by several results without rows.
      const answer = (result: { rows?: Values[] }): void => resolve(result.rows ?? [])
      // The promises that pg would make keep the rows of many queries alive until the garbage collector looks at what is old.
      const promise = client.query(query, (error, result) => (error ? reject(error) : answer(result)))
      promise?.then((result) => result && answer(result), reject)
    })
  }

  /** The same name is the same text, whoever else has prepared it on this connection. */
  #nameOf(sql: string): string {
    let name = this.#names.get(sql)
    if (name === undefined) {
      name = `jobtable_${createHash('sha256').update(sql).digest('hex').slice(0, 32)}`
      this.#names.set(sql, name)
    }
    return name
  }
}

/** Rejects with `NoAnswer` when the promise is not settled in time. */
export function answered<T>(answer: Promise<T>, ms: number): Promise<T> {
  return within(ms, answer, () => new NoAnswer(ms))
}

/** The database commits nothing after a statement that failed, and says so only in the answer to COMMIT. */
export class RolledBack extends Error {
  constructor() {
    super('COMMIT was answered by ROLLBACK')
  }
}

/** Closes the socket at once: a polite farewell would wait for a peer that may be gone. */
export function destroy(client: PgClient): void {
  client.on('error', ignore)
  client.release(true)
  cut(client)
}

function cut(client: PgClient): void {
  const { connection } = client as { connection?: { stream?: { destroy?(): void } } }
  connection?.stream?.destroy?.()
}

/** What breaks while nothing is asked is told by the next question. */
function ignore(): void {}

/**
 * Whatever breaks, at whatever moment, is told by the next question and does not end the process. An idle connection leaves the pool
 * by itself. One that is lent is listened to from the moment of its lending: the same packet may bring its readiness and its end.
 */
function survivingErrors(pool: PgPool): PgPool {
  const heard = new WeakSet<PgClient>()
  pool.on('error', () => {})
  pool.on('acquire', (client) => {
    if (!heard.has(client)) client.on('error', () => {})
    heard.add(client)
  })
  return pool
}

/** The database without secrets. */
function nameOf(connection: string | PgPool, schema: string): string {
  const suffix = schema === 'public' ? '' : `?schema=${encodeURIComponent(schema)}`
  if (typeof connection !== 'string') return `postgres:(pool)${suffix}`
  try {
    const { hostname, port, pathname } = new URL(connection)
    return `postgres://${hostname}${port && `:${port}`}${pathname}${suffix}`
  } catch {
    return 'postgres:'
  }
}
