/** As `places.ts`, on PostgreSQL. */
import pg from 'pg'
import { jobtable } from '../../src/index.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { emptyDatabase } from '../support/postgres/database.js'
import { defineReport, silent, type Product } from './places.js'

export async function onPostgres(): Promise<Product> {
  const url = await emptyDatabase()
  const queue = jobtable('', { store: postgresStore({ connection: url }), logger: silent })
  await queue.open()
  const untabled = jobtable('', { store: postgresStore({ connection: url, schema: 'nowhere' }), logger: silent })
  const close = async () => void (await Promise.all([queue.close(), untabled.close()]))
  return { queue, database: url, report: defineReport(queue), untabled, close }
}

/** A pool whose clients write down the statements they send. */
export function listeningPool(url: string): { pool: pg.Pool; statements: string[] } {
  const statements: string[] = []
  const pool = new pg.Pool({ connectionString: url })
  pool.on('connect', (client) => {
    const query = client.query.bind(client) as (...args: unknown[]) => unknown
    client.query = ((...args: unknown[]) => {
      const [first] = args
      statements.push(typeof first === 'string' ? first : (first as { text: string }).text)
      return query(...args)
    }) as typeof client.query
  })
  return { pool, statements }
}
