/**
 * The product's own tables, in the database of its jobs: SQLite or PostgreSQL, by the same URL. Kysely writes the same queries for both, and its
 * transactions are taken by `enqueue`.
 */
import { mkdirSync } from 'node:fs'
import { dirname } from 'node:path'
import BetterSqlite3 from 'better-sqlite3'
import type { JobTransaction } from 'jobtable'
import {
  CompiledQuery,
  Kysely,
  PostgresDialect,
  SqliteDialect,
  type DatabaseConnection,
  type Dialect,
  type Driver,
  type Generated,
} from 'kysely'
import pg from 'pg'
import { settings } from './settings.js'

export interface Tables {
  /** Every saved version of every visitor's document. */
  documents: { visitor: string; version: number; title: string; text: string }
  /** Which jobs are whose, what they are about in a word, and how often they were asked for. */
  activity: { job: string; visitor: string; type: string; about: string; asked: Generated<number> }
  /** What was paid, by the provider's event. */
  ledger: { event: string; visitor: string; credits: number }
  /** What lies in the other place already. */
  synced: { visitor: string; path: string; sha256: string }
}

/** A transaction that reads first and then writes is refused when another process has written in between; one that locks at once waits. */
class ImmediateSqlite extends SqliteDialect {
  override createDriver(): Driver {
    return Object.assign(super.createDriver(), {
      beginTransaction: async (connection: DatabaseConnection) => {
        await connection.executeQuery(CompiledQuery.raw('begin immediate'))
      },
    })
  }
}

const onPostgres = /^postgres(?:ql)?:/.test(settings.database)

export const database = new Kysely<Tables>({ dialect: onPostgres ? postgres() : sqlite() })

function postgres(): Dialect {
  const pool = new pg.Pool({ connectionString: settings.database, max: 5 })
  // Of a connection that nobody uses at the moment; the next query takes another one.
  pool.on('error', (error) => console.error(`a database connection was lost: ${error.message}`))
  return new PostgresDialect({ pool })
}

function sqlite(): Dialect {
  const file = settings.database.replace(/^sqlite:/, '')
  mkdirSync(dirname(file), { recursive: true })
  const connection = new BetterSqlite3(file)
  connection.pragma('journal_mode = WAL')
  return new ImmediateSqlite({ database: connection })
}

export async function makeTables(): Promise<void> {
  const make = (name: keyof Tables) => database.schema.createTable(name).ifNotExists()
  await make('documents')
    .addColumn('visitor', 'text', (column) => column.notNull())
    .addColumn('version', 'integer', (column) => column.notNull())
    .addColumn('title', 'text', (column) => column.notNull())
    .addColumn('text', 'text', (column) => column.notNull())
    .addPrimaryKeyConstraint('documents_key', ['visitor', 'version'])
    .execute()
  await make('activity')
    .addColumn('job', 'text', (column) => column.primaryKey())
    .addColumn('visitor', 'text', (column) => column.notNull())
    .addColumn('type', 'text', (column) => column.notNull())
    .addColumn('about', 'text', (column) => column.notNull())
    .addColumn('asked', 'integer', (column) => column.notNull().defaultTo(1))
    .execute()
  await database.schema.createIndex('activity_of_visitor').ifNotExists().on('activity').columns(['visitor', 'job']).execute()
  await make('ledger')
    .addColumn('event', 'text', (column) => column.primaryKey())
    .addColumn('visitor', 'text', (column) => column.notNull())
    .addColumn('credits', 'integer', (column) => column.notNull())
    .execute()
  await make('synced')
    .addColumn('visitor', 'text', (column) => column.notNull())
    .addColumn('path', 'text', (column) => column.notNull())
    .addColumn('sha256', 'text', (column) => column.notNull())
    .addPrimaryKeyConstraint('synced_key', ['visitor', 'path'])
    .execute()
}

/** Runs a query of Kysely in a transaction that `job.transaction` has opened: at once on SQLite, with a promise on PostgreSQL. */
export function runIn<Row extends object>(tx: JobTransaction, query: { compile(): CompiledQuery<Row> }): Row[] | Promise<Row[]> {
  const { sql, parameters } = query.compile()
  const values = parameters as (string | number | null)[]
  return onPostgres ? tx.query<Row>(sql, values) : tx.run<Row>(sql, values)
}
