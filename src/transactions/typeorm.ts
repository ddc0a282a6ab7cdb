/** TypeORM on PostgreSQL: the manager of a transaction, or a query runner that has begun one. */
import { has, noTransaction, valuesOf, type TransactionAdapter } from './transaction.js'

/** What TypeORM's `dataSource.transaction` gives to its function. */
export interface TypeOrmManager {
  readonly queryRunner?: TypeOrmQueryRunner | undefined
  getRepository(...args: never[]): unknown
  save(...args: never[]): unknown
}

export interface TypeOrmQueryRunner {
  readonly isTransactionActive: boolean
  startTransaction(...args: never[]): unknown
}

interface QueryRunner {
  isTransactionActive: boolean
  isReleased: boolean
  /** Before version 1 it was named `connection`. */
  dataSource?: { options: { type: string } }
  connection?: { options: { type: string } }
  query(sql: string, params: unknown[], useStructuredResult: true): Promise<{ records: object[] }>
}

const INSTEAD = 'pass the manager that dataSource.transaction((manager) => ...) gives to its function'

export const typeorm: TransactionAdapter = {
  library: 'TypeORM',
  adapt(tx) {
    if (has(tx, 'createQueryRunner') && has(tx, 'getRepository')) throw noTransaction('a DataSource of TypeORM', INSTEAD)
    const runner = runnerOf(tx)
    if (runner === undefined) return undefined
    const isOpen = (): boolean => runner.isTransactionActive && !runner.isReleased
    if (!isOpen()) throw noTransaction('of TypeORM, and in no open transaction', INSTEAD)
    const type = (runner.dataSource ?? runner.connection)?.options.type
    if (type !== 'postgres') throw noTransaction(`a transaction of TypeORM on ${type}`, 'jobtable joins those on PostgreSQL')
    return {
      library: 'TypeORM',
      database: 'postgres',
      run: async ({ sql, params }) => ((await runner.query(sql, [...params], true)).records ?? []).map(valuesOf),
      isOpen,
      tells: true,
    }
  },
}

function runnerOf(tx: object): QueryRunner | undefined {
  if (has(tx, 'startTransaction') && 'isTransactionActive' in tx) return tx as unknown as QueryRunner
  if (!has(tx, 'getRepository') || !has(tx, 'save')) return undefined
  const { queryRunner } = tx as { queryRunner?: QueryRunner }
  if (queryRunner === undefined) throw noTransaction('the manager of a DataSource of TypeORM', INSTEAD)
  return queryRunner
}
