import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { describe, expect, it, onTestFinished } from 'vitest'
import { isGone, processIdentity } from '../../src/worker/process-identity.js'
import { until } from '../faults/support/place.js'

/** The identity of another process, as it gives it itself. */
function identityOf(pid: number, start: string): string {
  const [machine] = processIdentity()!.split('/')
  return `${machine}/${pid}/${start}`
}

function started(command: string, ...args: string[]): ChildProcess {
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'ignore'] })
  onTestFinished(() => void child.kill('SIGKILL'))
  return child
}

describe.skipIf(processIdentity() === null)('a process that others can check', () => {
  it('is not gone while it runs, be it this one or another', async () => {
    const child = started('sleep', '60')
    await once(child, 'spawn')
    expect(isGone(processIdentity())).toBe(false)
    expect(isGone(identityOf(child.pid!, ''))).toBe(false)
  })

  it('is gone when it has ended', async () => {
    const child = started('sleep', '60')
    await once(child, 'spawn')
    child.kill('SIGKILL')
    await once(child, 'exit')
    expect(isGone(identityOf(child.pid!, ''))).toBe(true)
  })

  it('is gone when another process has its id', () => {
    const [, , start] = processIdentity()!.split('/')
    expect(isGone(identityOf(process.pid, start!))).toBe(false)
    if (start !== '') expect(isGone(identityOf(process.pid, `${start}0`))).toBe(true)
  })

  it.skipIf(process.platform !== 'linux')('is gone when it has ended and its parent has taken no note of it', async () => {
    // The shell becomes a sleep, which never asks for its child.
    const parent = started('sh', '-c', 'sleep 0.2 & echo $!; exec sleep 60')
    const [line] = (await once(parent.stdout!, 'data')) as [Buffer]
    const pid = Number(line.toString())
    await until('it has ended', () => isGone(identityOf(pid, '')))
    expect(() => process.kill(pid, 0)).not.toThrow()
  })

  it('is not gone as far as another machine can tell', async () => {
    const [, pid, start] = processIdentity()!.split('/')
    expect(isGone(`elsewhere/${pid}/${start}0`)).toBe(false)
    expect(isGone(null)).toBe(false)
  })

  it.each(['', '/', `${processIdentity()?.split('/')[0]}/0/1`, `${processIdentity()?.split('/')[0]}/x/1`])(
    'is not gone by a word that names none: %j',
    (word) => expect(isGone(word)).toBe(false),
  )
})
