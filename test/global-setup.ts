import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'
import { offerServer } from './support/postgres/shared.js'

const root = join(import.meta.dirname, '..')

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  build()
  return offerServer(project)
}

/**
 * Builds dist/ once per run, for the tests that start a process with the built package. A type error does not stop the
 * tests, which is what `npm run typecheck` is for, but a build that leaves nothing behind does.
 */
function build(): void {
  const { status, stdout, stderr } = spawnSync(process.execPath, ['scripts/build.mjs'], { cwd: root, encoding: 'utf8' })
  if (status === 0) return
  if (!existsSync(join(root, 'dist'))) throw new Error(`npm run build failed and left no dist/:\n${stdout}${stderr}`)
  console.warn('npm run build found type errors, which npm run typecheck shows; the tests run all the same')
}
