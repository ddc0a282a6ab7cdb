/** What a page does with the package: it type-checks without the types of Node, and a bundler makes it a script for browsers. */
import { join } from 'node:path'
import { build } from 'esbuild'
import { describe, expect, test } from 'vitest'
import { createConsumer, tool } from './consumer.js'

const FILES = { 'page/page.ts': 'page.ts', 'page/element.ts': 'element.ts', 'page/Progress.tsx': 'Progress.tsx' }

const COMPILERS = [
  ['5', join(import.meta.dirname, 'node_modules/typescript/bin/tsc')],
  ['7', tool('typescript/bin/tsc')],
] as const

describe('a page', () => {
  test.each(COMPILERS)('type-checks with TypeScript %s, all libraries too, and without the types of Node', (_, compiler) => {
    const consumer = createConsumer({
      type: 'module',
      files: FILES,
      packages: ['react', '@types/react', 'csstype'],
      driver: false,
    })
    consumer.write(
      'tsconfig.json',
      JSON.stringify({
        compilerOptions: {
          module: 'preserve',
          moduleResolution: 'bundler',
          target: 'es2022',
          lib: ['es2022', 'dom', 'dom.iterable'],
          types: [],
          jsx: 'react-jsx',
          strict: true,
          exactOptionalPropertyTypes: true,
          skipLibCheck: false,
          noEmit: true,
        },
        include: ['*.ts', '*.tsx'],
      }),
    )
    expect(consumer.node(compiler)).toBe('')
  })
  test('is bundled for browsers: what it imports is there, what it does not is not, and no module of Node is needed', async () => {
    const consumer = createConsumer({ type: 'module', files: FILES, packages: ['react'], driver: false })
    const bundled = async (entry: string) => {
      const { outputFiles } = await build({
        absWorkingDir: consumer.folder,
        entryPoints: [entry],
        bundle: true,
        platform: 'browser',
        format: 'esm',
        write: false,
        logLevel: 'error',
      })
      return outputFiles[0]!.text
    }
    expect(await bundled('page.ts')).toContain('export-progress')
    expect(await bundled('element.ts')).toContain('aria-valuenow')
    const react = await bundled('Progress.tsx')
    expect(react).toContain('useSyncExternalStore')
    expect(react).not.toContain('aria-valuenow')
  })
})
