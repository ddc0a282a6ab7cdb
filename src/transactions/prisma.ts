/** Prisma on PostgreSQL: the client of an interactive transaction. */
import { has, noTransaction, valuesOf, type TransactionAdapter } from './transaction.js'

/** What Prisma's `$transaction` gives to its function. */
export interface PrismaTransaction {
  $queryRawUnsafe(...args: never[]): unknown
  /** A client has it, a transaction has not. */
  $connect?: never
}

interface TransactionClient {
  $queryRawUnsafe(sql: string, ...params: unknown[]): PromiseLike<object[]>
}

export const prisma: TransactionAdapter = {
  library: 'Prisma',
  adapt(tx) {
    if (!has(tx, '$queryRawUnsafe')) return undefined
    if (has(tx, '$connect')) {
      throw noTransaction('a PrismaClient', 'pass the tx that prisma.$transaction(async (tx) => ...) gives to its function')
    }
    const client = tx as unknown as TransactionClient
    return {
      library: 'Prisma',
      database: 'postgres',
      run: async ({ sql, params }) => (await client.$queryRawUnsafe(sql, ...params)).map(valuesOf),
      isOpen: () => true,
    }
  },
}
