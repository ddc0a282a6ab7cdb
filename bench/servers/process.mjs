/** What the servers that a run starts have in common: a free port, a folder on the disk, and what they cost. */
import { mkdirSync, readFileSync, readdirSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { TMP } from '../lib.mjs'

/** Of the kernel's clock in /proc: 100 on every Linux that Node runs on. */
const TICKS_PER_SECOND = 100

export function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address()
      server.close(() => resolve(port))
    })
  })
}

/**
 * An empty folder for a server's files, gone when this process ends, on a real disk: where temporary files lie is often memory. root starts PostgreSQL as
 * another user, who may not look into this one's folders.
 */
export function dataFolder(name) {
  const folder = process.getuid?.() === 0 ? join('/var/tmp', `jobtable-bench-${process.pid}-${name}`) : join(TMP, name)
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** Seconds of CPU that a process and its children have used, those that have ended included. NaN where /proc does not tell. */
export function cpuSeconds(pid) {
  if (process.platform !== 'linux') return NaN
  let ticks = 0
  for (const entry of readdirSync('/proc')) {
    if (!/^\d+$/.test(entry)) continue
    const stat = statOf(entry)
    if (stat && (Number(entry) === pid || stat.parent === pid)) ticks += stat.ticks
  }
  return ticks / TICKS_PER_SECOND
}

function statOf(pid) {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // The name, in brackets, may hold anything.
    const fields = text
      .slice(text.lastIndexOf(')') + 2)
      .split(' ')
      .map(Number)
    return { parent: fields[1], ticks: fields[11] + fields[12] + fields[13] + fields[14] }
  } catch {
    return undefined
  }
}
