import { gzipSync } from 'node:zlib'
import { build } from 'esbuild'
import { expect, it } from 'vitest'

/** What an application's bundler makes of an import of it, for browsers. */
async function bundled(entry: string, external: string[] = []): Promise<{ size: number; inputs: string[] }> {
  const { outputFiles, metafile } = await build({
    entryPoints: [entry],
    external,
    bundle: true,
    minify: true,
    format: 'esm',
    target: 'es2022',
    platform: 'browser',
    write: false,
    metafile: true,
  })
  return { size: gzipSync(outputFiles[0]!.contents, { level: 9 }).length, inputs: Object.keys(metafile.inputs) }
}

it('jobtable/client is smaller than 5 kB, gzipped, and takes nothing of the server along', async () => {
  const { size, inputs } = await bundled('src/client/index.ts')
  expect(size).toBeLessThan(5_000)
  expect(inputs.filter((file) => !/^src\/client\/|^node_modules\/eventsource-parser\//.test(file))).toEqual([])
})

it('jobtable/element with all of its client is smaller than 10 kB, gzipped', async () => {
  const { size, inputs } = await bundled('src/element/index.ts')
  expect(size).toBeLessThan(10_000)
  expect(inputs.filter((file) => !/^src\/(?:client|element)\/|^node_modules\/eventsource-parser\//.test(file))).toEqual([])
})

it('jobtable/react adds less than 1.2 kB to the client, gzipped', async () => {
  const { size } = await bundled('src/react/index.ts', ['react'])
  expect(size).toBeLessThan(6_200)
})
