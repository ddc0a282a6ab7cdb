/** How `jobtable work` refuses and stops, on any database. */
import { describe, expect, test } from 'vitest'
import { cli, moduleOf, SCHEMA, spawnCli, temporaryFolder, write, type Place, type Running } from './support.js'

/** A handler that tells when it runs, and ends when it is told to. */
const LONG = `async () => { console.log('handler runs'); await new Promise((resolve) => process.once('message', resolve)) }`

export function describeWork(makePlace: () => Promise<Place>): void {
  async function begin(jobs: number): Promise<Place & { folder: string }> {
    const place = await makePlace()
    await cli(['init', ...place.db])
    for (let i = 0; i < jobs; i++) await cli(['enqueue', 'mail', '{}', ...place.db])
    return { ...place, folder: temporaryFolder() }
  }

  async function startLong(args: readonly string[] = []): Promise<Running & Place & { row(): Promise<unknown> }> {
    const { folder, ...place } = await begin(1)
    write(folder, 'jobs.mjs', moduleOf(LONG))
    const running = spawnCli(folder, ['work', 'jobs.mjs', ...place.db, ...args])
    await running.line(/^handler runs$/)
    return { ...place, ...running, row: async () => (await place.sql('SELECT status, attempts, locked_by FROM jobs'))[0] }
  }

  describe('a module that work cannot use is named, exits with 1 at once, and leaves the pending jobs alone', () => {
    const cases: [name: string, text: string | undefined, message: RegExp][] = [
      ['missing.mjs', undefined, /^jobtable: there is no module missing\.mjs\n {2}looked for .*missing\.mjs/],
      [
        'throws.mjs',
        `setInterval(() => {}, 1000)\nthrow new Error('no password=hunter2 today')`,
        /^jobtable: throws\.mjs cannot be loaded: no password=\[masked\] today\n {2}at .*throws\.mjs:2/,
      ],
      ['syntax.mjs', 'export const = 1', /^jobtable: syntax\.mjs cannot be loaded: .*\n {2}`node syntax\.mjs` shows where/],
      ['import.mjs', `import 'not-installed'`, /^jobtable: import\.mjs cannot be loaded: Cannot find package 'not-installed'/],
      ['plain.mjs', 'export const queue = { work: true }', /^jobtable: plain\.mjs exports no queue\n {2}export/],
      [
        'types.mjs',
        `import { jobtable } from 'jobtable'\nexport default jobtable()`,
        /^jobtable: types\.mjs defines no job type/,
      ],
      ['handlers.mjs', moduleOf('undefined'), /^jobtable: handlers\.mjs gives no job type a handler \(it defines mail\)/],
      [
        'twice.mjs',
        `${moduleOf('async () => {}')}queue.define('mail', { payload: ${SCHEMA}, idempotency: { none: 'test' } })`,
        /cannot be loaded: the job type mail is defined twice/,
      ],
      [
        'several.mjs',
        `${moduleOf('async () => {}')}export const other = jobtable('sqlite:other.db')\nexport default queue`,
        /^jobtable: several\.mjs exports 2 queues: \w+, \w+/,
      ],
      ['never.mjs', 'await new Promise(() => {})', /^jobtable: never\.mjs never finishes loading/],
    ]

    test.each(cases)('%s', async (name, text, message) => {
      const { folder, db, sql } = await begin(3)
      if (text !== undefined) write(folder, name, text)
      const { code, stdout, stderr } = await spawnCli(folder, ['work', name, ...db]).ended
      expect(stderr).toMatch(message)
      expect([code, stdout]).toEqual([1, ''])
      expect(await sql('SELECT status, attempts FROM jobs')).toEqual([
        ['pending', 0],
        ['pending', 0],
        ['pending', 0],
      ])
    })
  })

  describe('stopping', () => {
    test.each([
      ['SIGINT', 'SIGINT'],
      ['SIGTERM', 'SIGINT'],
    ] as const)('%s and an echo of it as %s let the running job end, after the rule was printed', async (first, echo) => {
      const { child, line, ended, row } = await startLong()
      child.kill(first)
      expect(await line(/: stopping;/)).toMatch(
        /running jobs have 25s to end.*A signal within 1 s is taken as an echo and ignored, a later one hands them back at once$/,
      )
      child.kill(echo)
      await line(/taken as an echo/)
      child.send('end')
      expect((await ended).code).toBe(0)
      expect(await row()).toEqual(['succeeded', 1, null])
    })

    test('a second signal on purpose hands the running job back, and the process ends within a second, not with 0', async () => {
      const { child, line, ended, row, sql } = await startLong()
      child.kill('SIGINT')
      expect(await line(/waiting for 1 job/)).toMatch(/\(mail \S+\); signal again to hand back at once$/)
      const since = performance.now()
      child.kill('SIGINT')
      const { code, stdout } = await ended
      expect(performance.now() - since).toBeLessThan(1_000)
      expect(code).toBe(1)
      expect(stdout).toMatch(/^forced to end: /m)
      expect(await row()).toEqual(['retrying', 0, null])
      expect(await sql('SELECT id FROM job_workers')).toEqual([])
    })

    test('the stop timeout hands back what has not ended by then, and the exit code is 0', async () => {
      const { child, ended, row } = await startLong(['--stop-timeout', '100ms'])
      child.kill('SIGTERM')
      const { code, stdout } = await ended
      expect([code, stdout]).toEqual([0, expect.stringMatching(/^retrying mail \S+ in 0ms: was handed back/m)])
      expect(await row()).toEqual(['retrying', 0, null])
    })
  })
}
