import { describe, expect, test } from 'vitest'
import { bundle } from './bundle.js'
import { createConsumer, tool } from './consumer.js'

describe('bundled with esbuild', () => {
  test('an ES module bundle finds the SQLite driver and runs a job', async () => {
    const consumer = createConsumer({ type: 'module', files: { 'hello.mjs': 'hello.mjs' } })
    await bundle(consumer, 'hello.mjs', 'bundle.mjs', 'esm')
    expect(consumer.node('bundle.mjs')).toBe('hi Ada\n')
  })

  test('a CommonJS bundle finds the SQLite driver and runs a job', async () => {
    const consumer = createConsumer({ type: 'commonjs', files: { 'hello.cjs': 'hello.cjs' } })
    await bundle(consumer, 'hello.cjs', 'bundle.cjs', 'cjs')
    expect(consumer.node('bundle.cjs')).toBe('hi Ada\n')
  })
})

describe('under vitest', () => {
  test.each([
    ['loaded by Node', []],
    ['transformed by Vite', ['jobtable']],
  ])('the package, %s, finds the SQLite driver and runs a job', (_, inline) => {
    const consumer = createConsumer({
      type: 'module',
      files: { 'vitest.test.mjs': 'hello.test.mjs' },
      packages: ['vitest', 'vite'],
    })
    consumer.write('vitest.config.mjs', `export default { test: { server: { deps: { inline: ${JSON.stringify(inline)} } } } }`)
    expect(consumer.node(tool('vitest/vitest.mjs'), 'run')).toContain('1 passed')
  })
})
