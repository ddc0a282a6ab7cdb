import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { describeChanges } from './change-suite.js'
import { cli, cliJson, sqlitePlace, temporaryFolder } from './support.js'

describe('on SQLite', () => {
  describeChanges(sqlitePlace, 4)
})

describe('init', () => {
  test('writes a first job only when asked, and never over a file', async () => {
    const { db } = await sqlitePlace()
    const module = join(temporaryFolder(), 'first.mjs')
    await cli(['init', ...db])
    expect(existsSync(module)).toBe(false)
    const { code, stdout } = await cli(['init', ...db, '--example', module])
    expect([code, stdout]).toEqual([0, expect.stringContaining(`Wrote ${module}`)])
    const text = readFileSync(module, 'utf8')
    const again = await cli(['init', ...db, '--example', module])
    expect([again.code, again.stderr]).toEqual([2, expect.stringContaining('exists already')])
    expect(readFileSync(module, 'utf8')).toBe(text)
  })
})

test('enqueue says so when it has made a new database', async () => {
  const { db, name, sql } = await sqlitePlace()
  const { code, stderr } = await cli(['enqueue', 'mail', ...db])
  expect([code, stderr]).toEqual([0, `jobtable: made the new database ${name}\n`])
  expect(await sql('SELECT payload FROM jobs')).toEqual([['{}']])
})

test('migrate --print shows the SQL that makes the same tables, and makes none', async () => {
  const [printed, migrated] = [await sqlitePlace(), await sqlitePlace()]
  const { stdout } = await cli(['migrate', '--print', ...printed.db])
  expect(await cliJson(['migrate', '--print', ...printed.db])).toEqual({ sql: stdout })
  expect(existsSync(printed.db[1]!)).toBe(false)
  await printed.sql(stdout)
  await cli(['migrate', ...migrated.db])
  const tables = 'SELECT type, name, sql FROM sqlite_schema ORDER BY type, name'
  expect(await printed.sql(tables)).toEqual(await migrated.sql(tables))
  expect((await cli(['migrate', ...printed.db])).stdout).toBe(`${printed.name} is at version 4.\n`)
})
