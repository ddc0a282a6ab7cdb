import { join } from 'node:path'
import { existsSync, writeFileSync } from 'node:fs'
import { beforeAll, describe, expect, test } from 'vitest'
import { jobtable } from 'jobtable'
import type { JobJson } from '../../src/cli/view.js'
import { cli, cliJson, sql, temporaryFolder } from './support.js'

const folder = temporaryFolder()
const file = join(folder, 'app.db')
const db = ['--db', file]
const MINUTE = 60_000
const at = (ageMs: number): number => Date.now() - ageMs

interface Shown extends JobJson {
  payload: unknown
  result: unknown
  shortened: boolean
  timeline: { at: string | null; kind: string; attempt: number | null; message: string; details: unknown }[]
}

const secret = {
  password: 'hunter2',
  nested: { apiKey: 'sk_live_x1' },
  headers: { Authorization: 'Bearer abc123' },
  to: 'ada@example.com',
}
const SECRETS = /hunter2|sk_live_x1|abc123|pw42/

function insert(id: string, columns: Record<string, string | number | null>): string {
  const all: Record<string, string | number | null> = { id, type: 'mail', payload: '{}', status: 'pending', ...columns }
  const values = Object.values(all).map((value) =>
    typeof value === 'string' ? `'${value.replaceAll("'", "''")}'` : String(value),
  )
  return `INSERT INTO jobs (${Object.keys(all).join(', ')}) VALUES (${values.join(', ')})`
}

beforeAll(async () => {
  const queue = jobtable(`sqlite:${file}`)
  await queue.open()
  await queue.close()
  const failure = {
    attempt: 1,
    at: at(MINUTE),
    kind: 'transient',
    code: 'timeout',
    message: 'sent "Bearer abc123" too late',
    by: 'w1',
    stack: 'Error: Bearer abc123',
  }
  sql(
    file,
    insert('old', {
      status: 'failed',
      created_at: at(120 * MINUTE),
      finished_at: at(100 * MINUTE),
      last_error: 'HTTP 429 Too Many Requests',
      attempts: 5,
      max_attempts: 5,
    }),
    insert('secret', {
      status: 'retrying',
      payload: JSON.stringify(secret),
      attempts: 1,
      max_attempts: 3,
      run_after: at(-MINUTE),
      created_at: at(2 * MINUTE),
      errors: JSON.stringify([failure]),
      last_error: failure.message,
    }),
    insert('done', {
      status: 'succeeded',
      type: 'export',
      queue: 'slow',
      result: '{"pages":3}',
      idempotency_key: '["p1","pdf",3]',
      created_at: at(2 * MINUTE),
      finished_at: at(MINUTE),
    }),
    `INSERT INTO job_events (job_id, at, kind, attempt, message, data) VALUES
       ('secret', ${at(90_000)}, 'stage', 1, 'sending', NULL),
       ('secret', ${at(80_000)}, 'log', 1, 'connected', '{"level":"info","facts":{"token":"hunter2"}}')`,
  )
})

