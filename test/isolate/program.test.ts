import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { build } from 'esbuild'
import { expect, it, onTestFinished } from 'vitest'

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
