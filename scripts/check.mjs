/**
 * Runs every check that is no test, one after another, and says at the end which of them failed. All run even when one
 * fails, so that one look shows everything. `npm run check -- lint sources` runs only those named.
 */
import { spawnSync } from 'node:child_process'

const CHECKS = {
  typecheck: 'typecheck',
  lint: 'lint',
  format: 'format:check',
  sources: 'check:sources',
  package: 'check:package',
  unused: 'check:unused',
}

const asked = process.argv.slice(2)
const unknown = asked.filter((name) => !(name in CHECKS))
if (unknown.length > 0) {
  console.error(`no check is called ${unknown.join(', ')}; there are ${Object.keys(CHECKS).join(', ')}`)
  process.exit(2)
}

const failed = []
for (const [name, script] of Object.entries(CHECKS)) {
  if (asked.length > 0 && !asked.includes(name)) continue
  console.log(`\n== ${name}`)
  const { status } = spawnSync('npm', ['run', '--silent', script], { stdio: 'inherit', shell: process.platform === 'win32' })
  if (status !== 0) failed.push(name)
}

console.log(failed.length > 0 ? `\nfailed: ${failed.join(', ')}` : '\nall checks passed')
process.exitCode = failed.length > 0 ? 1 : 0
