import { randomBytes } from 'node:crypto'
import { afterAll, describe, expect, test } from 'vitest'
import type { JobJson } from '../../src/cli/view.js'
import { quoted } from '../support/postgres/database.js'
import { query } from '../support/postgres/server.js'
import { describeChanges } from './change-suite.js'
import { describeLooks } from './look-suite.js'
import { postgresPlace, type PostgresPlace } from './postgres-place.js'
import { describeWork } from './work-suite.js'
import { cli, cliJson, job, moduleOf, SECRETS, spawnCli, sqlitePlace, temporaryFolder, write } from './support.js'

describe('on PostgreSQL', () => {
  describeChanges(postgresPlace, 5)
  describeLooks(postgresPlace)
  describeWork(postgresPlace)
})

const MODULE = moduleOf('async () => {}')

async function worksOn(args: readonly string[], env: NodeJS.ProcessEnv): Promise<string> {
  const folder = temporaryFolder()
  write(folder, 'jobs.mjs', MODULE)
  const { child, line, ended } = spawnCli(folder, ['work', 'jobs.mjs', ...args], env)
  const ready = await line(/is ready on/)
  await line(/^succeeded: 1 mail$/)
  child.kill('SIGTERM')
  expect((await ended).code).toBe(0)
  return ready
}

