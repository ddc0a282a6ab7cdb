import { describe, expect, test } from 'vitest'
import { parseBlocks, sameOutput } from './blocks.js'
import { checkCommands } from './shell.js'

const block = (text: string) => parseBlocks('page.md', text)[0]!

describe('a block of a document', () => {
  test('keeps its line numbers in the file it becomes', () => {
    const { line, source, name } = block('# Title\n\n```ts\nfirst\nsecond\n```\n')
    expect({ line, name }).toEqual({ line: 4, name: 'line-4.ts' })
    expect(source.split('\n')).toEqual(['', '', '', 'first', 'second'])
  })

  test('takes its file name from a comment in its first line', () => {
    expect(block('```ts\n// jobs.ts\nexport {}\n```').name).toBe('jobs.ts')
  })

  test('is preceded by the lines of a comment right before it', () => {
    expect(block("<!-- ts\nimport 'x'\n-->\n\n```ts\nrun()\n```").source.split('\n')).toEqual([
      '',
      "import 'x'",
      '',
      '',
      '',
      'run()',
    ])
    expect(parseBlocks('page.md', '<!-- ts\nhidden\n-->\n\nText.\n\n```ts\nrun()\n```')[0]!.source).not.toContain('hidden')
  })

  test('loses the indentation of the list it stands in', () => {
    expect(block('- item\n\n  ```ts\n  if (x) {\n    y\n  }\n  ```').code).toBe('if (x) {\n  y\n}')
  })

  test('must be of a kind that is checked, or say why not', () => {
    expect(block('```php unchecked because it needs PHP\n```').check).toBe('none')
    expect(() => block('```php\n```')).toThrow(/unchecked because/)
    expect(() => block('```ts unchecked\n```')).toThrow(/unchecked because/)
  })
})

test('expected output may leave parts of a line open with three dots', () => {
  expect(sameOutput('id 123 (done)\n', 'id ... (done)')).toBe(true)
  expect(sameOutput('id 123\n(done)\n', 'id ... (done)')).toBe(false)
})

describe('a command of a document', () => {
  test('passes when it exists', () => {
    expect(
      checkCommands(
        'npm install jobtable # once\n$ npm test && node worker.ts\ncd app; FOO=1 npm run build',
        new Set(['worker.ts']),
      ),
    ).toEqual([])
  })

  test('is named when its script, file or program does not exist', () => {
    const problems = checkCommands('npm run nothing\nnode missing.ts\nfrobnicate --all', new Set())
    expect(problems).toEqual([
      'npm run nothing: package.json has no script "nothing"',
      'node missing.ts: there is no file missing.ts',
      expect.stringContaining('frobnicate --all: no check knows this command'),
    ])
  })
})
