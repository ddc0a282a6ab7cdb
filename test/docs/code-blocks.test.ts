import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { buildSync } from 'esbuild'
import { afterAll, expect, test } from 'vitest'
import { documents, readBlocks, root, sameOutput, type Block, type Check } from './blocks.js'
import { checkCommands } from './shell.js'

const blocks = documents().flatMap(readBlocks)
const programs = blocks.filter((block) => block.check === 'types' || block.check === 'run')

// Inside the project, so that the blocks find its packages, and jobtable itself by its own name, as the examples do.
mkdirSync(join(root, '.tmp'), { recursive: true })
const folder = mkdtempSync(join(root, '.tmp/docs-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
for (const block of programs) write(pathOf(block), block.source)

function pathOf(block: Block): string {
  return join(folder, block.document, block.name)
}

/** As one file with the blocks that it imports, which starts faster than through a loader. */
function compiled(block: Block): string {
  const outfile = `${pathOf(block)}.mjs`
  buildSync({ entryPoints: [pathOf(block)], outfile, bundle: true, packages: 'external', platform: 'node', format: 'esm' })
  return outfile
}

function write(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, text)
}

function where(block: Block): string {
  return `${block.document}:${block.line}`
}

function titled(check: Check): [string, Block][] {
  return blocks.filter((block) => block.check === check).map((block) => [where(block), block])
}

test('no two blocks of a document have the same file name', () => {
  const names = programs.map((block) => `${block.document}: ${block.name}`)
  expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([])
})

test('every ts block type-checks', ({ skip }) => {
  skip(programs.length === 0, 'no document has a ts block')
  write(
    join(folder, 'tsconfig.json'),
    JSON.stringify({
      extends: '../../tsconfig.json',
      compilerOptions: { moduleDetection: 'force', noUnusedLocals: false, noUnusedParameters: false },
      include: ['**/*.ts', '**/*.tsx'],
      exclude: [],
    }),
  )
  const { stdout } = spawnSync(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '--pretty', 'false'], {
    cwd: folder,
    encoding: 'utf8',
  })
  expect(stdout).toBe('')
})

test.each(titled('run'))('%s prints what the document says', (_, block) => {
  const output = blocks.find((next) => next.document === block.document && next.line > block.line)
  if (output?.language !== 'text') throw new Error('a block marked "run" must be followed by a text block with what it prints')
  const cwd = mkdtempSync(join(dirname(pathOf(block)), 'run-'))
  const { status, stdout, stderr } = spawnSync(process.execPath, [compiled(block)], { cwd, encoding: 'utf8', timeout: 25_000 })
  // Compared as text only where it differs, so that a failure shows both.
  const printed = status === 0 && sameOutput(stdout, output.code) ? output.code : `${stdout}${stderr}(exit code ${status})`
  expect(printed).toBe(output.code)
})

test.each(titled('shell'))('the commands of %s exist', (_, block) => {
  const files = new Set(programs.filter((program) => program.document === block.document).map((program) => program.name))
  expect(checkCommands(block.code, files)).toEqual([])
})

test.each(titled('sql'))('SQLite accepts the statements of %s', async (_, block) => {
  const { checkStatements } = await import('./sql.js')
  expect(await checkStatements(block.code)).toEqual([])
})

test('every json block parses', () => {
  for (const block of blocks.filter((candidate) => candidate.check === 'json')) {
    expect(() => JSON.parse(block.code) as unknown, where(block)).not.toThrow()
  }
})