describe('the schema', () => {
  test('is the one of --schema, of the URL, or public', async () => {
    const { url, schema } = await postgresPlace()
    const inUrl = `${url}?schema=${encodeURIComponent(schema)}`
    await cli(['enqueue', 'mail', '--id', 'here', '--db', url, '--schema', schema])
    await cli(['enqueue', 'mail', '--id', 'public', '--db', url])
    const ids = async (...args: string[]) => (await cliJson<JobJson[]>(['list', ...args])).map(({ id }) => id)
    expect(await ids('--db', inUrl)).toEqual(['here'])
    expect(await ids('--db', url)).toEqual(['public'])
    expect(await ids('--db', inUrl, '--schema', 'public')).toEqual(['public'])
    expect((await cliJson<JobJson[]>(['list'], { env: { JOBTABLE_URL: inUrl } })).map(({ id }) => id)).toEqual(['here'])
  })

  test('that enqueue has made is told, since its name may be a mistake', async () => {
    const { db, name } = await postgresPlace()
    expect((await cli(['enqueue', 'mail', ...db])).stderr).toBe(
      `jobtable: made the tables, which were not there yet, in ${name}\n`,
    )
    expect((await cli(['enqueue', 'mail', ...db])).stderr).toBe('')
  })

  test('means nothing to SQLite', async () => {
    const { code, stderr } = await cli(['list', ...(await sqlitePlace()).db, '--schema', 'jobs'])
    expect([code, stderr]).toEqual([2, expect.stringMatching(/^jobtable: --schema is for PostgreSQL, .*\n {2}leave it out/)])
  })

  test('that has no tables yet is told by every command that only looks, and stays without', async () => {
    const { db, sql } = await postgresPlace()
    for (const command of [
      ['list'],
      ['show', 'x'],
      ['why', 'x'],
      ['stats'],
      ['cancel', 'x'],
      ['retry', 'x'],
      ['prune', '--yes'],
    ]) {
      const { code, stderr } = await cli([...command, ...db])
      expect([code, stderr]).toEqual([1, expect.stringMatching(/lacks a part of jobtable's tables.*run `jobtable migrate`/)])
    }
    expect((await cli(['doctor', ...db])).stdout).toContain('there are no jobtable tables yet: run `jobtable migrate`')
    expect(await sql(`SELECT current_schema()`)).toEqual([[null]])
  })

  test('with a table jobs of somebody else is refused, with what to do', async () => {
    const { db, schema, sql } = await postgresPlace()
    await sql(`CREATE SCHEMA ${quoted(schema)}`)
    await sql('CREATE TABLE jobs (id int)')
    const { code, stderr } = await cli(['init', ...db])
    expect([code, stderr]).toEqual([
      1,
      expect.stringMatching(/a table named jobs that jobtable did not make: give jobtable a schema of its own/),
    ])
  })
})

describe('work', () => {
  test('runs the jobs of a module that names no database, in the schema that the command names', async () => {
    const place = await postgresPlace()
    await cli(['enqueue', 'mail', ...place.db])
    expect(await worksOn(place.db, {})).toContain(` is ready on ${place.name}: types mail; `)
    expect(await place.sql('SELECT status FROM jobs')).toEqual([['succeeded']])
  })

  test('is told by JOBTABLE_URL as well', async () => {
    const place = await postgresPlace()
    await cli(['enqueue', 'mail', ...place.db])
    await worksOn([], { JOBTABLE_URL: `${place.url}?schema=${encodeURIComponent(place.schema)}` })
    expect(await place.sql('SELECT status FROM jobs')).toEqual([['succeeded']])
  })

  test('refuses a module whose queue is in another schema than the command says', async () => {
    const { url, db } = await postgresPlace()
    const folder = temporaryFolder()
    write(folder, 'jobs.mjs', MODULE.replace('jobtable()', `jobtable(${JSON.stringify(url)}, { schema: 'other' })`))
    const { code, stderr } = await spawnCli(folder, ['work', 'jobs.mjs', ...db]).ended
    expect([code, stderr]).toEqual([2, expect.stringMatching(/the queue of jobs\.mjs is on \S+\?schema=other, not on /)])
  })
})

test('a database that is not there is told, with what makes it', async () => {
  const { url } = await postgresPlace()
  const missing = Object.assign(new URL(url), { pathname: '/nowhere' }).href
  for (const command of ['init', 'list', 'doctor']) {
    const { code, stderr } = await cli([command, '--db', missing])
    expect([code, stderr]).toEqual([
      1,
      expect.stringMatching(/\/nowhere does not exist .*: create it with createdb, or correct the URL\n$/),
    ])
  }
})

test('init names the next steps with the database and the schema, as a shell takes them', async () => {
  const { db, schema } = await postgresPlace()
  const { stdout } = await cli(['init', ...db])
  expect(stdout).toContain(`npx jobtable work jobs.mjs --db ${db[1]} --schema '${schema.replaceAll("'", `'\\''`)}'`)
})

test('prune without a module names the files that it leaves', async () => {
  const { db, insert } = await postgresPlace()
  await cli(['init', ...db])
  await insert('jobs', job('a', { status: 'succeeded', finished_at: 0, result: '{"$file":{"key":"a/1/report.pdf"}}' }))
  await insert('job_events', { job_id: 'a', at: 0, kind: 'file', attempt: 1, message: 'a/0/report.pdf', data: null })
  const { code, stdout, stderr } = await cli(['prune', '--yes', ...db])
  expect([code, stdout]).toEqual([0, '1 job was deleted\n'])
  expect(stderr).toMatch(/^jobtable: 2 files of them were left .* --module next time: a\/0\/report\.pdf, a\/1\/report\.pdf\n$/)
})

describe('migrate', () => {
  test('makes a dropped index again, and names it', async () => {
    const { db, sql } = await postgresPlace()
    await cli(['init', ...db])
    await sql('DROP INDEX jobs_key')
    expect((await cli(['doctor', ...db])).code).toBe(1)
    expect((await cli(['migrate', ...db])).stdout).toContain('Created again what was missing: jobs_key')
    expect((await cli(['doctor', ...db])).stdout).toContain('every index is there and valid')
  })

  test.each([
    ['postgres://', 'nobody is asked', undefined],
    ['postgres://nobody@127.0.0.1:1/app', 'nothing is connected to', 'jobtable'],
  ])('--print shows the SQL for %s: %s', async (url, _, schema) => {
    const { code, stdout } = await cli(['migrate', '--print', '--db', url, ...(schema === undefined ? [] : ['--schema', schema])])
    expect([code, stdout]).toEqual([0, expect.stringContaining(`CREATE TABLE "${schema ?? 'public'}".jobs (`)])
  })

  test('--print --schema alone means PostgreSQL', async () => {
    expect((await cli(['migrate', '--print', '--schema', 'mine'])).stdout).toContain('CREATE TABLE "mine".jobs (')
  })
})

describe('a role that may only read and write rows', () => {
  interface Roles extends PostgresPlace {
    /** The options of that role. */
    as: string[]
    role: string
  }
  const roles: { role: string; url: string }[] = []
  afterAll(async () => {
    for (const { role, url } of roles) await query(url, `DROP OWNED BY ${role}; DROP ROLE ${role}`)
  })

  /** The tables are made by the printed script, and the rights given as the page about PostgreSQL says. */
  async function withRole(): Promise<Roles> {
    const place = await postgresPlace()
    const role = `app_${randomBytes(6).toString('hex')}`
    const { stdout: script } = await cli(['migrate', '--print', ...place.db])
    await query(place.url, script)
    const tables = (...names: string[]) => names.map((table) => `${quoted(place.schema)}.${table}`).join(', ')
    await query(
      place.url,
      `CREATE ROLE ${role} LOGIN PASSWORD 'pw42';
       GRANT USAGE ON SCHEMA ${quoted(place.schema)} TO ${role};
       GRANT SELECT, INSERT, UPDATE, DELETE ON ${tables('jobs', 'job_events', 'job_steps', 'job_streams', 'job_workers')} TO ${role};
       GRANT SELECT ON ${tables('jobtable_migrations')} TO ${role}`,
    )
    roles.push({ role, url: place.url })
    const url = Object.assign(new URL(place.url), { username: role, password: 'pw42' }).href
    return { ...place, role, as: ['--db', url, '--schema', place.schema] }
  }

  test('can do everything but make tables, and never sees its password printed', async () => {
    const { as, sql, insert } = await withRole()
    const said: string[] = []
    const ok = async (...args: string[]): Promise<string> => {
      const { code, stdout, stderr } = await cli([...args, ...as])
      said.push(stdout, stderr)
      expect([code, stderr], args.join(' ')).toEqual([0, ''])
      return stdout
    }
    expect(await ok('init')).toContain('is there already (tables at version 5)')
    expect(await ok('migrate')).toContain('is at version 5')
    const id = (await ok('enqueue', 'mail', '{}')).trim()
    await ok('enqueue', 'mail', '{}', '--key', 'k', '--on-duplicate', 'ignore_duplicate')
    await ok('enqueue', 'mail', '{}', '--key', 'k', '--on-duplicate', 'ignore_duplicate')
    await ok('list')
    await ok('show', id)
    await ok('why', id)
    await ok('stats')
    await ok('cancel', id)
    await ok('retry', id)
    await insert('jobs', job('old', { status: 'succeeded', finished_at: 0 }))
    expect(await ok('prune', '--yes')).toBe('1 job was deleted\n')
    await sql(`DELETE FROM jobs WHERE id <> '${id}'`)
    said.push(await worksOn(as, {}))
    expect(await ok('doctor')).toContain('\n0 errors, ')
    expect(await sql('SELECT status FROM jobs')).toEqual([['succeeded']])
    expect(said.join()).not.toMatch(SECRETS)
  })

  test('is told what an owner must do where something must be made, or a right is missing', async () => {
    const { as, role, schema, sql } = await withRole()
    const denied = async (...args: string[]): Promise<void> => {
      const { code, stderr } = await cli([...args, ...as, '--verbose'])
      expect([code, stderr], args.join(' ')).toEqual([
        1,
        expect.stringMatching(/does not permit this .*: grant the role .*an owner runs `jobtable migrate`/),
      ])
      expect(stderr).not.toMatch(SECRETS)
    }
    await sql('DROP INDEX jobs_key')
    await denied('migrate')
    await denied('enqueue', 'mail', '{}')
    await sql(`REVOKE SELECT ON jobs FROM ${role}`)
    await denied('list')
    await sql(`REVOKE USAGE ON SCHEMA ${quoted(schema)} FROM ${role}`)
    await denied('list')
  })
})
