/**
 * One database: borrowing a connection, running statements in a transaction or alone, waiting for answers, trying again.
 *
 * Statements are not prepared by name. A pooler may give each transaction another connection, and a plan that was made when the
 * table was small is a bad one later: parsing and planning anew costs 0.1 to 0.3 ms for the largest statements here.
 *
 * Every answer has a deadline, because a half-open connection gives neither data nor an error. A connection that misses it is
 * destroyed, and whether its statement took effect is unknown: the statements here are fenced, or say when they are not.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { JobtableError } from '../../errors.js'
import type { Query, Values, Work } from '../../transactions/transaction.js'
import { isPool, openPool, type PgClient, type PgPool } from './connections.js'
import type { Dialect } from './dialect.js'
import { explain, isBroken, isConflict, NoAnswer } from './failure.js'

export interface RunOptions {
  /** All statements in one transaction; else each is its own. */
  transaction?: boolean
  /** How long to wait for each answer. Milliseconds. */
  answerMs?: number
}

const ANSWER_MS = 10_000
/** For statements that read or build much. */
export const LONG_ANSWER_MS = 600_000
/** A conflict with another transaction is over when that one is: so often it is tried again. */
const MOST_TRIES = 10

export class Database {
  readonly name: string
  readonly dialect: Dialect
  readonly #connection: string | PgPool
  readonly #answerMs: number
  #pool: Promise<PgPool> | undefined
  #closing: Promise<void> | undefined

  constructor(connection: string | PgPool, dialect: Dialect, answerMs = ANSWER_MS) {
    this.#connection = connection
    this.#answerMs = answerMs
    this.dialect = dialect
    this.name = nameOf(connection)
  }

  /** Whether the pool is the product's, which it closes itself. */
  get shared(): boolean {
    return isPool(this.#connection)
  }

  /** The most connections that the pool opens; undefined while it is not known. */
  async size(): Promise<number | undefined> {
    return (await this.#opened()).options?.max
  }

  /** Does the work, again from its beginning when it ran into a conflict with another transaction. */
  run<T>(work: () => Work<T>, { transaction = false, answerMs = this.#answerMs }: RunOptions = {}): Promise<T> {
    return this.#explained(async () => {
      for (let tries = 1; ; tries++) {
        try {
          return await this.#borrowed((client) =>
            transaction ? this.#inTransaction(client, work, answerMs) : this.#steps(client, work, answerMs),
          )
        } catch (error) {
          if (!isConflict(error) || tries === MOST_TRIES) throw error
        }
        await sleep(tries * 5 * Math.random())
      }
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

  async #close(): Promise<void> {
    const pool = await this.#pool?.catch(() => undefined)
    if (!this.shared) await pool?.end()
  }

  async #explained<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      throw explain(error, this.name, this.dialect.schema)
    }
  }

  async #borrowed<T>(work: (client: PgClient) => Promise<T>): Promise<T> {
    const client = await this.#connect()
    // What breaks while nothing is asked is told by the next question.
    const ignore = (): void => {}
    client.on('error', ignore)
    let broken = false
    try {
      return await work(client)
    } catch (error) {
      broken = isBroken(error)
      throw error
    } finally {
      client.off('error', ignore)
      if (broken) destroy(client)
      else client.release()
    }
  }

  async #connect(): Promise<PgClient> {
    const connecting = (await this.#opened()).connect()
    try {
      return await answered(connecting, this.#answerMs)
    } catch (error) {
      // One that comes too late goes back.
      if (error instanceof NoAnswer)
        void connecting.then(
          (client) => client.release(),
          () => {},
        )
      throw error
    }
  }

  async #opened(): Promise<PgPool> {
    if (this.#closing) throw new JobtableError('store_unavailable', `the store of ${this.name} was closed: make a new one`)
    this.#pool ??= this.#open()
    return this.#pool
  }

  async #open(): Promise<PgPool> {
    const pool = isPool(this.#connection) ? this.#connection : await openPool(this.#connection)
    // An idle connection that breaks leaves the pool by itself.
    pool.on('error', () => {})
    return pool
  }

  async #inTransaction<T>(client: PgClient, work: () => Work<T>, answerMs: number): Promise<T> {
    await answered(client.query('BEGIN'), answerMs)
    try {
      const answer = await this.#steps(client, work, answerMs)
      await answered(client.query('COMMIT'), answerMs)
      return answer
    } catch (error) {
      if (!isBroken(error)) await answered(client.query('ROLLBACK'), answerMs).catch(() => destroy(client))
      throw error
    }
  }

  async #steps<T>(client: PgClient, work: () => Work<T>, answerMs: number): Promise<T> {
    const steps = work()
    let step = steps.next()
    while (!step.done) step = steps.next(await answered(ask(client, step.value), answerMs))
    return step.value
  }
}

async function ask(client: PgClient, { sql, params }: Query): Promise<readonly Values[]> {
  // A text of several statements, which only migrations have, is answered by several results without rows.
  return (await client.query({ text: sql, values: params, rowMode: 'array' })).rows ?? []
}

/** Rejects with `NoAnswer` when the promise is not settled in time. */
export async function answered<T>(answer: Promise<T>, ms: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new NoAnswer(ms)), ms)
  })
  try {
    return await Promise.race([answer, late])
  } finally {
    clearTimeout(timer)
    answer.catch(() => {}) // If it fails after all, nobody waits for it any more.
  }
}

/** Closes the socket at once: a polite farewell would wait for a peer that may be gone. */
export function destroy(client: PgClient): void {
  client.on('error', () => {})
  client.release(true)
  const { connection } = client as { connection?: { stream?: { destroy?(): void } } }
  connection?.stream?.destroy?.()
}

/** The database without secrets. */
function nameOf(connection: string | PgPool): string {
  if (typeof connection !== 'string') return 'postgres:(pool)'
  try {
    const { hostname, port, pathname } = new URL(connection)
    return `postgres://${hostname}${port && `:${port}`}${pathname}`
  } catch {
    return 'postgres:'
  }
}
