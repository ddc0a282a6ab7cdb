import type BetterSqlite3 from 'better-sqlite3'
import type { BetterSQLite3Database } from 'drizzle-orm/better-sqlite3'
import type { NodePgDatabase } from 'drizzle-orm/node-postgres'
import type { PostgresJsDatabase } from 'drizzle-orm/postgres-js'
import type { Knex } from 'knex'
import type { ControlledTransaction, Kysely, Transaction as KyselyTransaction } from 'kysely'
import type pg from 'pg'
import type { ReservedSql, Sql, TransactionSql } from 'postgres'
import type { DataSource, EntityManager, QueryRunner } from 'typeorm'
import { expectTypeOf, it } from 'vitest'
import type { ProductTransaction } from '../../src/index.js'

// What is stated here is checked by `npm run typecheck`.
type TxOf<F extends (work: never) => unknown> = Parameters<F>[0] extends (tx: infer Tx) => unknown ? Tx : never
interface PrismaClient {
  $connect(): Promise<void>
  $queryRawUnsafe(query: string, ...values: unknown[]): Promise<unknown>
}

it('the compiler takes the transactions of every library', () => {
  expectTypeOf<pg.Client>().toExtend<ProductTransaction>()
  expectTypeOf<pg.PoolClient>().toExtend<ProductTransaction>()
  expectTypeOf<TransactionSql>().toExtend<ProductTransaction>()
  expectTypeOf<TxOf<NodePgDatabase['transaction']>>().toExtend<ProductTransaction>()
  expectTypeOf<TxOf<NodePgDatabase<{ orders: never }>['transaction']>>().toExtend<ProductTransaction>()
  expectTypeOf<TxOf<PostgresJsDatabase['transaction']>>().toExtend<ProductTransaction>()
  expectTypeOf<TxOf<BetterSQLite3Database['transaction']>>().toExtend<ProductTransaction>()
  expectTypeOf<KyselyTransaction<{ orders: { id: string } }>>().toExtend<ProductTransaction>()
  expectTypeOf<ControlledTransaction<{ orders: { id: string } }>>().toExtend<ProductTransaction>()
  expectTypeOf<Omit<PrismaClient, '$connect'>>().toExtend<ProductTransaction>()
  expectTypeOf<Knex.Transaction>().toExtend<ProductTransaction>()
  expectTypeOf<EntityManager>().toExtend<ProductTransaction>()
  expectTypeOf<QueryRunner>().toExtend<ProductTransaction>()
  expectTypeOf<BetterSqlite3.Database>().toExtend<ProductTransaction>()
})

it('the compiler refuses what is no transaction', () => {
  expectTypeOf<pg.Pool>().not.toExtend<ProductTransaction>()
  expectTypeOf<Sql>().not.toExtend<ProductTransaction>()
  expectTypeOf<ReservedSql>().not.toExtend<ProductTransaction>()
  expectTypeOf<NodePgDatabase>().not.toExtend<ProductTransaction>()
  expectTypeOf<PostgresJsDatabase>().not.toExtend<ProductTransaction>()
  expectTypeOf<BetterSQLite3Database>().not.toExtend<ProductTransaction>()
  expectTypeOf<Kysely<{ orders: { id: string } }>>().not.toExtend<ProductTransaction>()
  expectTypeOf<PrismaClient>().not.toExtend<ProductTransaction>()
  expectTypeOf<Knex>().not.toExtend<ProductTransaction>()
  expectTypeOf<DataSource>().not.toExtend<ProductTransaction>()
  expectTypeOf<object>().not.toExtend<ProductTransaction>()
  expectTypeOf<string>().not.toExtend<ProductTransaction>()
})
