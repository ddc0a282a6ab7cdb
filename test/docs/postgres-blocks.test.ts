import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { jobtable } from 'jobtable'
import { emptyDatabase } from '../support/postgres/database.js'
import { documents, readBlocks } from './blocks.js'
import { statementsOf } from './sql.js'

const blocks = documents()
  .flatMap(readBlocks)
  .filter(({ check }) => check === 'postgres')

let client: pg.Client
beforeAll(async () => {
  const url = await emptyDatabase()
  const queue = jobtable(url, { schema: 'jobtable' })
  await queue.open()
  await queue.close()
  client = new pg.Client({ connectionString: url })
  await client.connect()
})
afterAll(() => client.end())

// Roles belong to the whole server: nothing of a document is kept.
test.each(blocks.map((block) => [`${block.document}:${block.line}`, block] as const))(
  'PostgreSQL accepts the statements of %s',
  async (_, block) => {
    await client.query('BEGIN')
    try {
      for (const statement of statementsOf(block.code)) await client.query(statement)
    } finally {
      await client.query('ROLLBACK')
    }
    expect(statementsOf(block.code)).not.toEqual([])
  },
)
