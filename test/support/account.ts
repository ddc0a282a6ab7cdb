/** Database servers refuse to run as root: there they get an account that is no one's. */
import { execFileSync } from 'node:child_process'
import { chownSync } from 'node:fs'

export interface Account {
  uid: number
  gid: number
}

/** For the options of `spawn`. Empty when this process is not root's, and its servers can have its own account. */
export const ACCOUNT: Account | Record<string, never> = process.getuid?.() === 0 ? (find('postgres') ?? find('nobody') ?? {}) : {}

export function giveToServers(path: string): void {
  if ('uid' in ACCOUNT) chownSync(path, ACCOUNT.uid, ACCOUNT.gid)
}

function find(name: string): Account | undefined {
  const id = (flag: string): number =>
    Number(execFileSync('id', [flag, name], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }))
  try {
    return { uid: id('-u'), gid: id('-g') }
  } catch {
    return undefined
  }
}
