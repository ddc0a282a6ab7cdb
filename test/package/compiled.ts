/** What a consumer written in TypeScript does with the package, in every mode of modules that it may choose. */
import { describe, expect, test } from 'vitest'
import { bundle } from './bundle.js'
import { createConsumer, type PackageType } from './consumer.js'

const MODES: readonly { module: string; type: PackageType; file: string }[] = [
  { module: 'node16', type: 'module', file: 'hello.ts' },
  { module: 'node16', type: 'commonjs', file: 'hello-import.ts' },
  { module: 'nodenext', type: 'module', file: 'hello.ts' },
  { module: 'nodenext', type: 'commonjs', file: 'hello.ts' },
  { module: 'preserve', type: 'module', file: 'hello.ts' },
  { module: 'preserve', type: 'commonjs', file: 'hello.ts' },
]

/** Registers the tests of one compiler: the path of its program. Each has a file, so that they run beside each other. */
export function describeCompiler(version: string, compiler: string): void {
  describe(`TypeScript ${version}`, () => {
    test.each(MODES)(
      'module $module in a package of type $type type-checks all libraries and runs a job',
      async ({ module, type, file }) => {
        const named = (name: string): string => `${name}.${module === 'node16' && type === 'commonjs' ? 'mts' : 'ts'}`
        const consumer = createConsumer({
          type,
          files: {
            [`typescript/${file}`]: 'hello.ts',
            'typescript/http.ts': named('http'),
            'typescript/testing.ts': named('testing'),
          },
          packages: ['@types/node', 'undici-types'],
        })
        consumer.write(
          'tsconfig.json',
          JSON.stringify({
            compilerOptions: {
              module,
              moduleResolution: module === 'preserve' ? 'bundler' : module,
              target: 'es2022',
              lib: ['es2023'],
              types: ['node'],
              strict: true,
              exactOptionalPropertyTypes: true,
              skipLibCheck: false,
              rootDir: '.',
              outDir: 'out',
            },
            include: ['*.ts', '*.mts'],
          }),
        )
        consumer.node(compiler)
        if (module === 'preserve') await bundle(consumer, 'out/hello.js', 'out/bundle.mjs', 'esm')
        expect(consumer.node(module === 'preserve' ? 'out/bundle.mjs' : 'out/hello.js')).toBe('hi Ada\n')
      },
    )
  })
}
