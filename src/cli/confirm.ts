import { createInterface } from 'node:readline/promises'
import { Writable } from 'node:stream'
import type { Session } from './session.js'

/** Asks on the terminal; the question goes to stderr, so that stdout holds the answer of the command alone. */
export async function confirm(session: Session, question: string): Promise<'yes' | 'no' | 'no terminal'> {
  const { stdin, stderr } = session.io
  if (!stdin.isTTY) return 'no terminal'
  const output = new Writable({
    write(chunk: Buffer, _encoding, done) {
      stderr.write(chunk.toString())
      done()
    },
  })
  const reader = createInterface({ input: stdin, output, terminal: false })
  try {
    // The terminal's end of input is a no.
    const ended = new Promise<string>((resolve) => reader.once('close', () => resolve('')))
    const answer = await Promise.race([reader.question(`${question} [y/N] `), ended])
    return /^y(?:es)?$/i.test(answer.trim()) ? 'yes' : 'no'
  } finally {
    reader.close()
  }
}
