/**
 * Which process a worker is, in a word that others on the same machine can check: where its process is gone, they need not wait
 * for its lease to run out.
 *
 * The word names the running kernel and its namespace of process ids, the process id, and when the process began, so that neither a
 * container, nor a reboot, nor an id that has been given out again is taken for it. Whoever cannot tell, because it runs elsewhere or
 * the system does not say, gets no answer, and the lease decides.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync, readlinkSync } from 'node:fs'
import { hostname } from 'node:os'

let own: string | null | undefined

/** Of this process; null where the system does not tell processes apart. */
export function processIdentity(): string | null {
  if (own === undefined) {
    const machine = machineOf(process.platform)
    own = machine === null ? null : `${machine}/${process.pid}/${startOf(process.pid) ?? ''}`
  }
  return own
}

/** What a worker says of the process it is in. */
export function thisProcess(): { host: string; pid: number; process: string | null } {
  return { host: hostname(), pid: process.pid, process: processIdentity() }
}

/** Whether that process has ended for certain. */
export function isGone(identity: string | null): boolean {
  const here = processIdentity()
  if (identity === null || here === null || identity === here) return false
  const [machine, pid, start] = identity.split('/')
  if (machine !== here.split('/', 1)[0]) return false
  const number = Number(pid)
  if (!Number.isInteger(number) || number <= 0) return false
  if (!exists(number)) return true
  const found = startOf(number)
  return found === ENDED || (found !== undefined && start !== '' && found !== start)
}

/** A process that has ended and whose parent has not taken note of it. */
const ENDED = 'ended'

function machineOf(platform: NodeJS.Platform): string | null {
  try {
    if (platform === 'linux') {
      const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
      return `${boot}:${readlinkSync('/proc/self/ns/pid').replaceAll(/\D/g, '')}`
    }
    if (platform === 'darwin') return execFileSync('sysctl', ['-n', 'kern.bootsessionuuid'], { encoding: 'utf8' }).trim() || null
    return null
  } catch {
    return null
  }
}

function exists(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    // Somebody else's process may not be signalled, but it is there.
    return (error as NodeJS.ErrnoException).code !== 'ESRCH'
  }
}

/** When it began, in the kernel's own count; undefined where that cannot be read. */
function startOf(pid: number): string | undefined {
  let stat: string
  try {
    stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  } catch {
    return undefined
  }
  // The name of the program, in brackets, may hold anything.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return fields[0] === 'Z' || fields[0] === 'X' ? ENDED : fields[19]
}
