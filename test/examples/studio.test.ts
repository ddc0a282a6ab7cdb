import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { Studio } from '../support/studio.js'
import { describeStudio } from './studio-suite.js'

describeStudio(async () => undefined)

it.each(['SIGINT', 'SIGTERM', 'SIGKILL'] as const)('a studio that %s ends leaves no process behind', async (signal) => {
  const studio = await Studio.start()
  try {
    await studio.stop(signal)
    await expect(fetch(studio.url)).rejects.toThrow('fetch failed')
  } finally {
    await studio.remove()
  }
})

it('a web process that a signal ends is told of, and ends the studio', async () => {
  const studio = await Studio.start()
  try {
    const web = Number(execFileSync('pgrep', ['-P', String(studio.pid), '-f', 'web.ts'], { encoding: 'utf8' }))
    process.kill(web, 'SIGKILL')
    expect(await studio.gone).toContain('The web process was ended by SIGKILL, and the studio with it\n')
  } finally {
    await studio.remove()
  }
})

describe('a studio that cannot start says why in one line, and ends with 1', () => {
  /** What it has printed. */
  async function refusal(env: NodeJS.ProcessEnv): Promise<string> {
    const folder = mkdtempSync(join(tmpdir(), 'jobtable-studio-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    return Studio.start(env, folder).then(
      () => expect.unreachable('it has started'),
      (error: unknown) => /^Error: the studio ended with 1:\n(.*)\n$/.exec(String(error))?.[1] ?? String(error),
    )
  }

  it.each(['abc', '-1', '65536', '1.5'])('with the port %s', async (PORT) => {
    expect(await refusal({ PORT })).toBe(`The studio cannot start: PORT must be a number from 0 to 65535, not ${PORT}`)
  })

  it('with a port that somebody else has', async () => {
    const other = createServer().listen(0, '127.0.0.1')
    onTestFinished(() => void other.close())
    await once(other, 'listening')
    const { port } = other.address() as AddressInfo
    expect(await refusal({ PORT: String(port) })).toMatch(
      new RegExp(`^The studio cannot listen on port ${port}: .*EADDRINUSE.*$`),
    )
  })

  it('with a secret that is too short', async () => {
    expect(await refusal({ STUDIO_SECRET: 'short' })).toMatch(/^The studio cannot use its secret: STUDIO_SECRET must have .*$/)
  })

  it('with a file that is no database', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'jobtable-studio-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    writeFileSync(join(folder, 'letter.txt'), 'Dear reader, '.repeat(100))
    expect(await refusal({ JOBTABLE_URL: `sqlite:${join(folder, 'letter.txt')}` })).toBe(
      'The studio cannot use its database: file is not a database',
    )
  })

  it('with a database server that does not answer', async () => {
    expect(await refusal({ JOBTABLE_URL: 'postgres://ada@127.0.0.1:1/studio' })).toBe(
      'The studio cannot use its database: connect ECONNREFUSED 127.0.0.1:1',
    )
  })
})
