/**
 * Work that runs on the store's own connection as well as in a transaction of the product's, statement by statement.
 */
import { runIn, type Query, type Transaction, type Values, type Work } from '../../transactions/transaction.js'
import type { Sql } from './database.js'

export interface Step extends Query {
  /**
   * It changes rows, and what is to be known of it is only whether it did: the answer has rows when it did, of no use otherwise. The
   * store's own connection counts the changes, which costs less than RETURNING; what a product's library tells of them differs.
   */
  writes?: true
}

export type SqliteWork<T> = Generator<Step, T, readonly Values[]>

const CHANGED: readonly Values[] = [[]]
const UNCHANGED: readonly Values[] = []

export function runHere<T>(sql: Sql, work: SqliteWork<T>): T {
  let step = work.next()
  while (!step.done) {
    const { sql: text, params, writes } = step.value
    step = work.next(writes ? (sql.run(text, ...params) > 0 ? CHANGED : UNCHANGED) : sql.all(text, ...params))
  }
  return step.value
}

export function runThere<T>(transaction: Transaction, work: SqliteWork<T>): T | Promise<T> {
  return runIn(transaction, returning(work))
}

function* returning<T>(work: SqliteWork<T>): Work<T> {
  let step = work.next()
  while (!step.done) {
    const { sql, params, writes } = step.value
    let rows: readonly Values[]
    try {
      rows = yield { sql: writes ? `${sql} RETURNING 1 AS changed` : sql, params }
    } catch (error) {
      step = work.throw(error)
      continue
    }
    step = work.next(rows)
  }
  return step.value
}
