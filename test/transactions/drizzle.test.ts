import { drizzle as onPg, type NodePgDatabase } from 'drizzle-orm/node-postgres'
import { drizzle as onPostgresJs, type PostgresJsDatabase } from 'drizzle-orm/postgres-js'
import postgres from 'postgres'
import { describe } from 'vitest'
import { listeningPool, onPostgres } from './postgres.js'
import { describeTransactions } from './suite.js'

describe('Drizzle on pg', () => {
  describeTransactions<Parameters<Parameters<NodePgDatabase['transaction']>[0]>[0]>({
    on: onPostgres,
    open: async (url) => {
      const { pool, statements } = listeningPool(url)
      const db = onPg(pool)
      return {
        transaction: (work) => db.transaction(work),
        refused: () => ({ 'the db': [db, /db of Drizzle itself.*db\.transaction\(\(tx\)/] }),
        statements: () => statements,
        close: () => pool.end(),
      }
    },
  })
})

describe('Drizzle on postgres, in a savepoint', () => {
  describeTransactions<Parameters<Parameters<PostgresJsDatabase['transaction']>[0]>[0]>({
    on: onPostgres,
    open: async (url) => {
      const client = postgres(url)
      const db = onPostgresJs(client)
      return {
        transaction: (work) => db.transaction((tx) => tx.transaction((inner) => work(inner))),
        refused: () => ({ 'the db': [db, /db of Drizzle itself/], 'its client': [client, /the sql of postgres itself/] }),
        close: () => client.end(),
      }
    },
  })
})
