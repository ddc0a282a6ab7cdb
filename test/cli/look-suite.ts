/** What the commands that only look show, on whichever database. */
import { beforeAll, describe, expect, test } from 'vitest'
import type { JobJson } from '../../src/cli/view.js'
import { cli, cliJson, job, SECRETS, type Place } from './support.js'

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

export function describeLooks(open: () => Promise<Place>): void {
  let place: Place
  let db: readonly string[] = []

  beforeAll(async () => {
    place = await open()
    db = place.db
    await cli(['init', ...db])
    const failure = {
      attempt: 1,
      at: at(MINUTE),
      kind: 'transient',
      code: 'timeout',
      message: 'sent "Bearer abc123" too late',
      by: 'w1',
      stack: 'Error: Bearer abc123',
    }
    await place.insert(
      'jobs',
      job('old', {
        status: 'failed',
        created_at: at(120 * MINUTE),
        finished_at: at(100 * MINUTE),
        last_error: 'HTTP 429 Too Many Requests',
        attempts: 5,
        max_attempts: 5,
      }),
      job('secret', {
        status: 'retrying',
        payload: JSON.stringify(secret),
        attempts: 1,
        max_attempts: 3,
        run_after: at(-MINUTE),
        created_at: at(2 * MINUTE),
        errors: JSON.stringify([failure]),
        last_error: failure.message,
      }),
      job('done', {
        status: 'succeeded',
        type: 'export',
        queue: 'slow',
        result: '{"pages":3}',
        idempotency_key: '["p1","pdf",3]',
        created_at: at(1.5 * MINUTE),
        finished_at: at(MINUTE),
      }),
    )
    await place.insert(
      'job_streams',
      ...['Once upon', ' a time'].map((text, i) => ({
        ...{ job_id: 'done', name: 'text', attempt: 1, '"offset"': i * 9, length: text.length, text },
        ...{ state: i === 1 ? 'done' : 'open', claim_token: 'secret-token', at: at(MINUTE) },
      })),
    )
    await place.insert(
      'job_events',
      { job_id: 'secret', at: at(90_000), kind: 'stage', attempt: 1, message: 'sending', data: null },
      {
        job_id: 'secret',
        at: at(80_000),
        kind: 'log',
        attempt: 1,
        message: 'connected',
        data: '{"level":"info","facts":{"token":"hunter2"}}',
      },
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
      const big = await open()
      await cli(['init', ...big.db])
      await big.insert('jobs', job('s1', { status: 'succeeded' }), job('s2', { status: 'succeeded' }))
      await big.insert('jobs', ...Array.from({ length: 20_000 }, (_, i) => job(`p${i}`, {})))
      const jobs = await cliJson<JobJson[]>(['list', ...big.db, '--status', 'succeeded'])
      expect(jobs.map(({ id }) => id).toSorted()).toEqual(['s1', 's2'])
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

    test('lists the streams of a job, and not their text', async () => {
      const { stdout } = await cli(['show', 'done', ...db])
      expect(stdout).toMatch(/\nstreams\nSTREAM +STATE +ATTEMPT +LENGTH\ntext +done +1 +16\n$/)
      expect(stdout).not.toMatch(/Once|secret-token/)
      const streams = [{ name: 'text', attempt: 1, length: 16, done: true }]
      expect(await cliJson(['show', 'done', ...db])).toMatchObject({ streams })
      expect((await cli(['show', 'secret', ...db])).stdout).not.toContain('STREAM')
    })

    test('of an unknown id exits with 1 and names the database', async () => {
      const { code, stdout, stderr } = await cli(['show', 'nope', ...db])
      expect([code, stdout]).toEqual([1, ''])
      expect(stderr).toContain(`jobtable: there is no job "nope" in ${place.name}\n  `)
    })
  })

  test('no command prints a secret of a payload, an error or a log line', async () => {
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
    let odd: Place
    const big = 'y'.repeat(5 * 1024 * 1024)

    beforeAll(async () => {
      odd = await open()
      await cli(['init', ...odd.db])
      await odd.insert(
        'jobs',
        job('null', { payload: 'null' }),
        job('text', { payload: '"text"', progress: null }),
        job('big', { payload: JSON.stringify({ big, list: Array.from({ length: 10_000 }, (_, i) => i) }) }),
        job('type', { type: '\u001b[31munknown 未知\n' }),
        job('year', { created_at: Date.parse('9999-12-31T23:59:59Z'), run_after: Date.parse('9999-12-31T23:59:59Z') }),
        job('errors', {
          status: 'failed',
          errors: '[1,null,"text",{"message":7},[]]',
          last_error: `\u001b[2J${'z'.repeat(100_000)}`,
        }),
        job('result', { status: 'succeeded', result: '{"$file":null}' }),
      )
    })

    test('do not keep list from showing the others', async () => {
      const { code, stdout } = await cli(['list', ...odd.db])
      expect(code).toBe(0)
      for (const id of ['null', 'text', 'big', 'type', 'year', 'errors', 'result'])
        expect(stdout).toMatch(new RegExp(`^${id} `, 'm'))
      expect(stdout).not.toContain('\u001b')
      expect(stdout).toMatch(/^year .* in 7\d{3}y /m)
      expect((await cliJson<JobJson[]>(['list', ...odd.db])).map(({ id }) => id)).toContain('year')
    })

    test.each(['null', 'text', 'big', 'type', 'year', 'errors', 'result'])(
      'are shown one by one, shortened, without harm: %s',
      async (id) => {
        const { code, stdout } = await cli(['show', id, ...odd.db])
        expect(code).toBe(0)
        expect(stdout.length).toBeLessThan(20_000)
        expect(stdout).not.toContain('\u001b')
        const job = await cliJson<Shown>(['show', id, ...odd.db])
        expect([job.id, job.shortened]).toEqual([id, id === 'big'])
        expect((await cli(['why', id, ...odd.db])).code).toBe(0)
      },
    )

    test('are shown whole when that is asked for', async () => {
      const { payload } = await cliJson<Shown>(['show', 'big', ...odd.db, '--full'])
      expect((payload as { big: string }).big).toHaveLength(big.length)
    })

    test('a secret at the place where a long text is cut is not shown', async () => {
      const url = 'postgres://ada:hunter2hunter2@host/db'
      const text = `${'x '.repeat(2_488)}${url}${' y'.repeat(10_000)}`
      await odd.insert('jobs', job('cut', { payload: JSON.stringify({ text }), last_error: text, status: 'failed' }))
      expect((await cli(['show', 'cut', ...odd.db])).stdout).not.toContain('hunter2')
      expect((await cli(['list', ...odd.db])).stdout).not.toContain('hunter2')
    })
  })
}
