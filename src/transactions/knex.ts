/** Knex on PostgreSQL. */
import { has, noTransaction, type TransactionAdapter, type Values } from './transaction.js'

/** A `Knex.Transaction`. */
export interface KnexTransaction {
  isCompleted(): boolean
  raw(...args: never[]): unknown
}

interface Knex {
  isTransaction?: boolean
  client: { dialect?: string }
  isCompleted(): boolean
  raw(sql: string): { options(options: object): PromiseLike<{ rows: Values[] }> }
}

export const knex: TransactionAdapter = {
  library: 'Knex',
  adapt(object) {
    if (!has(object, 'raw') || !('client' in object)) return undefined
    const trx = object as unknown as Knex
    if (!trx.isTransaction || !has(object, 'isCompleted')) {
      throw noTransaction('knex itself', 'pass the trx that knex.transaction((trx) => ...) gives to its function')
    }
    if (trx.client.dialect !== 'postgresql')
      throw noTransaction(`a transaction of Knex on ${trx.client.dialect}`, 'jobtable joins those on PostgreSQL')
    const isOpen = (): boolean => !trx.isCompleted()
    if (!isOpen()) throw noTransaction('a transaction of Knex that is over', 'enqueue before its commit')
    return {
      library: 'Knex',
      database: 'postgres',
      // Its own bindings are question marks, one for each use; the options go to pg as they are, parameters and all.
      run: async ({ sql, params }) =>
        (await trx.raw(sql.replaceAll('?', '\\?')).options({ rowMode: 'array', values: [...params] })).rows,
      isOpen,
      tells: true,
    }
  },
}
