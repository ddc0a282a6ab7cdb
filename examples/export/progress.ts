/**
 * Shows a job's progress in the terminal: one line that changes in place on a terminal, a line per stage elsewhere.
 */
import type { WriteStream } from 'node:tty'
import type { Job, JobEvent } from 'jobtable'

const WIDTH = 24

export class Progress {
  readonly #out: WriteStream
  #shown = 0
  #last = ''

  constructor(out: WriteStream) {
    this.#out = out
  }

  show(job: Job, events: readonly JobEvent[]): void {
    if (this.#out.isTTY) this.#inPlace(`${bar(job.progress ?? 0)} ${describe(job)}`)
    else this.#lines([...events.filter(({ kind }) => kind === 'stage').map(({ message }) => message), ...trouble(job)])
  }

  end(): void {
    if (this.#out.isTTY) this.#out.write('\n')
  }

  #inPlace(line: string): void {
    if (line === this.#last) return
    this.#last = line
    this.#out.write(`\r\u001B[K${line}`)
  }

  #lines(lines: readonly string[]): void {
    for (const line of lines.slice(this.#shown)) this.#out.write(`${line}\n`)
    this.#shown = Math.max(this.#shown, lines.length)
  }
}

function describe(job: Job): string {
  if (job.status === 'pending') return 'waiting for a worker'
  return trouble(job)[0] ?? job.stage ?? 'starting'
}

function trouble(job: Job): string[] {
  if (job.status === 'failed' || job.status === 'canceled') return [job.status]
  if (job.status !== 'retrying') return []
  return [
    `trying again at ${job.runAfter.toLocaleTimeString()}, attempt ${job.attempts} of ${job.maxAttempts ?? '?'}: ${job.lastError ?? ''}`,
  ]
}

function bar(progress: number): string {
  const done = Math.round(progress * WIDTH)
  return `[${'='.repeat(done)}${' '.repeat(WIDTH - done)}] ${String(Math.round(progress * 100)).padStart(3)}%`
}
