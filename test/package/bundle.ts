import { join } from 'node:path'
import { build, type Format } from 'esbuild'
import type { Consumer } from './consumer.js'

/** Bundles a consumer's program into one file, as a server's deployment would. Native addons stay outside, as they must. */
export async function bundle(consumer: Consumer, entry: string, outfile: string, format: Format): Promise<void> {
  await build({
    absWorkingDir: consumer.folder,
    entryPoints: [entry],
    outfile: join(consumer.folder, outfile),
    bundle: true,
    platform: 'node',
    format,
    external: ['better-sqlite3'],
    logLevel: 'error',
  })
}
