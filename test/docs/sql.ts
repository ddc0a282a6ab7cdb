/** Whether SQLite accepts a document's statements on a database that jobtable has made. */
import Database from 'better-sqlite3'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { jobtable } from 'jobtable'

interface Connection {
  exec(sql: string): unknown
  prepare(sql: string): unknown
  close(): unknown
}

/** What is wrong with the statements of a block, one sentence for each. Those with parameters are only prepared. */
export async function checkStatements(script: string): Promise<string[]> {
  const folder = mkdtempSync(join(tmpdir(), 'jobtable-docs-'))
  const file = join(folder, 'app.db')
  const queue = jobtable(`sqlite:${file}`)
  await queue.open()
  const database = connect(file)
  try {
    return statementsOf(script).flatMap((statement) => {
      try {
        if (/[?@:$]\w/.test(statement.replaceAll(/'[^']*'/g, ''))) database.prepare(statement)
        else database.exec(statement)
        return []
      } catch (error) {
        return [`${statement}: ${String(error)}`]
      }
    })
  } finally {
    database.close()
    await queue.close()
    rmSync(folder, { recursive: true, force: true })
  }
}

/** The addon is built for one version of Node; where it does not load, Node's own SQLite is there. */
function connect(file: string): Connection {
  const sqlite = process.getBuiltinModule('node:sqlite' as 'node:fs') as unknown as
    | { DatabaseSync: new (path: string) => Connection }
    | undefined
  return sqlite ? new sqlite.DatabaseSync(file) : new Database(file)
}

export function statementsOf(script: string): string[] {
  return script
    .replaceAll(/^\s*--.*$/gm, '')
    .split(/;\s*(?:\n|$)/)
    .map((statement) => statement.trim())
    .filter((statement) => statement !== '')
}
