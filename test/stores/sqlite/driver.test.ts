import { spawnSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import { openDriver } from '../../../src/stores/sqlite/driver.js'
import { sqliteStore } from '../../../src/stores/sqlite/index.js'
import { DRIVERS, PRESENT, absence, temporaryFolder } from './support.js'

const builtin = absence('node:sqlite')
const DRIVER_FILE = new URL('../../../src/stores/sqlite/driver.ts', import.meta.url).href

describe.each(DRIVERS)('%s', (driver) => {
  const reason = absence(driver)
  it.skipIf(reason)(
    `answers with rows as arrays and with the number of changed rows${reason ? ` (skipped: ${reason})` : ''}`,
    () => {
      const opened = openDriver(':memory:', { driver })
      opened.exec('CREATE TABLE t (a INTEGER, b TEXT) STRICT')
      expect(opened.prepare('INSERT INTO t VALUES (?2, ?1), (?2, NULL)').run('x', 1_700_000_000_000)).toBe(2)
      expect(opened.prepare('SELECT a, b FROM t ORDER BY rowid').all()).toEqual([
        [1_700_000_000_000, 'x'],
        [1_700_000_000_000, null],
      ])
      expect(opened.prepare('DELETE FROM t WHERE b = ?').run('y')).toBe(0)
      opened.close()
    },
  )

  it.skipIf(reason)(`takes numbered parameters in any order and number of uses${reason ? ` (skipped: ${reason})` : ''}`, () => {
    const opened = openDriver(':memory:', { driver })
    expect(opened.prepare('SELECT ?2, ?1, ?2, ?12').all('a', 'b', 3, 4, 5, 6, 7, 8, 9, 10, 11, 'l')).toEqual([
      ['b', 'a', 'b', 'l'],
    ])
    opened.close()
  })
})

it('the default is node:sqlite where Node has it, else better-sqlite3', () => {
  const opened = openDriver(':memory:')
  expect(opened.name).toBe(builtin ? 'better-sqlite3' : 'node:sqlite')
  opened.close()
})

it.runIf(builtin)('asking for node:sqlite where Node lacks it is refused, naming both ways out', async () => {
  const { file, remove } = temporaryFolder()
  const store = sqliteStore({ path: file, driver: 'node:sqlite' })
  await expect(store.migrate()).rejects.toMatchObject({
    code: 'driver_missing',
    message: expect.stringMatching(/Node 22.*npm install better-sqlite3/s) as string,
  })
  remove()
})

it('opening a database prints no warning', () => {
  const code = `const { openDriver } = await import(${JSON.stringify(DRIVER_FILE)}); openDriver(':memory:').close(); process.emitWarning('another')`
  const { stderr, status } = spawnSync(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', code], {
    encoding: 'utf8',
  })
  expect(status).toBe(0)
  expect(stderr).not.toContain('SQLite')
  expect(stderr).toContain('another')
})

it.runIf(PRESENT.includes('node:sqlite'))('the prefix of node:sqlite survives this test runner', () => {
  const opened = openDriver(':memory:', { driver: 'node:sqlite' })
  expect(opened.prepare('SELECT 1').all()).toEqual([[1]])
  opened.close()
})
