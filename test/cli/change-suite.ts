/** What the commands that change something do, on whichever database. */
import { beforeEach, describe, expect, test } from 'vitest'
import type { JobJson } from '../../src/cli/view.js'
import { cli, cliJson, type Place } from './support.js'

let place: Place
let db: readonly string[] = []

const sql = (statement: string) => place.sql(statement)
const statuses = async () => Object.fromEntries(await sql('SELECT id, status FROM jobs ORDER BY id')) as Record<string, string>

async function withJobs(
  ...rows: [id: string, status: string, more?: { type?: string; error?: string; supersededBy?: string; ageMs?: number }][]
): Promise<void> {
  await cli(['init', ...db])
  for (const [id, status, { type = 'mail', error = null, supersededBy = null, ageMs = 0 } = {}] of rows) {
    const then = Date.now() - ageMs
    const times = { created_at: then, finished_at: then }
    const attempts = { attempts: 1, max_attempts: 1 }
    await place.insert('jobs', { id, type, status, last_error: error, superseded_by: supersededBy, ...times, ...attempts })
  }
}

export function describeChanges(open: () => Promise<Place>, version: number): void {
  beforeEach(async () => {
    place = await open()
    db = place.db
  })

  describe('init', () => {
    test('makes the database, says what it made and the next step, and may be run again', async () => {
      const first = await cli(['init', ...db])
      expect([first.code, first.stderr]).toEqual([0, ''])
      expect(first.stdout).toContain(`Made ${place.name} (`)
      expect(first.stdout).toMatch(/^Made .* \(tables at version \d+\)\.\n[^]*npx jobtable work jobs\.mjs/)
      const again = await cli(['init', ...db])
      expect([again.code, again.stdout.split('\n')[0]]).toEqual([0, expect.stringContaining('is there already')])
      expect(await cliJson(['init', ...db])).toEqual({ database: place.name, made: false, version, example: null })
    })
  })

  test('migrate makes the tables, and at the second run finds nothing to do', async () => {
    expect(await cliJson(['migrate', ...db])).toEqual({ database: place.name, from: 0, to: version, indexes: [] })
    expect((await cli(['migrate', ...db])).stdout).toBe(`${place.name} is at version ${version}.\n`)
  })

  describe('enqueue', () => {
    test('prints the id alone, so that a script can use it', async () => {
      await cli(['init', ...db])
      const { code, stdout, stderr } = await cli(['enqueue', 'mail', '{"to":"Ada"}', ...db])
      expect([code, stderr]).toEqual([0, ''])
      expect(await sql('SELECT id, type, payload FROM jobs')).toEqual([[stdout.trim(), 'mail', '{"to":"Ada"}']])
    })

    test('reads the payload from stdin', async () => {
      expect((await cli(['enqueue', 'mail', '-', ...db], { stdin: '{"text":"中文 👍"}\n' })).code).toBe(0)
      expect(await sql('SELECT payload FROM jobs')).toEqual([['{"text":"中文 👍"}']])
    })

    test('takes every option', async () => {
      const at = '2030-01-31T09:00:00Z'
      const options = ['--id', 'my-1', '--run-after', at, '--priority', '-5', '--queue', 'slow', '--max-attempts', '2']
      const answer = await cliJson<object>(['enqueue', 'mail', '{}', ...options, ...db])
      expect(answer).toEqual({ id: 'my-1', type: 'mail', queue: 'slow', status: 'pending', duplicate: false })
      expect(await sql('SELECT id, run_after, priority, queue, max_attempts FROM jobs')).toEqual([
        ['my-1', Date.parse(at), -5, 'slow', 2],
      ])
      const taken = await cli(['enqueue', 'mail', '{}', '--id', 'my-1', ...db])
      expect([taken.code, taken.stderr]).toEqual([1, expect.stringContaining('there is a job with the id my-1 already')])
      await cli(['enqueue', 'mail', '{}', '--id', 'my-2', '--delay', '2h', ...db])
      const [[from, to]] = (await sql(`SELECT created_at, run_after FROM jobs WHERE id = 'my-2'`)) as [[number, number]]
      expect(to - from).toBe(7_200_000)
    })

    test('answers a key that is held with the job that holds it', async () => {
      const args = [
        'enqueue',
        'export',
        '{"p":1}',
        '--key',
        'p1',
        '--key',
        '3',
        '--on-duplicate',
        'return_previous_result',
        ...db,
      ]
      const first = await cliJson<{ id: string; duplicate: boolean }>(args)
      const second = await cliJson<{ id: string; duplicate: boolean }>(args)
      expect([first.duplicate, second]).toEqual([false, { ...first, duplicate: true }])
      expect((await cli(args)).stdout).toMatch(/^\S+ \(a duplicate/)
      expect(await sql('SELECT idempotency_key FROM jobs')).toEqual([['["p1",3]']])
      const other = await cli(['enqueue', 'export', '{"p":2}', ...args.slice(3)])
      expect([other.code, other.stderr]).toEqual([1, expect.stringContaining('with another payload (p differs)')])
    })

    test.each([
      [['{bad'], /payload is no JSON/],
      [['-'], /payload is no JSON: it is empty/],
      [['{}', '--key', 'a'], /--key needs --on-duplicate/],
      [['{}', '--on-duplicate', 'ignore_duplicate'], /--on-duplicate needs a --key/],
      [['{}', '--key', 'a', '--on-duplicate', 'x'], /--on-duplicate is return_existing_file/],
      [['{}', '--key', '', '--on-duplicate', 'ignore_duplicate'], /part 1 of the idempotency key is empty/],
      [['{}', '--delay', '1s', '--run-after', '2030-01-01'], /either delay or runAfter/],
      [['{}', '--run-after', 'tomorrow'], /Give a time such as/],
      [['{}', '--priority', '1.5'], /whole number/],
      [['{}', '--queue', ''], /queue/],
      [['{}', '--id', 'a b'], /no job id/],
    ])('refuses %j as wrong usage and stores nothing', async (args, message) => {
      await cli(['init', ...db])
      const { code, stderr } = await cli(['enqueue', 'mail', ...args, ...db])
      expect(code).toBe(2)
      expect(stderr).toMatch(message)
      expect(await statuses()).toEqual({})
    })
  })

  describe('cancel', () => {
    test('cancels what waits, asks what runs, and says of each what became of it', async () => {
      await withJobs(['a', 'pending'], ['b', 'retrying'], ['c', 'running'])
      const { code, stdout } = await cli(['cancel', 'a', 'b', 'c', ...db])
      expect([code, stdout]).toEqual([0, 'a is canceled\nb is canceled\nc is running; its handler was asked to stop\n'])
      expect(await statuses()).toEqual({ a: 'canceled', b: 'canceled', c: 'running' })
    })

    test('exits with 1 when one of the jobs is over or unknown, and cancels the others', async () => {
      await withJobs(['a', 'pending'], ['b', 'succeeded'])
      const { code, stdout } = await cli(['cancel', 'b', 'nope', 'a', ...db, '--json'])
      expect(code).toBe(1)
      expect(JSON.parse(stdout)).toMatchObject([
        { id: 'b', status: 'succeeded', ok: false },
        { id: 'nope', status: null, ok: false },
        { id: 'a', status: 'canceled', ok: true },
      ])
    })
  })

  describe('resolve', () => {
    const step = (name: string, kind: string, state: string) => ({
      ...{ job_id: 'a', name, kind, state, attempt: 1, started_at: 1_000, ended_at: state === 'started' ? null : 2_000 },
      ...(kind === 'effect' && { request: '{"amount":5}', provider_key: 'jobtable-k' }),
    })
    const held = async () => {
      await withJobs(['a', 'failed'], ['s', 'succeeded'])
      await place.insert(
        'job_steps',
        step('charge', 'effect', 'started'),
        step('mail', 'effect', 'started'),
        step('made', 'step', 'done'),
      )
    }
    const states = () => sql('SELECT name, state FROM job_steps ORDER BY name')

    test('says what was found, and makes the job pending once nothing is in doubt', async () => {
      await held()
      const first = await cli(['resolve', 'a', 'charge', '--done', '{"receipt":1}', ...db])
      expect([first.code, first.stdout]).toEqual([0, 'a stays failed; in doubt: mail\n'])
      const second = await cli(['resolve', 'a', 'charge', '--done', '{"receipt":2}', ...db])
      expect([second.code, second.stdout]).toEqual([0, 'a stays failed; in doubt: mail\n'])
      expect(await cliJson(['resolve', 'a', 'mail', '--not-done', ...db])).toEqual({
        ...{ id: 'a', effect: 'mail', as: 'not_done', inDoubt: [], pending: true },
      })
      expect(await states()).toEqual([
        ['charge', 'done'],
        ['made', 'done'],
        ['mail', 'refused'],
      ])
      expect((await statuses())['a']).toBe('pending')
      const { steps, timeline } = await cliJson<{ steps: object[]; timeline: object[] }>(['show', 'a', ...db])
      expect(steps[0]).toMatchObject({
        name: 'charge',
        kind: 'effect',
        state: 'done',
        request: { amount: 5 },
        value: { receipt: 2 },
      })
      expect(timeline).toMatchObject([{}, { kind: 'resolved' }, { kind: 'resolved' }, { kind: 'resolved' }, { kind: 'repaired' }])
      expect((await cli(['show', 'a', ...db])).stdout).toMatch(
        /\nsteps\nSTEP .*\ncharge +effect +done +person .*jobtable-k +\{"receipt":2\}\n/,
      )
    })

    test('a held job is found, explained and warned of, and no retry is advised', async () => {
      await held()
      const message = 'the outcome of the effect charge is unknown, and the job is held: look'
      const errors = JSON.stringify([{ attempt: 1, at: 1_000, kind: 'permanent', code: 'effect_unknown', message }])
      await sql(`UPDATE jobs SET last_error = '${message}', errors = '${errors}' WHERE id = 'a'`)
      await withJobs(['b', 'failed', { error: 'HTTP 429' }])
      expect(await cliJson(['list', '--held', ...db])).toMatchObject([{ id: 'a' }])
      expect(await cliJson(['list', '--held', '--error', 'no such words', ...db])).toEqual([])
      expect((await cli(['why', 'a', ...db])).stdout).toMatch(/is held: .*"resolve" makes it pending again/)
      expect((await cli(['show', 'a', ...db])).stdout).toContain('charge may have happened, with the request {"amount":5}\n')
      const doctor = (await cli(['doctor', ...db])).stdout
      expect(doctor).toMatch(/1 job of type \S+ is held, .*jobtable list --held.*jobtable resolve/)
      expect(doctor).toMatch(/jobtable retry --type \S+`, which leaves those that are held in doubt/)
      const { code, stderr } = await cli(['retry', 'a', 'b', ...db])
      expect([code, stderr]).toEqual([0, expect.stringMatching(/still in doubt of "a": .*jobtable resolve/)])
    })

    test('a held job is found by its effects, whatever its newest error is', async () => {
      await held()
      const errors = JSON.stringify([{ attempt: 2, at: 1_000, kind: 'lost', code: 'lost', message: 'the worker is gone' }])
      await sql(`UPDATE jobs SET last_error = 'the worker is gone', errors = '${errors}' WHERE id = 'a'`)
      expect(await cliJson(['list', '--held', ...db])).toMatchObject([{ id: 'a', held: true }])
      expect((await cli(['why', 'a', ...db])).stdout).toMatch(/is held: nobody knows .*the worker is gone\. "resolve"/)
      expect((await cli(['retry', 'a', ...db])).stderr).toMatch(/still in doubt of "a"/)
      expect(await cliJson(['list', '--held', ...db])).toEqual([])
    })

    test('names what is in doubt where it is given something else, and changes nothing', async () => {
      await held()
      for (const [args, message] of [
        [['a', 'made', '--not-done'], /made is a step that is done; in doubt are: charge, mail/],
        [['s', 'charge', '--done', 'null'], /s is succeeded/],
        [['x', 'charge', '--done', 'null'], /no job/],
      ] as const) {
        const { code, stderr } = await cli(['resolve', ...args, ...db])
        expect([code, stderr]).toEqual([1, expect.stringMatching(message)])
      }
      for (const args of [
        ['a', 'charge'],
        ['a', 'charge', '--done'],
        ['a', 'charge', '--done', '1', '--not-done'],
        ['a', 'charge', '--done', 'no json'],
      ])
        expect((await cli(['resolve', ...args, ...db])).code).toBe(2)
      expect((await states()).map(([, state]) => state)).toEqual(['started', 'done', 'started'])
    })
  })

  describe('retry', () => {
    const filtered = ['retry', '--type', 'mail', '--error', '429', '--older-than', '1h']
    const old = { error: 'HTTP 429', ageMs: 7_200_000 }

    beforeEach(async () => {
      await withJobs(
        ['a', 'failed', old],
        ['b', 'failed', old],
        ['c', 'failed', { error: 'HTTP 429' }],
        ['d', 'failed', { ...old, error: 'no' }],
        ['e', 'canceled', old],
      )
    })

    test('makes named jobs pending again, and notes who did it', async () => {
      const { code, stdout } = await cli(['retry', 'a', 'e', ...db])
      expect([code, stdout]).toEqual([0, '2 jobs are pending again\n'])
      expect(await statuses()).toMatchObject({ a: 'pending', e: 'pending', b: 'failed' })
      const { stdout: shown } = await cli(['show', 'a', ...db])
      expect(shown).toMatch(/repaired +made pending again by .*cli/)
      expect(shown.match(/repaired/g)).toHaveLength(1)
    })

    test('exits with 1 when a named job cannot be retried, saying why', async () => {
      await withJobs(['s', 'succeeded'], ['x', 'failed', { supersededBy: 'y' }])
      const { code, stdout } = await cli(['retry', 'a', 's', 'x', 'nope', ...db])
      expect(code).toBe(1)
      expect(stdout).toMatch(
        /^1 job is pending again\n"s" .*only a failed or canceled.*\n"x" .*newer job y.*\n"nope" .*no such job\n$/,
      )
    })

    test('without a terminal prints the count, changes nothing and exits with 1', async () => {
      const { code, stdout, stderr } = await cli([...filtered, ...db])
      expect([code, stdout]).toEqual([1, '2 jobs match\n'])
      expect(stderr).toContain('--yes')
      expect(await cliJson([...filtered, ...db])).toEqual({ matched: 2, retried: 0, left: [] })
      expect(await statuses()).toMatchObject({ a: 'failed', b: 'failed' })
    })

    test.each([
      ['y\n', 0, 'pending'],
      ['YES\n', 0, 'pending'],
      ['n\n', 1, 'failed'],
      ['\n', 1, 'failed'],
      ['', 1, 'failed'],
    ])('on a terminal asks first, and takes the answer %j', async (stdin, code, status) => {
      const answer = await cli([...filtered, ...db], { terminal: true, stdin })
      expect(answer.code).toBe(code)
      expect(answer.stderr).toContain('2 jobs match. Make them pending again? [y/N]')
      expect(await statuses()).toEqual({ a: status, b: status, c: 'failed', d: 'failed', e: 'canceled' })
    })

    test('with --yes retries all that match and nothing else', async () => {
      expect(await cliJson([...filtered, ...db, '--yes'])).toEqual({ matched: 2, retried: 2, left: [] })
      expect(await statuses()).toEqual({ a: 'pending', b: 'pending', c: 'failed', d: 'failed', e: 'canceled' })
    })

    test('by filter leaves a job alone whose key has passed to a newer one, and names it', async () => {
      await withJobs(['x', 'failed', { supersededBy: 'y' }])
      const { code, stdout } = await cli(['retry', '--status', 'failed', '--yes', ...db])
      expect([code, stdout]).toEqual([
        0,
        expect.stringMatching(/^4 jobs are pending again\n"x" was left as it is: the newer job y/),
      ])
    })

    test('retries more than fit on one page', async () => {
      await place.insert('jobs', ...Array.from({ length: 701 }, (_, i) => ({ id: `m${i}`, type: 'many', status: 'failed' })))
      expect(await cliJson(['retry', '--type', 'many', '--yes', ...db])).toEqual({ matched: 701, retried: 701, left: [] })
      expect(await sql(`SELECT count(*) FROM jobs WHERE type = 'many' AND status = 'pending'`)).toEqual([[701]])
    })

    test('with nothing to retry is done', async () => {
      expect(await cli(['retry', '--type', 'nobody', ...db])).toEqual({ code: 0, stdout: 'No jobs match.\n', stderr: '' })
    })

    test('of everything must be asked for by name', async () => {
      expect((await cli(['retry', ...db])).code).toBe(2)
      expect((await cli(['retry', 'a', '--type', 'mail', ...db])).code).toBe(2)
      expect(await statuses()).toMatchObject({ a: 'failed' })
    })
  })

  describe('prune', () => {
    const DAY = 86_400_000

    beforeEach(async () => {
      await withJobs(
        ['s8', 'succeeded', { ageMs: 8 * DAY }],
        ['s1', 'succeeded', { ageMs: DAY }],
        ['f8', 'failed', { ageMs: 8 * DAY }],
        ['p', 'pending', { ageMs: 99 * DAY }],
      )
    })

    test('deletes what is past its retention, and nothing else', async () => {
      expect(await cliJson(['prune', '--yes', ...db])).toEqual({ pruned: 1 })
      expect(Object.keys(await statuses())).toEqual(['f8', 'p', 's1'])
      expect((await cli(['prune', '--yes', '--succeeded', '1h', '--failed', '7d', ...db])).stdout).toBe('2 jobs were deleted\n')
      expect(Object.keys(await statuses())).toEqual(['p'])
    })

    test('deletes nothing without a yes', async () => {
      expect((await cli(['prune', ...db])).code).toBe(1)
      expect((await cli(['prune', ...db], { terminal: true, stdin: 'n\n' })).code).toBe(1)
      expect(Object.keys(await statuses())).toHaveLength(4)
    })
  })

  test('an enqueued job can be followed by every command that looks', async () => {
    const { id } = await cliJson<{ id: string }>(['enqueue', 'mail', '{}', ...db])
    expect((await cliJson<JobJson[]>(['list', ...db])).map((job) => job.id)).toEqual([id])
    expect((await cli(['why', id, ...db])).stdout).toBe('It is due, but no worker is running.\n')
  })
}
