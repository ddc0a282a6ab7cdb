import type pg from 'pg'
import { describe } from 'vitest'
import { concurrently } from './concurrent.js'
import { listeningPool, onPostgres } from './postgres.js'
import { describeTransactions } from './suite.js'

const open = async (url: string) => {
  const { pool, statements } = listeningPool(url)
  const idle = await pool.connect()
  return {
    transaction: async <T>(work: (tx: pg.PoolClient) => Promise<T>): Promise<T> => {
      const client = await pool.connect()
      try {
        await client.query('BEGIN')
        const answer = await work(client)
        await client.query('COMMIT')
        return answer
      } catch (error) {
        await client.query('ROLLBACK')
        throw error
      } finally {
        client.release()
      }
    },
    refused: (): Record<string, [object, RegExp]> => ({
      'a pool': [pool, /a pool of pg: take a client.*run BEGIN/],
      'a client outside of a transaction': [idle, /outside of a transaction: await client\.query\('BEGIN'\)/],
    }),
    statements: () => statements,
    close: async () => {
      idle.release()
      await pool.end()
    },
  }
}

describe('pg', () => {
  describeTransactions<pg.PoolClient>({ on: onPostgres, open })
  concurrently<pg.PoolClient>({ on: onPostgres, open })
})