describe('list', () => {
  test('shows jobs newest first, with what matters about each', async () => {
    const { code, stdout } = await cli(['list', ...db])
    expect(code).toBe(0)
    const lines = stdout.trimEnd().split('\n')
    expect(lines[0]).toMatch(/^ID +TYPE +QUEUE +STATUS +ATTEMPTS +ENQUEUED +NOTE$/)
    expect(lines.slice(1).map((line) => line.split(/\s+/)[0])).toEqual(['done', 'secret', 'old'])
    expect(lines[3]).toMatch(/failed +5\/5 +2h ago +HTTP 429/)
    expect(lines[2]).toMatch(/retrying +1\/3 +2m ago +due in \d+s: sent/)
  })

  test('answers programs with an array of jobs whose times are ISO texts', async () => {
    const jobs = await cliJson<JobJson[]>(['list', ...db, '--status', 'succeeded'])
    expect(jobs).toHaveLength(1)
    expect(jobs[0]).toMatchObject({
      id: 'done',
      type: 'export',
      queue: 'slow',
      status: 'succeeded',
      idempotencyKey: '["p1","pdf",3]',
      progress: null,
    })
    expect(jobs[0]!.createdAt).toMatch(/^\d{4}-.*Z$/)
  })

  test.each([
    [
      ['--status', 'failed,retrying'],
      ['secret', 'old'],
    ],
    [
      ['--status', 'failed', '-s', 'succeeded'],
      ['done', 'old'],
    ],
    [['--type', 'export'], ['done']],
    [
      ['--queue', 'default'],
      ['secret', 'old'],
    ],
    [['--older-than', '1h'], ['old']],
    [['--younger-than', '1h', '--type', 'mail'], ['secret']],
    [['--error', '429 TOO many'], ['old']],
    [['--key', 'p1', '--key', 'pdf', '--key', '3'], ['done']],
    [['--key', '["p1","pdf",3]'], ['done']],
    [['--key', 'p1', '--key', 'pdf', '--key', '"3"'], []],
    [['--limit', '1'], ['done']],
    [['--before', 'done', '--limit', '1'], ['secret']],
    [['--type', 'nobody'], []],
  ])('filters by %j', async (args, expected) => {
    const jobs = await cliJson<JobJson[]>(['list', ...db, ...args])
    expect(jobs.map(({ id }) => id)).toEqual(expected)
  })

  test('says so when nothing matches, and is done all the same', async () => {
    expect(await cli(['list', ...db, '--type', 'nobody'])).toEqual({ code: 0, stdout: 'No jobs match.\n', stderr: '' })
  })

  test('tells how to go on when there may be more', async () => {
    expect((await cli(['list', ...db, '--limit', '2'])).stderr).toBe('jobtable: there may be more: add --before secret\n')
  })

  test('fits on the terminal', async () => {
    const { stdout } = await cli(['list', ...db], { columns: 70 })
    for (const line of stdout.split('\n')) expect(line.length).toBeLessThanOrEqual(70)
  })

  test('finds the few finished jobs behind many newer ones', async () => {
    const big = join(folder, 'big.db')
    await cli(['init', '--db', big])
    sql(
      big,
      `INSERT INTO jobs (id, type, status) VALUES ('s1', 'a', 'succeeded'), ('s2', 'a', 'succeeded')`,
      `INSERT INTO jobs (id, type, status) SELECT 'p' || value, 'a', 'pending' FROM json_each('[${Array.from({ length: 20_000 }, (_, i) => i).join(',')}]')`,
    )
    const jobs = await cliJson<JobJson[]>(['list', '--db', big, '--status', 'succeeded'])
    expect(jobs.map(({ id }) => id)).toEqual(['s2', 's1'])
  })
})

describe('show', () => {
  test('tells the job, its attempts and its timeline in order', async () => {
    const { code, stdout } = await cli(['show', 'secret', ...db])
    expect(code).toBe(0)
    expect(stdout).toMatch(/^attempts +1 of 3$/m)
    const timeline = stdout.slice(stdout.indexOf('timeline\n')).trimEnd().split('\n').slice(1)
    expect(timeline.map((line) => line.slice(28).trim().replaceAll(/\s+/g, ' '))).toEqual([
      'created enqueued',
      '#1 stage sending',
      '#1 log info: connected {"token":"[masked]"}',
      '#1 error timeout (transient): sent "Bearer [masked]" too late',
    ])
  })

  test('gives programs the same, with the payload and the result as values', async () => {
    const job = await cliJson<Shown>(['show', 'done', ...db])
    expect(job).toMatchObject({ id: 'done', payload: {}, result: { pages: 3 }, shortened: false })
    expect(job.timeline.map(({ kind }) => kind)).toEqual(['created', 'succeeded'])
    const { timeline } = await cliJson<Shown>(['show', 'secret', ...db])
    expect(timeline.map(({ kind, attempt }) => [kind, attempt])).toEqual([
      ['created', null],
      ['stage', 1],
      ['log', 1],
      ['error', 1],
    ])
    expect(timeline.at(-1)!.details).toMatchObject({ kind: 'transient', code: 'timeout', by: 'w1' })
  })

  test('of an unknown id exits with 1 and names the database', async () => {
    const { code, stdout, stderr } = await cli(['show', 'nope', ...db])
    expect([code, stdout]).toEqual([1, ''])
    expect(stderr).toMatch(/^jobtable: there is no job "nope" in sqlite:.*app\.db\n {2}\S/)
  })
})

test('no command prints a secret of a payload, an error, a log line or a URL', async () => {
  const commands = [
    ['list'],
    ['show', 'secret'],
    ['show', 'secret', '--full'],
    ['why', 'secret'],
    ['stats'],
    ['doctor'],
    ['list', '--error', 'Bearer'],
  ]
  for (const command of commands) {
    for (const json of [[], ['--json']]) {
      const { stdout, stderr } = await cli([...command, ...db, ...json])
      expect(`${stdout}${stderr}`, command.join(' ')).not.toMatch(SECRETS)
    }
  }
  const wrong = await cli(['list', '--db', 'mysql://ada:pw42@db.example.com/app', '--verbose'])
  expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining('mysql://ada:[masked]@db.example.com/app')])
  expect(wrong.stderr).not.toMatch(SECRETS)
  const away = await cli(['list', '--db', 'postgres://ada:pw42@127.0.0.1:1/app', '--verbose'])
  expect([away.code, away.stderr]).toEqual([1, expect.stringContaining('postgres://127.0.0.1:1/app cannot be reached')])
  expect(away.stderr).not.toMatch(SECRETS)
  const broken = await cli(['enqueue', 'mail', '{"password": hunter2}', ...db, '--verbose'])
  expect([broken.code, SECRETS.test(broken.stderr)]).toEqual([2, false])
})

