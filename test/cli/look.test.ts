import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import type { JobJson } from '../../src/cli/view.js'
import { describeLooks } from './look-suite.js'
import { cli, cliJson, job, SECRETS, sql, sqlitePlace, temporaryFolder, type Place } from './support.js'

const folder = temporaryFolder()
const MINUTE = 60_000
const at = (ageMs: number): number => Date.now() - ageMs

describe('on SQLite', () => {
  describeLooks(sqlitePlace)
})

describe('doctor', () => {
  interface Report {
    database: string
    ok: boolean
    findings: { level: string; code: string; message: string }[]
  }
  let sick: Place
  const find = (report: Report, code: string) => report.findings.filter((finding) => finding.code === code)

  beforeAll(async () => {
    sick = await sqlitePlace()
    await cli(['init', ...sick.db])
  })

  test('finds nothing wrong with a new database, and exits with 0', async () => {
    const { code, stdout } = await cli(['doctor', ...sick.db])
    expect(code).toBe(0)
    expect(stdout).toMatch(/All is well\.\n$/)
  })

  test('names a missing index and its remedy, exits with 1, and does not mend it by itself', async () => {
    await sick.sql('DROP INDEX jobs_key')
    for (let round = 0; round < 2; round++) {
      const { code, stdout } = await cli(['doctor', ...sick.db])
      expect(code).toBe(1)
      expect(stdout).toMatch(/error .*jobs_key is missing: run `jobtable migrate`/)
    }
    const migrated = await cli(['migrate', ...sick.db])
    expect(migrated.stdout).toContain('Created again what was missing: jobs_key')
    expect((await cli(['doctor', ...sick.db])).code).toBe(0)
  })

  test('tells due jobs that no worker serves, and calls them an error when they have waited long', async () => {
    await sick.insert('jobs', job('a', { type: 'mail', run_after: at(1_000) }))
    const young = await cliJson<Report>(['doctor', ...sick.db])
    expect(find(young, 'unserved')).toEqual([
      { level: 'warning', code: 'unserved', message: expect.stringContaining('no worker is running') as string },
    ])
    expect(young.ok).toBe(true)
    await sick.insert('jobs', job('b', { type: 'mail', run_after: at(10 * MINUTE) }))
    const old = await cliJson<Report>(['doctor', ...sick.db])
    expect(find(old, 'unserved')[0]).toMatchObject({
      level: 'error',
      message: expect.stringContaining('2 jobs of type mail in queue default are due, the oldest for 10m') as string,
    })
    expect((await cli(['doctor', ...sick.db])).code).toBe(1)
  })

  test('tells apart workers that do not know the type, do not serve the queue, and are lost', async () => {
    const worker = (id: string, leaseMs: number, queues: string[], types: string[]) => ({
      id,
      host: 'host1',
      pid: 4711,
      queues: JSON.stringify(queues),
      types: JSON.stringify(types),
      concurrency: 5,
      started_at: at(0),
      heartbeat_at: at(20 * MINUTE),
      lease_until: at(-leaseMs),
    })
    await sick.insert('job_workers', worker('w1', MINUTE, ['default'], ['export']), worker('w2', -MINUTE, ['default'], ['mail']))
    const report = await cliJson<Report>(['doctor', ...sick.db])
    expect(find(report, 'unserved')[0]!.message).toContain('no live worker knows the type mail')
    expect(find(report, 'worker_lost')[0]!.message).toMatch(/worker w2 \(process 4711 on host1\) was last heard of 20m ago/)
    await sick.insert('job_workers', worker('w3', MINUTE, ['other'], ['mail']))
    expect(find(await cliJson<Report>(['doctor', ...sick.db]), 'unserved')[0]!.message).toContain(
      'serves the queue default: start one with --queue default',
    )
    await sick.insert('job_workers', worker('w4', MINUTE, ['default'], ['mail']))
    const served = await cliJson<Report>(['doctor', ...sick.db])
    expect(find(served, 'served')).toHaveLength(1)
    expect(find(served, 'oldest_due')[0]).toMatchObject({
      level: 'warning',
      message: expect.stringContaining('waits for 10m') as string,
    })
    const { stdout } = await cli(['stats', ...sick.db])
    expect(stdout).toMatch(/^w2 +host1:4711 +lost +20m ago/m)
    expect(stdout).toMatch(/^w4 +host1:4711 +alive/m)
  })

  test('names the types that fail, and the commands that help', async () => {
    await sick.insert(
      'jobs',
      job('f1', { type: 'mail', status: 'failed' }),
      job('f2', { type: 'old', status: 'failed', created_at: at(3 * 86_400_000) }),
    )
    const failed = find(await cliJson<Report>(['doctor', ...sick.db]), 'failed')
    expect(failed.map(({ level }) => level).toSorted()).toEqual(['ok', 'warning'])
    expect(failed.find(({ level }) => level === 'warning')!.message).toContain('`jobtable retry --type mail`')
  })
})

