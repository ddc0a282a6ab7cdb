/**
 * The rules that no linter knows, for every file that git has or would add:
 *
 * - size: a code file stays under 400 lines, a store's or a test's under 600; nothing is exempt
 * - sql: SQL lives in src/stores and src/testing, nowhere else in src
 * - exports: public names are listed one by one, so `export *` occurs nowhere in src
 * - paths: no file names a directory of somebody's machine
 * - lock: package-lock.json names no registry, so that it installs from whichever one is configured
 *
 * What a line of text cannot show is not checked here: that next states come only from transition.ts is what its tests and
 * the conformance suite are for.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, statSync } from 'node:fs'

const CODE = /\.(?:[cm]?[jt]s|[jt]sx)$/
const STORE = /^src\/stores\//
const TEST = /^test\//
const SQL_HOME = /^src\/(?:stores|testing)\//
const SQL = [
  /\bselect\s[^'"`;]*\sfrom\s+\w/i,
  /\binsert\s+(?:or\s+\w+\s+)?into\s+\w/i,
  /\bupdate\s+\w+\s+set\s/i,
  /\bdelete\s+from\s+\w/i,
  /\b(?:create|drop|alter)\s+(?:unique\s+)?(?:table|index|view|trigger)\b/i,
  /\bpragma\s+\w/i,
  /\b(?:SELECT|WHERE|RETURNING|ON CONFLICT|BEGIN IMMEDIATE|FOR UPDATE|ORDER BY|GROUP BY)\b/,
]
const MACHINE_PATH = /(?<![\w.\-}/])\/(?:root|work|Users\/\w+|home\/\w+)\/[\w.-]|\b[A-Z]:\\Users\\/
const BINARY = /\.(?:pdf|png|jpe?g|ttf|otf|woff2?|gz|tgz|db)$/

const listed = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard', '-z'], { encoding: 'utf8' })
const files = [...new Set(listed.split('\0'))].filter((file) => file && existsSync(file) && statSync(file).isFile())
const problems = files.filter((file) => !BINARY.test(file)).flatMap((file) => check(file, readFileSync(file, 'utf8')))

for (const problem of problems) console.error(problem)
console.log(`${files.length} files, ${problems.length} problems`)
process.exitCode = problems.length > 0 ? 1 : 0

function check(file, text) {
  const found = []
  const lines = text.split('\n')
  const fail = (line, message) => found.push(`${file}:${line}: ${message}`)

  if (CODE.test(file)) {
    const limit = STORE.test(file) || TEST.test(file) ? 600 : 400
    const length = lines.at(-1) === '' ? lines.length - 1 : lines.length
    if (length >= limit) fail(length, `${length} lines, the limit is ${limit}: split it by what changes together`)
  }
  for (const [index, line] of lines.entries()) {
    if (MACHINE_PATH.test(line)) fail(index + 1, "names a directory of somebody's machine")
    if (!file.startsWith('src/')) continue
    if (/^\s*export\s*\*/.test(line)) fail(index + 1, '`export *`: list the names one by one')
    if (!SQL_HOME.test(file) && SQL.some((pattern) => pattern.test(withoutComment(line))))
      fail(index + 1, 'SQL outside src/stores')
  }
  if (file === 'package-lock.json') {
    const resolved = lines.findIndex((line) => /"resolved": "https?:/.test(line))
    if (resolved !== -1) fail(resolved + 1, 'names a registry: run npm install with the .npmrc of this project')
  }
  return found
}

/** The line as far as it is code. Good enough for sources that oxfmt has laid out. */
function withoutComment(line) {
  return /^\s*(?:\*|\/\*|\/\/)/.test(line) ? '' : line.replace(/\s\/\/ .*$/, '')
}
