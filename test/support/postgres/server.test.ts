import { expect, it } from 'vitest'
import { emptyDatabase, freeSchema, quoted } from './database.js'
import { TestServer, query } from './server.js'

it('schemas have names of their own, in one database per file, and go when they are dropped', async () => {
  const [one, other] = await Promise.all([freeSchema(), freeSchema()])
  expect(other.schema).not.toBe(one.schema)
  expect(other.url).toBe(one.url)

  const schemas = () =>
    one.query('SELECT nspname AS name FROM pg_namespace WHERE nspname IN ($1, $2)', [one.schema, other.schema])
  expect(await schemas()).toEqual([])
  await one.query(`CREATE SCHEMA ${quoted(one.schema)} CREATE TABLE things (id int)`)
  expect(await schemas()).toEqual([{ name: one.schema }])
  await one.drop()
  await other.drop()
  expect(await schemas()).toEqual([])
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
