import { expect, it } from 'vitest'
import { emptyDatabase, emptySchema, quoted } from './database.js'
import { TestServer, query } from './server.js'

it('each schema is empty, in one database per file, and goes when it is dropped', async () => {
  const [one, other] = await Promise.all([emptySchema(), emptySchema()])
  expect(other.schema).not.toBe(one.schema)
  expect(other.url).toBe(one.url)
  await one.query(`CREATE TABLE ${quoted(one.schema)}.things (id int)`)

  const tables = async (schema: string) => one.query('SELECT tablename AS name FROM pg_tables WHERE schemaname = $1', [schema])
  expect(await tables(one.schema)).toEqual([{ name: 'things' }])
  expect(await tables(other.schema)).toEqual([])
  await one.drop()
  await other.drop()
  expect(await tables(one.schema)).toEqual([])
})

it('a database of its own has nothing of the others', async () => {
  const url = await emptyDatabase()
  await query(url, 'CREATE TABLE things (id int)')
  expect(await query(await emptyDatabase(), `SELECT to_regclass('things') AS found`)).toEqual([{ found: null }])
})

it('a server comes back after a crash, and its standby takes over', async () => {
  const server = await TestServer.create()
  await server.query('CREATE TABLE things (id int)')
  await server.query('INSERT INTO things VALUES (1)')
  await server.restart('immediate')
  expect(server.log).toContain('database system was not properly shut down')

  const standby = await server.standby()
  await server.query('INSERT INTO things VALUES (2)')
  await server.caughtUp(standby)
  await expect(standby.query('INSERT INTO things VALUES (3)')).rejects.toThrow('read-only transaction')

  await server.stop('immediate')
  await standby.query('SELECT pg_promote()')
  await standby.query('INSERT INTO things VALUES (3)')
  expect(await standby.query('SELECT id FROM things ORDER BY id')).toEqual([{ id: 1 }, { id: 2 }, { id: 3 }])
  await standby.remove()
  await server.remove()
})
