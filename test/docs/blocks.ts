/**
 * The code blocks of the documentation, and what is promised of each. The words after the language say it:
 *
 *     ```ts              type-checked, as a module of its own
 *     ```tsx             the same, with elements of React
 *     ```ts run          also run; what it prints must be the ```text block that follows, where `...` stands for anything
 *     ```sh              every command must exist: npm scripts, files, jobtable's own commands and their options
 *     ```sql             every statement must be accepted by a jobtable database on SQLite
 *     ```sql postgres    by one on PostgreSQL, whose tables are in the schema jobtable
 *     ```json            must parse
 *     ```text, ```mermaid   free: output and drawings
 *     ```php unchecked because it needs PHP   for everything else
 *
 * A block whose first line is a comment with a file name (`// jobs.ts`) gets that name, and other blocks of the document
 * can import it. What a block needs but a reader does not goes into an HTML comment right before it: `<!-- ts`, lines, `-->`.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

export const root = join(import.meta.dirname, '../..')

export type Check = 'types' | 'run' | 'shell' | 'sql' | 'postgres' | 'json' | 'none'

export interface Block {
  /** The document, from the project's root, and the line of the block's first line in it. */
  document: string
  line: number
  language: string
  check: Check
  /** The file the block becomes, in a folder of its document. */
  name: string
  code: string
  /** The whole of that file. Its lines have the same numbers as in the document. */
  source: string
}

const CHECKS: Readonly<Record<string, Check>> = {
  ts: 'types',
  tsx: 'types',
  sh: 'shell',
  sql: 'sql',
  json: 'json',
  text: 'none',
  mermaid: 'none',
}

export function documents(): string[] {
  const top = ['README.md', 'README.zh-CN.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md'].filter((file) =>
    existsSync(join(root, file)),
  )
  const inDocs = existsSync(join(root, 'docs')) ? readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' }) : []
  return [
    ...top,
    ...inDocs
      .filter((file) => file.endsWith('.md'))
      .map((file) => `docs/${file.replaceAll('\\', '/')}`)
      .toSorted(),
  ]
}

export function readBlocks(document: string): Block[] {
  return parseBlocks(document, readFileSync(join(root, document), 'utf8'))
}

export function parseBlocks(document: string, text: string): Block[] {
  const lines = text.split(/\r?\n/)
  const blocks: Block[] = []
  let prelude: { from: number; lines: string[]; end: number } | undefined
  for (let i = 0; i < lines.length; i++) {
    if (lines[i]!.trim() === '<!-- ts') {
      const end = indexFrom(lines, i, (line) => line.trim() === '-->')
      prelude = { from: i + 1, lines: lines.slice(i + 1, end), end }
      i = end
      continue
    }
    const fence = /^(\s*)(`{3,}|~{3,})\s*(.*)$/.exec(lines[i]!)
    if (!fence) continue
    const [, indent, marks, info] = fence as unknown as [string, string, string, string]
    const end = indexFrom(lines, i, (line) => line.trim() === marks)
    const code = lines.slice(i + 1, end).map((line) => (line.startsWith(indent) ? line.slice(indent.length) : line.trimStart()))
    const before = prelude && lines.slice(prelude.end + 1, i).every((line) => line.trim() === '') ? prelude : undefined
    const source = Array.from({ length: i + 1 }, (_, n) => before?.lines[n - before.from] ?? '').concat(code)
    blocks.push({
      document,
      line: i + 2,
      ...promised(info, `${document}:${i + 1}`),
      ...named(code, i + 2, info),
      code: code.join('\n'),
      source: source.join('\n'),
    })
    prelude = undefined
    i = end
  }
  return blocks
}

function promised(info: string, where: string): { language: string; check: Check } {
  const [, language, words] = /^(\S*)\s*(.*)$/.exec(info) as unknown as [string, string, string]
  if (/^unchecked because \S/.test(words)) return { language, check: 'none' }
  const check = CHECKS[language]
  if (check && words === '') return { language, check }
  if (language === 'ts' && words === 'run') return { language, check: 'run' }
  if (language === 'sql' && words === 'postgres') return { language, check: 'postgres' }
  throw new Error(
    `${where}: nothing checks a block of "${info}": use one of the kinds in test/docs/blocks.ts, or "unchecked because ..."`,
  )
}

function named(code: readonly string[], line: number, info: string): { name: string } {
  const name = /^\/\/ ([\w./-]+\.tsx?)$/.exec(code[0] ?? '')?.[1]
  return { name: name ?? `line-${line}.${info.startsWith('tsx') ? 'tsx' : 'ts'}` }
}

function indexFrom(lines: readonly string[], start: number, matches: (line: string) => boolean): number {
  const index = lines.findIndex((line, n) => n > start && matches(line))
  return index === -1 ? lines.length : index
}

/** Whether a printed text is the expected one; `...` in the expected one stands for any text within a line. */
export function sameOutput(printed: string, expected: string): boolean {
  const pattern = expected
    .trim()
    .split('...')
    .map((part) => part.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&'))
    .join('.*')
  return new RegExp(`^${pattern}$`).test(printed.trim().replaceAll('\r\n', '\n'))
}
