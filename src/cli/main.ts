#!/usr/bin/env node
/** The `jobtable` program. Only wiring; everything else is in `run.ts` and the commands. */
import type { Io } from './io.js'
import { run } from './run.js'

const io: Io = {
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  env: process.env,
  signals: process,
  now: Date.now,
}

// A reader that has seen enough (`jobtable list | head`) is no error.
process.stdout.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 0 : 1))
// Until the command has ended. It stays where a module never finishes loading and leaves Node nothing to wait for.
process.exitCode = 1

void run(process.argv.slice(2), io).then((exitCode) => {
  process.exitCode = exitCode
  // A module that was loaded may have left timers and servers behind, which must not keep the program alive.
  process.stdout.write('', () => process.stderr.write('', () => process.exit()))
})
