/**
 * Which database this is, for a product's transaction that is in another one: there a job would be written where no worker of this queue
 * sees it. Two are told apart by their names and by the moment at which their tables were made. It is read once, on a connection of the
 * store, and the statements that enqueue in a transaction compare it themselves, which costs no exchange more.
 */
import { JobtableError } from '../../errors.js'
import { within } from '../../timers.js'
import type { Transaction, Values, Work } from '../../transactions/transaction.js'
import type { Database } from './database.js'

/** What the store waits for at most: a pool of the product's may have no connection to give before the transaction is over. */
const LONGEST_WAIT_MS = 1_000

/** Text, whatever the session's settings say of numbers and times. */
export const IDENTITY = `(SELECT current_database() || ' ' || coalesce((extract(epoch FROM min(migrations.applied_at)) * 1000000)::bigint::text, '')
  FROM {migrations} AS migrations)`

export class Identity {
  readonly #database: Database
  #known: string | undefined
  #asking: Promise<void> | undefined

  constructor(database: Database) {
    this.#database = database
  }

  /** Undefined while it is not known. */
  get known(): string | undefined {
    return this.#known
  }

  /** Resolves when it is known, or cannot be known now: what is wrong then is told by the enqueue itself, if it is wrong there too. */
  ask(): Promise<void> {
    this.#asking ??= within(LONGEST_WAIT_MS, this.#read())
      .then(
        (known) => void (this.#known = known),
        () => {},
      )
      .finally(() => (this.#asking = undefined))
    return this.#asking
  }

  async #read(): Promise<string | undefined> {
    if (!(await this.#database.hasRoom())) return undefined
    const { text } = this.#database.dialect
    return this.#database.run(function* (): Work<string> {
      const [found] = yield { sql: text(`SELECT ${IDENTITY} AS identity`), params: [] }
      return found![0] as string
    })
  }
}

/** Throws for a transaction of another database than this one. */
export function checkIdentity(found: Values, expected: string | undefined, at = 0): void {
  const there = found[at] as string
  if (expected === undefined || there === expected) return
  const [name, other] = [there, expected].map((identity) => identity.slice(0, identity.lastIndexOf(' ')))
  const where = name === other ? `another database of the name ${name}` : `another database, ${name}`
  throw new JobtableError(
    'config_invalid',
    `tx is a transaction of ${where}, and this queue is in ${other}: nothing was enqueued; pass one of the database that the queue is in`,
    { data: { database: name } },
  )
}

export function stillOpen(transaction: Transaction): void {
  if (transaction.isOpen()) return
  throw new JobtableError(
    'transaction_over',
    `the transaction of ${transaction.library} ended before the job was enqueued in it: await the enqueue within it`,
  )
}
