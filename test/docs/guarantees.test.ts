import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { root } from './blocks.js'

const page = readFileSync(join(root, 'docs/guarantees.md'), 'utf8')
const rows = page.split('\n').filter((line) => line.startsWith('| **'))

it('every promise says its limits and names tests that exist', () => {
  expect(rows.length).toBeGreaterThan(10)
  for (const row of rows) {
    const [, promise, limits, proof] = row.split('|').map((cell) => cell.trim())
    const files = [...proof!.matchAll(/`((?:src|test|simulation)\/[^`]+)`/g)].map(([, file]) => file!)
    expect(limits, promise).not.toBe('')
    expect(files.length, promise).toBeGreaterThan(0)
    expect(
      files.filter((file) => !existsSync(join(root, file))),
      promise,
    ).toEqual([])
  }
})
