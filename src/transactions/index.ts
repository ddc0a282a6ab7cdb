/** Which libraries' transactions a job can join. */
import { JobtableError } from '../errors.js'
import { betterSqlite3, type BetterSqlite3Transaction } from './better-sqlite3.js'
import { drizzle, type DrizzleTransaction } from './drizzle.js'
import { knex, type KnexTransaction } from './knex.js'
import { kysely, type KyselyTransaction } from './kysely.js'
import { nodeSqlite, type NodeSqliteTransaction } from './node-sqlite.js'
import { own, type JobTransaction } from './own.js'
import { pg, type PgTransaction } from './pg.js'
import { postgresJs, type PostgresJsTransaction } from './postgres-js.js'
import { prisma, type PrismaTransaction } from './prisma.js'
import type { Transaction, TransactionAdapter } from './transaction.js'
import { typeorm, type TypeOrmManager, type TypeOrmQueryRunner } from './typeorm.js'

/**
 * An open transaction of the product's own:
 * - `pg`: the client on which BEGIN was run
 * - `postgres`, Drizzle, Kysely, Prisma, Knex, TypeORM: what the transaction's function is given
 * - better-sqlite3, `node:sqlite`: the connection, while a transaction is open on it
 * - `job.transaction`: what its function is given
 */
export type ProductTransaction =
  | PgTransaction
  | PostgresJsTransaction
  | DrizzleTransaction
  | KyselyTransaction
  | PrismaTransaction
  | KnexTransaction
  | TypeOrmManager
  | TypeOrmQueryRunner
  | BetterSqlite3Transaction
  | NodeSqliteTransaction
  | JobTransaction

/** The first that knows the object has it: those that look at a library's own mark stand before those that look at methods. */
const ADAPTERS: readonly TransactionAdapter[] = [
  drizzle,
  kysely,
  prisma,
  typeorm,
  knex,
  postgresJs,
  pg,
  betterSqlite3,
  nodeSqlite,
  own,
]

/** The product's object as a transaction. Throws `config_invalid` for what is none, which says what to pass in its place. */
export function adapt(tx: ProductTransaction): Transaction {
  if ((typeof tx === 'object' && tx !== null) || typeof tx === 'function') {
    for (const adapter of ADAPTERS) {
      const transaction = adapter.adapt(tx)
      if (transaction) return transaction
    }
  }
  throw new JobtableError(
    'config_invalid',
    `tx is no transaction that jobtable knows: pass an open one of ${ADAPTERS.map(({ library }) => library).join(', ')}`,
  )
}
