/**
 * Ends what a test started, and removes its folder, however the test's process ends: by itself, by Ctrl-C, by SIGKILL.
 *
 * A shell in a session of its own reads the ids of processes from a pipe. When this process is gone, the system closes the
 * pipe; the shell then ends the process that it was told of last, waits for that, and removes the folder. `release` closes
 * the pipe too, so that the normal end takes the same way.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import type { Writable } from 'node:stream'

const SCRIPT = `
while read -r line; do pid=$line; done
if [ -n "$pid" ] && kill -QUIT "$pid" 2>/dev/null; then
  # Where nobody collects ended processes, they seem to live on: 10 s are enough for the end.
  rounds=500
  while [ "$rounds" -gt 0 ] && kill -0 "$pid" 2>/dev/null; do sleep 0.02; rounds=$((rounds - 1)); done
fi
rm -rf "$1"
`

export class Keeper {
  readonly #shell: ChildProcess
  readonly #pipe: Writable
  #released: Promise<unknown> | undefined

  constructor(folder: string) {
    this.#shell = spawn('sh', ['-c', SCRIPT, 'keeper', folder], { detached: true, stdio: ['pipe', 'ignore', 'ignore'] })
    this.#shell.unref()
    this.#pipe = this.#shell.stdin!
    // Of a shell that somebody ended.
    this.#pipe.on('error', () => {})
  }

  /** The process to end; undefined when there is none any more. */
  watch(pid: number | undefined): void {
    if (!this.#released) this.#pipe.write(`${pid ?? ''}\n`)
  }

  /** Ends the process and removes the folder now. */
  async release(): Promise<void> {
    this.#released ??= once(this.#shell, 'exit')
    this.#shell.ref()
    this.#pipe.end()
    await this.#released
  }
}
