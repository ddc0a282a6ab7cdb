import { join } from 'node:path'
import { mkdirSync } from 'node:fs'
import { beforeEach, describe, expect, test } from 'vitest'
import { cli, cliJson, moduleOf, spawnCli, sql, sqlitePlace, temporaryFolder, write, type Answer } from './support.js'
import { describeWork } from './work-suite.js'

let folder = ''
let file = ''

beforeEach(async () => {
  folder = temporaryFolder()
  file = join(folder, 'jobtable.db')
  await cli(['init', '--db', file])
})

const row = () => sql(file, 'SELECT status, attempts, locked_by FROM jobs')[0]
const enqueue = (...args: string[]) => cliJson<{ id: string }>(['enqueue', 'mail', '{}', '--db', file, ...args])

describe('work', () => {
  test('runs the jobs of the queue that the module exports, and says what it serves and what came of it', async () => {
    write(folder, 'jobs.mjs', moduleOf(`async (job) => { if (job.payload.bad) throw new TypeError('password=hunter2') }`))
    await enqueue()
    const bad = await cliJson<{ id: string }>(['enqueue', 'mail', '{"bad":true}', '--db', file, '--max-attempts', '1'])
    const { child, line, ended } = spawnCli(folder, ['work', 'jobs.mjs', '--concurrency', '3', '--lease', '5s'])
    expect(await line(/is ready on/)).toMatch(
      /^worker \S+ is ready on sqlite:jobtable\.db: types mail; queues default; 3 at once$/,
    )
    expect(await line(/^failed/)).toMatch(new RegExp(`^failed mail ${bad.id} at attempt 1: \\w+$`))
    await line(/^succeeded: 1 mail$/)
    child.kill('SIGTERM')
    const { code, stdout, stderr } = await ended
    expect(code).toBe(0)
    expect(stdout).toMatch(/^stopped: 1 succeeded, 1 failed, 0 retrying, 0 canceled$/m)
    expect(`${stdout}${stderr}`).not.toContain('hunter2')
  })

  test('with --json tells each event as a line of JSON', async () => {
    write(folder, 'jobs.mjs', moduleOf('async () => {}'))
    await enqueue()
    const { child, line, ended } = spawnCli(folder, ['work', 'jobs.mjs', '--json'])
    await line(/"event":"succeeded"/)
    child.kill('SIGINT')
    const { code, stdout } = await ended
    const events = stdout
      .trim()
      .split('\n')
      .map((text) => JSON.parse(text) as { event: string })
    expect([code, events.map(({ event }) => event)]).toEqual([0, ['ready', 'succeeded', 'stopped']])
    expect(events[0]).toMatchObject({
      database: 'sqlite:jobtable.db',
      types: ['mail'],
      queues: ['default'],
      concurrency: 10,
      lease: '30s',
    })
    expect(events[2]).toMatchObject({ totals: { succeeded: 1, failed: 0, retrying: 0, canceled: 0 } })
  })

  test('serves only the queues it is told to, in that order', async () => {
    write(folder, 'jobs.mjs', moduleOf('async () => {}'))
    await enqueue()
    const slow = await enqueue('--queue', 'slow')
    const { child, line, ended } = spawnCli(folder, ['work', 'jobs.mjs', '--queue', 'slow', '--queue', 'other'])
    expect(await line(/is ready on/)).toContain('queues slow, other;')
    await line(/^succeeded: 1 mail/)
    child.kill('SIGTERM')
    expect((await ended).code).toBe(0)
    expect(sql(file, `SELECT id FROM jobs WHERE status = 'succeeded'`)).toEqual([[slow.id]])
  })

  test('gives a module that names no database the one of --db, a bare path included', async () => {
    write(folder, 'jobs.mjs', moduleOf('async () => {}'))
    await cli(['enqueue', 'mail', '--db', join(folder, 'other.db')])
    const { child, line, ended } = spawnCli(folder, ['work', 'jobs.mjs', '--db', 'other.db'])
    expect(await line(/is ready on/)).toContain('sqlite:other.db')
    await line(/^succeeded: 1 mail/)
    child.kill('SIGTERM')
    expect((await ended).code).toBe(0)
  })

  test('takes a CommonJS module', async () => {
    write(
      folder,
      'jobs.cjs',
      `module.exports = (async () => {})() && {}
       module.exports.queue = new (class Queue { name = 'sqlite:jobtable.db'; types = new Map(); work() {} open() {} close() {} })()`,
    )
    // Found, though it is of another copy of the package; it has no types.
    expect((await spawnCli(folder, ['work', 'jobs.cjs']).ended).stderr).toContain('jobs.cjs defines no job type')
  })

  test('ends although the module has left a timer behind', async () => {
    write(folder, 'jobs.mjs', moduleOf('async () => {}', { before: 'setInterval(() => {}, 1000)' }))
    const { child, line, ended } = spawnCli(folder, ['work', 'jobs.mjs'])
    await line(/is ready on/)
    child.kill('SIGTERM')
    expect((await ended).code).toBe(0)
  })
})

