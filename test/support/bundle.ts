/**
 * A program of the tests as one file, which starts four times as fast as from its sources. It lies where it finds the packages that it
 * imports, and beside the file of the thread that keeps a worker's lease.
 */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

const local = (path: string): string => fileURLToPath(new URL(path, import.meta.url))

export interface Bundle {
  /** The file to start. */
  readonly script: string
  remove(): void
}

/** Bundles the program whose source is `entry`. The name tells the bundles of one process apart. */
export async function bundle(name: string, entry: string): Promise<Bundle> {
  const folder = local(`../../node_modules/.cache/jobtable-${name}/${process.pid}`)
  await build({
    entryPoints: { process: entry, 'heart-thread': local('../../src/worker/heart-thread.ts') },
    outdir: folder,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    platform: 'node',
    format: 'esm',
    packages: 'external',
  })
  return { script: join(folder, 'process.mjs'), remove: () => rmSync(folder, { recursive: true, force: true }) }
}