describe('why', () => {
  test('answers with one sentence', async () => {
    const { code, stdout } = await cli(['why', 'secret', ...db])
    expect(code).toBe(0)
    expect(stdout).toMatch(/^It waits for its next attempt at .*\n$/)
    expect(await cliJson(['why', 'done', ...db])).toEqual({
      id: 'done',
      status: 'succeeded',
      why: expect.stringMatching(/^It succeeded/) as string,
    })
  })

  test('of an unknown id exits with 1', async () => {
    expect((await cli(['why', 'nope', ...db])).code).toBe(1)
  })
})

test('stats counts by type, queue and status, and lists the workers with whether they live', async () => {
  const { stdout } = await cli(['stats', ...db])
  expect(stdout).toMatch(/^TYPE +QUEUE +PENDING +RUNNING +RETRYING +SUCCEEDED +FAILED +CANCELED +DUE$/m)
  expect(stdout).toMatch(/^mail +default +0 +0 +1 +0 +1 +0 +0$/m)
  expect(stdout).toMatch(/^No workers\.$/m)
  const stats = await cliJson<{ counts: object[]; workers: object[] }>(['stats', ...db])
  expect(stats.counts).toContainEqual({
    type: 'export',
    queue: 'slow',
    status: 'succeeded',
    count: 1,
    due: 0,
    oldestRunAfter: expect.any(String) as string,
  })
  expect(stats.workers).toEqual([])
})

describe('odd rows', () => {
  const odd = join(folder, 'odd.db')
  const big = 'y'.repeat(5 * 1024 * 1024)

  beforeAll(async () => {
    await cli(['init', '--db', odd])
    sql(
      odd,
      insert('null', { payload: 'null' }),
      insert('text', { payload: '"text"', progress: null }),
      insert('big', { payload: JSON.stringify({ big, list: Array.from({ length: 10_000 }, (_, i) => i) }) }),
      insert('type', { type: '\u001b[31munknown 未知\n' }),
      insert('year', { created_at: Date.parse('9999-12-31T23:59:59Z'), run_after: Date.parse('9999-12-31T23:59:59Z') }),
      insert('errors', {
        status: 'failed',
        errors: '[1,null,"text",{"message":7},[]]',
        last_error: `\u001b[2J${'z'.repeat(100_000)}`,
      }),
      insert('result', { status: 'succeeded', result: '{"$file":null}' }),
    )
  })

  test('do not keep list from showing the others', async () => {
    const { code, stdout } = await cli(['list', '--db', odd])
    expect(code).toBe(0)
    for (const id of ['null', 'text', 'big', 'type', 'year', 'errors', 'result'])
      expect(stdout).toMatch(new RegExp(`^${id} `, 'm'))
    expect(stdout).not.toContain('\u001b')
    expect(stdout).toMatch(/^year .* in 7\d{3}y /m)
    expect((await cliJson<JobJson[]>(['list', '--db', odd])).map(({ id }) => id)).toContain('year')
  })

  test.each(['null', 'text', 'big', 'type', 'year', 'errors', 'result'])(
    'are shown one by one, shortened, without harm: %s',
    async (id) => {
      const { code, stdout } = await cli(['show', id, '--db', odd])
      expect(code).toBe(0)
      expect(stdout.length).toBeLessThan(20_000)
      expect(stdout).not.toContain('\u001b')
      const job = await cliJson<Shown>(['show', id, '--db', odd])
      expect([job.id, job.shortened]).toEqual([id, id === 'big'])
      expect((await cli(['why', id, '--db', odd])).code).toBe(0)
    },
  )

  test('are shown whole when that is asked for', async () => {
    const { payload } = await cliJson<Shown>(['show', 'big', '--db', odd, '--full'])
    expect((payload as { big: string }).big).toHaveLength(big.length)
  })

  test('a secret at the place where a long text is cut is not shown', async () => {
    const url = 'postgres://ada:hunter2hunter2@host/db'
    const text = `${'x '.repeat(2_488)}${url}${' y'.repeat(10_000)}`
    sql(odd, insert('cut', { payload: JSON.stringify({ text }), last_error: text, status: 'failed' }))
    expect((await cli(['show', 'cut', '--db', odd])).stdout).not.toContain('hunter2')
    expect((await cli(['list', '--db', odd])).stdout).not.toContain('hunter2')
  })
})

