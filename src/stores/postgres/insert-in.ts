/** Enqueueing in a transaction of the product's own, on a connection of the product's own. */
import { JobtableError } from '../../errors.js'
import type { InsertOutcome, NewJob } from '../../store.js'
import { runIn, type Transaction } from '../../transactions/transaction.js'
import type { Database } from './database.js'
import { explain, sqlState } from './failure.js'
import { insertAll } from './insert.js'

export function insertIn(
  database: Database,
  transaction: Transaction,
  jobs: readonly NewJob[],
): InsertOutcome[] | Promise<InsertOutcome[]> {
  if (transaction.database !== 'postgres') {
    throw new JobtableError(
      'config_invalid',
      `the transaction of ${transaction.library} is one of SQLite, and this queue is in PostgreSQL (${database.name}): a job joins only a transaction of the queue's own database`,
    )
  }
  return jobs.length === 0 ? [] : explained(database, transaction, jobs)
}

async function explained(
  { name, dialect: { schema, text } }: Database,
  transaction: Transaction,
  jobs: readonly NewJob[],
): Promise<InsertOutcome[]> {
  try {
    // Not quiet: the trigger tells at the product's commit.
    return await runIn(transaction, insertAll(text, jobs, { quiet: false }))
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