describe('a module that work cannot use is named, and exits with 1 at once', () => {
  test('a folder', async () => {
    mkdirSync(join(folder, 'handlers'))
    const { code, stderr } = await spawnCli(folder, ['work', 'handlers']).ended
    expect([code, stderr]).toEqual([1, expect.stringContaining('handlers is a folder')])
  })

  test('TypeScript that this Node does not read, with what to do about it', async () => {
    write(folder, 'jobs.ts', moduleOf('async (): Promise<void> => {}').replace('(value) =>', '(value: unknown) =>'))
    const { child, line, ended } = spawnCli(folder, ['work', 'jobs.ts'])
    if ((process.features as { typescript?: unknown }).typescript) {
      await line(/is ready on/)
      child.kill('SIGTERM')
      expect((await ended).code).toBe(0)
    } else {
      const { code, stderr } = await ended
      expect([code, stderr]).toEqual([
        1,
        expect.stringMatching(/^jobtable: jobs\.ts cannot be loaded: .*\n.*Node 22\.18 or newer.*NODE_OPTIONS="--import tsx"/),
      ])
      const loaded = spawnCli(folder, ['work', 'jobs.ts'], { NODE_OPTIONS: '--import tsx' })
      await loaded.line(/is ready on/)
      loaded.child.kill('SIGTERM')
      expect((await loaded.ended).code).toBe(0)
    }
  })

  test('one whose queue is on another database than --db says exits with 2', async () => {
    write(folder, 'jobs.mjs', moduleOf('async () => {}', { url: `'sqlite:mine.db'` }))
    const { code, stderr } = await spawnCli(folder, ['work', 'jobs.mjs', '--db', 'sqlite:jobtable.db']).ended
    expect(code).toBe(2)
    expect(stderr).toMatch(/^jobtable: the queue of jobs\.mjs is on sqlite:mine\.db, not on sqlite:jobtable\.db as --db says\n/)
    const same = spawnCli(folder, ['work', 'jobs.mjs', '--db', join(folder, 'mine.db')])
    await same.line(/is ready on/)
    same.child.kill('SIGTERM')
    expect((await same.ended).code).toBe(0)
  })

  test.each([[['--lease', '1']], [['--concurrency', '0']], [['--stop-timeout', 'soon']]])(
    'wrong usage %j exits with 2',
    async (args) => {
      expect((await cli(['work', 'jobs.mjs', ...args])).code).toBe(2)
    },
  )
})

describe('stopping', () => {
  test('a rejection that nobody handles is told, lets the running job end, and the exit code is 1', async () => {
    write(
      folder,
      'jobs.mjs',
      moduleOf(`async () => {
        void Promise.reject(new Error('stray, with Bearer abc123456'))
        await new Promise((resolve) => process.once('message', resolve))
      }`),
    )
    await enqueue()
    const { child, line, ended } = spawnCli(folder, ['work', 'jobs.mjs'])
    await line(/nobody handled it; the worker stops: Error: stray, with Bearer \[masked\]$/)
    child.send('end')
    const answer: Answer = await ended
    expect(answer.code).toBe(1)
    expect(answer.stderr).not.toContain('abc123456')
    expect(row()).toEqual(['succeeded', 1, null])
  })
})

test('an exception that nothing caught ends the process with 1, is told without secrets, and its attempt counts', async () => {
  const run = `async () => { setTimeout(() => { throw new Error('thrown late, with Bearer abc123456') }); await new Promise(() => {}) }`
  write(folder, 'jobs.mjs', moduleOf(run))
  await enqueue()
  const { code, stderr } = await spawnCli(folder, ['work', 'jobs.mjs']).ended
  expect([code, stderr]).toEqual([1, expect.stringContaining('nothing caught it: Error: thrown late, with Bearer [masked]')])
  expect(stderr).not.toContain('abc123456')
  expect(row()).toEqual(['running', 1, expect.any(String)])
})

test('prune with a module keeps finished jobs for as long as the queue of that module says', async () => {
  write(folder, 'jobs.mjs', moduleOf('async () => {}', { url: `undefined, { retention: { succeeded: '20d' } }` }))
  const day = 86_400_000
  const insert = (id: string, days: number) =>
    `INSERT INTO jobs (id, type, status, finished_at) VALUES ('${id}', 'mail', 'succeeded', ${Date.now() - days * day})`
  sql(file, insert('kept', 10), insert('gone', 21))
  const { code, stdout } = await spawnCli(folder, ['prune', '--module', 'jobs.mjs', '--yes', '--db', 'jobtable.db']).ended
  expect([code, stdout]).toEqual([0, '1 job was deleted\n'])
  expect(sql(file, 'SELECT id FROM jobs')).toEqual([['kept']])
})

test('a reader that has seen enough is no error', async () => {
  for (let i = 0; i < 5; i++) await enqueue()
  const { child, ended } = spawnCli(folder, ['list', '--json'])
  child.stdout!.destroy()
  expect((await ended).code).toBe(0)
})

describeWork(sqlitePlace)
