/**
 * A consumer is a project in a temporary folder with the packed jobtable installed. It is installed by copying the unpacked
 * tarball and linking exactly the dependencies that its package.json declares, plus those the consumer asks for: no registry
 * is needed, and an import of anything undeclared fails as it would for a user.
 */
import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { inject, onTestFinished } from 'vitest'

const root = join(import.meta.dirname, '../..')
const fixtures = join(import.meta.dirname, 'fixtures')

/** Whether this Node has `node:sqlite`, or needs better-sqlite3. */
export const hasNodeSqlite = Number(process.versions.node.split('.')[0]) >= 22

export type PackageType = 'module' | 'commonjs'

interface ConsumerOptions {
  type: PackageType
  /** Copied from `fixtures/`: the name here, and what it is called in the consumer. */
  files: Record<string, string>
  /** More packages to install, beside zod and the driver that this Node needs. */
  packages?: readonly string[]
  driver?: boolean
}

export interface Consumer {
  folder: string
  write(file: string, text: string): void
  /** Runs a program of Node in the consumer's folder and returns what it printed. A non-zero exit code throws its output. */
  node(...args: string[]): string
  /** As `node`, but a failure is what is expected: returns its output. */
  nodeFails(...args: string[]): string
}

export function createConsumer({ type, files, packages = [], driver = !hasNodeSqlite }: ConsumerOptions): Consumer {
  const folder = mkdtempSync(join(tmpdir(), 'jobtable-consumer-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const write = (file: string, text: string) => {
    mkdirSync(dirname(join(folder, file)), { recursive: true })
    writeFileSync(join(folder, file), text)
  }

  write('package.json', JSON.stringify({ name: 'consumer', private: true, type }))
  for (const [from, to] of Object.entries(files)) write(to, readFileSync(join(fixtures, from), 'utf8'))

  const installed = join(folder, 'node_modules/jobtable')
  cpSync(inject('packageFolder'), installed, { recursive: true })
  const manifest = JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8')) as { dependencies?: object }
  const names = new Set([...Object.keys(manifest.dependencies ?? {}), 'zod', ...(driver ? ['better-sqlite3'] : []), ...packages])
  for (const name of names) {
    const link = join(folder, 'node_modules', name)
    mkdirSync(dirname(link), { recursive: true })
    symlinkSync(join(root, 'node_modules', name), link, 'junction')
  }

  const run = (args: readonly string[]) => {
    const { status, stdout, stderr, error } = spawnSync(process.execPath, args, {
      cwd: folder,
      encoding: 'utf8',
      timeout: 60_000,
    })
    if (error) throw error
    return { status, output: `${stdout}${stderr}`, stdout }
  }
  return {
    folder,
    write,
    node(...args) {
      const { status, output, stdout } = run(args)
      if (status !== 0) throw new Error(`node ${args.join(' ')} ended with ${status}:\n${output}`)
      return stdout
    },
    nodeFails(...args) {
      const { status, output } = run(args)
      if (status === 0) throw new Error(`node ${args.join(' ')} should have failed, but printed:\n${output}`)
      return output
    },
  }
}

/** The path of a package's file among the project's own tools. */
export function tool(path: string): string {
  return join(root, 'node_modules', path)
}
