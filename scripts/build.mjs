/**
 * Compiles src/ into dist/, writing only what changed, so that a build beside running tests is safe and a second one takes
 * a second. Then drops what is left in dist/ of sources that are gone, so that it is never packed.
 *
 * `dist/.tsbuildinfo*` remember the last build; deleting dist/ deletes it too, and the next build is a full one.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const dist = join(root, 'dist')

const compiler = join(root, 'node_modules/typescript/bin/tsc')
const compile = (project) => {
  const { status, error } = spawnSync(process.execPath, [compiler, '-p', project], { cwd: root, stdio: 'inherit' })
  if (error) throw error
  return status ?? 1
}
// What is of browsers alone is compiled with their types, which nothing else is to use.
const statuses = [compile('tsconfig.build.json'), compile('tsconfig.build.browser.json')]

for (const entry of existsSync(dist) ? readdirSync(dist, { recursive: true }) : []) {
  const output = /^(.*)\.(?:d\.ts|js|js\.map)$/.exec(entry)
  if (output && !existsSync(join(root, 'src', `${output[1]}.ts`)) && !existsSync(join(root, 'src', `${output[1]}.tsx`))) {
    rmSync(join(dist, entry))
  }
}

process.exitCode = Math.max(...statuses)