describe('a database that is not there', () => {
  test.each([['list'], ['show', 'x'], ['why', 'x'], ['stats'], ['doctor'], ['cancel', 'x'], ['retry', 'x'], ['prune', '--yes']])(
    'is told by %s, and not made',
    async (...command) => {
      const missing = join(folder, 'missing.db')
      const { code, stdout, stderr } = await cli([...command, '--db', missing])
      expect([code, stdout]).toEqual([1, ''])
      expect(stderr).toMatch(/^jobtable: there is no database sqlite:.*missing\.db\n {2}.*jobtable init/)
      expect(existsSync(missing)).toBe(false)
    },
  )

  test('an existing file without tables is told apart, and looking at it makes none', async () => {
    const empty = join(folder, 'empty.db')
    writeFileSync(empty, '')
    const { code, stderr } = await cli(['list', '--db', empty])
    expect(code).toBe(1)
    expect(stderr).toMatch(/^jobtable: .*has no jobtable tables yet: run `jobtable migrate`/)
    expect(sql(empty, 'SELECT name FROM sqlite_schema')).toEqual([])
  })

  test('a file that is no database is told in one line, with the stack only on request', async () => {
    const text = join(folder, 'text.db')
    writeFileSync(text, 'This is no database, but a text that is long enough to look at. '.repeat(100))
    const { code, stderr } = await cli(['list', '--db', text])
    expect(code).toBe(1)
    expect(stderr).toMatch(/^jobtable: .*text\.db is damaged or no SQLite database.*\n$/)
    expect((await cli(['list', '--db', text, '--verbose'])).stderr).toMatch(/\n +at .*\n[^]*caused by: /)
    expect((await cli(['list', '--db', text], { env: { DEBUG: '1' } })).stderr).toMatch(/\n +at /)
  })

  test('memory is refused, since nothing of it is left for another process', async () => {
    expect((await cli(['list', '--db', ':memory:'])).code).toBe(2)
    expect((await cli(['init', '--db', 'sqlite::memory:'])).code).toBe(2)
  })
})

describe('the program itself', () => {
  test('takes the database from JOBTABLE_URL, which --db overrules', async () => {
    const { name, db, insert } = await sqlitePlace()
    await cli(['init', ...db])
    await insert('jobs', job('a', {}))
    const env = { JOBTABLE_URL: name }
    expect((await cliJson<JobJson[]>(['list'], { env })).length).toBe(1)
    expect((await cli(['list', '--db', join(folder, 'missing.db')], { env })).code).toBe(1)
    expect((await cli([...db, 'list'])).code).toBe(0)
  })

  test('prints its version and helps, with examples', async () => {
    expect((await cli(['--version'])).stdout).toMatch(/^\d+\.\d+\.\d+\n$/)
    const help = await cli(['--help'])
    expect([help.code, help.stderr]).toEqual([0, ''])
    expect(help.stdout).toMatch(/Examples:/)
    for (const command of ['list', 'work', 'enqueue', 'retry']) {
      const { code, stdout } = await cli([command, '--help'])
      expect([code, stdout.includes('Examples:'), stdout.includes('--db <url-or-path>')]).toEqual([0, true, true])
    }
  })

  test.each([
    [['frobnicate'], /^jobtable: unknown command 'frobnicate'/],
    [['lits'], /Did you mean list\?/],
    [['list', '--nope'], /^jobtable: unknown option '--nope'/],
    [['show'], /^jobtable: missing required argument 'id'/],
    [['list', '--status', 'done'], /Statuses are pending, running/],
    [['list', '--limit', '0'], /whole number from 1/],
    [['list', '--older-than', '5'], /no duration/],
    [['retry', '--status', 'succeeded'], /Statuses are failed, canceled/],
    [[], /^Usage: jobtable/],
  ])('answers wrong usage %j with exit code 2', async (args, message) => {
    const { code, stdout, stderr } = await cli(args)
    expect([code, stdout]).toEqual([2, ''])
    expect(stderr).toMatch(message)
  })
})

test('no password of a URL is shown', async () => {
  const wrong = await cli(['list', '--db', 'mysql://ada:pw42@db.example.com/app', '--verbose'])
  expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining('mysql://ada:[masked]@db.example.com/app')])
  expect(wrong.stderr).not.toMatch(SECRETS)
  const away = await cli(['list', '--db', 'postgres://ada:pw42@127.0.0.1:1/app', '--verbose'])
  expect([away.code, away.stderr]).toEqual([1, expect.stringContaining('postgres://127.0.0.1:1/app cannot be reached')])
  expect(away.stderr).not.toMatch(SECRETS)
})
