/** Bringing the tables up. What is to be done is in `schema.ts`. */
import type { Work } from '../../transactions/transaction.js'
import { LONG_ANSWER_MS, type Database } from './database.js'
import { dialect } from './dialect.js'
import { bringUp, checkVersion, installed, isCurrent, lock, migrationScript, SCHEMA_VERSION } from './schema.js'

export async function migrate(database: Database): Promise<{ from: number; to: number }> {
  const { text, schema } = database.dialect
  const before = await database.run(() => installed(text, schema))
  checkVersion(before, database.name)
  if (isCurrent(before)) return { from: before.version, to: before.version }
  const work = function* (): Work<{ from: number; to: number }> {
    yield lock(schema)
    const found = yield* installed(text, schema)
    checkVersion(found, database.name)
    if (!isCurrent(found)) yield* bringUp(text, schema, found)
    return { from: found.version, to: Math.max(found.version, SCHEMA_VERSION) }
  }
  return database.run(work, { transaction: true, answerMs: LONG_ANSWER_MS })
}

/** What `migrate` does to an empty database, as a script for people who apply it themselves. */
export function postgresSchema(schema = 'public'): string {
  const { text } = dialect(schema)
  return migrationScript(text, schema)
}
