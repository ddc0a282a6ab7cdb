import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { build } from 'esbuild'
import { expect, it, onTestFinished } from 'vitest'
import { until } from '../faults/support/place.js'

const root = join(import.meta.dirname, '../..')
const program = (file: string): string => join(import.meta.dirname, 'program', file)

/** Inside the project, so that what runs there finds the packages, and jobtable by its name as it is built. */
function folder(): string {
  mkdirSync(join(root, '.tmp'), { recursive: true })
  const made = mkdtempSync(join(root, '.tmp/isolate-'))
  onTestFinished(() => rmSync(made, { recursive: true, force: true, maxRetries: 5 }))
  return made
}

/** What it prints; what it says of its end where it failed. */
function run(...args: string[]): string {
  const { stdout, stderr, status } = spawnSync(process.execPath, args, { cwd: folder(), encoding: 'utf8', timeout: 60_000 })
  return status === 0 ? stdout : `${stdout}${stderr}`
}

it('a handler module in TypeScript runs through the loader of the program', () => {
  expect(run('--import', 'tsx', program('main.ts'), 'app.db')).toBe('THREAD!\nPROCESS!\n')
}, 90_000)

it('a handler module that is an entry of the bundle runs beside it', async () => {
  const outdir = folder()
  const entryPoints = [program('main.ts'), program('upper.ts')]
  const outExtension = { '.js': '.mjs' }
  await build({ entryPoints, outdir, outExtension, bundle: true, packages: 'external', platform: 'node', format: 'esm' })
  expect(run(join(outdir, 'main.mjs'), 'app.db')).toBe('THREAD!\nPROCESS!\n')
}, 90_000)

it('a process that never lets go ends by itself when its worker has been killed', async () => {
  const file = join(folder(), 'pid')
  const acts = JSON.stringify(new URL('handlers/acts.mjs', import.meta.url).href)
  const worker = `
    import { jobtable } from 'jobtable'
    const any = { '~standard': { version: 1, vendor: 'test', validate: (value) => ({ value }) } }
    const queue = jobtable('sqlite::memory:')
    const type = queue.define('acts', { payload: any, idempotency: { none: 'a test' }, isolate: 'process', run: new URL(${acts}) })
    await type.enqueue({ act: 'loopKnown', value: ${JSON.stringify(file)} })
    queue.work()`
  const child = spawn(process.execPath, ['--input-type=module', '-e', worker], { cwd: root, stdio: 'ignore' })
  onTestFinished(() => void child.kill('SIGKILL'))
  const pid = await until('it runs', () => (existsSync(file) ? Number(readFileSync(file, 'utf8')) : undefined))
  child.kill('SIGKILL')
  expect(await until('it has ended', () => isOver(pid))).toBe(true)
}, 90_000)

function isOver(pid: number): boolean {
  try {
    process.kill(pid, 0)
    // Nobody may be there to take note of its end.
    return /^State:\tZ/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  } catch {
    return true
  }
}
