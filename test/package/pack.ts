import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'

declare module 'vitest' {
  export interface ProvidedContext {
    /** The folder with the package as a user's install would unpack it. */
    packageFolder: string
  }
}

const root = join(import.meta.dirname, '../..')

/** Builds and packs the package once, and unpacks the tarball outside the project, where nothing but its own files is in reach. */
export default function setup(project: TestProject): () => void {
  const folder = mkdtempSync(join(tmpdir(), 'jobtable-pack-'))
  spawnSync(process.execPath, ['scripts/build.mjs'], { cwd: root, stdio: 'inherit' })
  execFileSync('npm', ['pack', '--ignore-scripts', '--silent', '--pack-destination', folder], {
    cwd: root,
    stdio: ['ignore', 'ignore', 'inherit'],
    shell: process.platform === 'win32',
  })
  const tarball = readdirSync(folder).find((file) => file.endsWith('.tgz'))
  if (!tarball) throw new Error('npm pack made no tarball')
  execFileSync('tar', ['-xzf', tarball], { cwd: folder })
  project.provide('packageFolder', join(folder, 'package'))
  return () => rmSync(folder, { recursive: true, force: true })
}