describe('doctor', () => {
  interface Report {
    database: string
    ok: boolean
    findings: { level: string; code: string; message: string }[]
  }
  const sick = join(folder, 'sick.db')
  const find = (report: Report, code: string) => report.findings.filter((finding) => finding.code === code)

  beforeAll(async () => {
    await cli(['init', '--db', sick])
  })

  test('finds nothing wrong with a new database, and exits with 0', async () => {
    const { code, stdout } = await cli(['doctor', '--db', sick])
    expect(code).toBe(0)
    expect(stdout).toMatch(/All is well\.\n$/)
  })

  test('names a missing index and its remedy, exits with 1, and does not mend it by itself', async () => {
    sql(sick, 'DROP INDEX jobs_key')
    for (let round = 0; round < 2; round++) {
      const { code, stdout } = await cli(['doctor', '--db', sick])
      expect(code).toBe(1)
      expect(stdout).toMatch(/error .*jobs_key is missing: run `jobtable migrate`/)
    }
    const migrated = await cli(['migrate', '--db', sick])
    expect(migrated.stdout).toContain('Created again what was missing: jobs_key')
    expect((await cli(['doctor', '--db', sick])).code).toBe(0)
  })

  test('tells due jobs that no worker serves, and calls them an error when they have waited long', async () => {
    sql(sick, insert('a', { type: 'mail', run_after: at(1_000) }))
    const young = await cliJson<Report>(['doctor', '--db', sick])
    expect(find(young, 'unserved')).toEqual([
      { level: 'warning', code: 'unserved', message: expect.stringContaining('no worker is running') as string },
    ])
    expect(young.ok).toBe(true)
    sql(sick, insert('b', { type: 'mail', run_after: at(10 * MINUTE) }))
    const old = await cliJson<Report>(['doctor', '--db', sick])
    expect(find(old, 'unserved')[0]).toMatchObject({
      level: 'error',
      message: expect.stringContaining('2 jobs of type mail in queue default are due, the oldest for 10m') as string,
    })
    expect((await cli(['doctor', '--db', sick])).code).toBe(1)
  })

  test('tells apart workers that do not know the type, do not serve the queue, and are lost', async () => {
    const worker = (id: string, leaseMs: number, queues: string[], types: string[]): string =>
      `INSERT INTO job_workers (id, host, pid, queues, types, concurrency, started_at, heartbeat_at, lease_until)
       VALUES ('${id}', 'host1', 4711, '${JSON.stringify(queues)}', '${JSON.stringify(types)}', 5, ${at(0)}, ${at(20 * MINUTE)}, ${at(-leaseMs)})`
    sql(sick, worker('w1', MINUTE, ['default'], ['export']), worker('w2', -MINUTE, ['default'], ['mail']))
    const report = await cliJson<Report>(['doctor', '--db', sick])
    expect(find(report, 'unserved')[0]!.message).toContain('no live worker knows the type mail')
    expect(find(report, 'worker_lost')[0]!.message).toMatch(/worker w2 \(process 4711 on host1\) was last heard of 20m ago/)
    sql(sick, worker('w3', MINUTE, ['other'], ['mail']))
    expect(find(await cliJson<Report>(['doctor', '--db', sick]), 'unserved')[0]!.message).toContain(
      'serves the queue default: start one with --queue default',
    )
    sql(sick, worker('w4', MINUTE, ['default'], ['mail']))
    const served = await cliJson<Report>(['doctor', '--db', sick])
    expect(find(served, 'served')).toHaveLength(1)
    expect(find(served, 'oldest_due')[0]).toMatchObject({
      level: 'warning',
      message: expect.stringContaining('waits for 10m') as string,
    })
    const { stdout } = await cli(['stats', '--db', sick])
    expect(stdout).toMatch(/^w2 +host1:4711 +lost +20m ago/m)
    expect(stdout).toMatch(/^w4 +host1:4711 +alive/m)
  })

  test('names the types that fail, and the commands that help', async () => {
    sql(
      sick,
      insert('f1', { type: 'mail', status: 'failed' }),
      insert('f2', { type: 'old', status: 'failed', created_at: at(3 * 86_400_000) }),
    )
    const failed = find(await cliJson<Report>(['doctor', '--db', sick]), 'failed')
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
    const env = { JOBTABLE_URL: `sqlite:${file}` }
    expect((await cliJson<JobJson[]>(['list'], { env })).length).toBe(3)
    expect((await cli(['list', '--db', join(folder, 'missing.db')], { env })).code).toBe(1)
    expect((await cli(['--db', file, 'list'])).code).toBe(0)
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
