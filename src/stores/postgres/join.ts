/** Work in a transaction that somebody else commits: the product's, on a connection of its own, or one that this store lent. */
import { JobtableError } from '../../errors.js'
import { runIn, type Transaction, type Work } from '../../transactions/transaction.js'
import type { Database } from './database.js'
import { explain, sqlState } from './failure.js'

/** Throws at once what is no transaction of PostgreSQL. */
export function join<T>(database: Database, transaction: Transaction, work: () => Work<T>): Promise<T> {
  if (transaction.database !== 'postgres') {
    throw new JobtableError(
      'config_invalid',
      `the transaction of ${transaction.library} is one of SQLite, and this queue is in PostgreSQL (${database.name}): a job joins only a transaction of the queue's own database`,
    )
  }
  return explained(database, transaction, work)
}

async function explained<T>({ name, dialect: { schema } }: Database, transaction: Transaction, work: () => Work<T>): Promise<T> {
  try {
    return await runIn(transaction, work())
  } catch (error) {
    const explained = explain(reasonOf(error), name, schema)
    // What else goes wrong is the product's transaction's own affair, and comes as its library says it.
    throw explained instanceof JobtableError && explained.code === 'schema_missing' ? explained : error
  }
}

/** The server's error within whatever the library made of it: the innermost, since the codes of Prisma look like those of the server. */
function reasonOf(error: unknown): unknown {
  let found = error
  for (let at = error, depth = 0; isObject(at) && depth < 10; depth++) {
    // Prisma passes on the server's words, and not its error.
    const { originalCode: code, originalMessage: message } = at
    if (sqlState(at) !== undefined) found = at
    else if (typeof code === 'string') found = Object.assign(new Error(String(message), { cause: error }), { code })
    at = [at['cause'], at['driverError'], at['meta'], at['driverAdapterError']].find(isObject)
  }
  return found
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}
