/** Which process writes to a file. SQLite's lock for that is a byte of the file with the index of the log, which Linux lists. */
import { readFileSync, statSync } from 'node:fs'

/** WAL_WRITE_LOCK, in the layout of the index that SQLite documents. */
const WRITE_LOCK = 120

/** Whether it is this very process; undefined where the system does not tell. */
export function writtenHere(path: string): boolean | undefined {
  const index = statSync(`${path}-shm`, { bigint: true, throwIfNoEntry: false })
  if (index === undefined) return undefined
  let locks: string
  try {
    locks = readFileSync('/proc/locks', 'utf8')
  } catch {
    return undefined // Not Linux, or a container that hides it.
  }
  return locks.split('\n').some((line) => {
    // Such as `7: POSIX  ADVISORY  WRITE 4711 fe:00:2672603 120 120`.
    const [, kind, , mode, pid, file, first, last] = line.split(/\s+/)
    const isWriter = kind === 'POSIX' && mode === 'WRITE' && Number(pid) === process.pid
    return isWriter && file!.endsWith(`:${index.ino}`) && Number(first) <= WRITE_LOCK && Number(last) >= WRITE_LOCK
  })
}
