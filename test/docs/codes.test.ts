import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { CODES } from '../../src/classify/codes.js'
import { root } from './blocks.js'

const page = readFileSync(join(root, 'docs/retry.md'), 'utf8')

/** The rows of the table below a heading, as their cells. */
function tableBelow(heading: string): string[][] {
  const section = page.split(`\n## ${heading}\n`)[1]?.split('\n## ')[0] ?? ''
  return section
    .split('\n')
    .filter((line) => line.startsWith('| `'))
    .map((line) => line.split(' | ').map((cell) => cell.replace(/^\| /, '').replace(/ \|$/, '')))
}

test('the page about errors has every code of the classifier, with its meaning', () => {
  const rows = tableBelow('The codes of failures')
  expect(rows).toEqual(Object.entries(CODES).map(([code, meaning]) => [`\`${code}\``, meaning]))
})

test('the page about errors has every code of an error of jobtable, says when it comes and what to do', () => {
  const source = readFileSync(join(root, 'src/errors.ts'), 'utf8')
  const union = /export type ErrorCode =\n((?: {2}\| '\w+'\n)+)/.exec(source)?.[1] ?? ''
  const codes = Array.from(union.matchAll(/'(\w+)'/g), ([, code]) => `\`${code!}\``)
  const rows = tableBelow('The errors of jobtable')
  expect(codes).not.toEqual([])
  expect(rows.map(([code]) => code)).toEqual(codes)
  for (const row of rows)
    expect(row, row[0]).toEqual([expect.any(String), expect.stringMatching(/\w/), expect.stringMatching(/\w/)])
})
