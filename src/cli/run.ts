/** The program: its commands, and one way from any error to stderr and an exit code. */
import { Command, CommanderError } from 'commander'
import { createRequire } from 'node:module'
import { addDoctor } from './doctor.js'
import { addEnqueue } from './enqueue.js'
import { describeFailure, EXIT, exitCodeOf } from './failure.js'
import { addInit, addMigrate } from './init.js'
import type { Io } from './io.js'
import { addList } from './list.js'
import { addPrune } from './prune.js'
import { addCancel, addRetry } from './repair.js'
import { addResolve } from './resolve.js'
import { isVerbose, openSession, type Globals, type On } from './session.js'
import { addShow, addWhy } from './show.js'
import { addStats } from './stats.js'
import { addWork } from './work.js'

const EXAMPLES = `
Examples:
  jobtable init --example jobs.mjs        make a database and a first job
  jobtable work jobs.mjs                  run its jobs
  jobtable enqueue hello '{"name":"Ada"}'
  jobtable list --status failed --younger-than 1d
  jobtable why 01890a5d-ac96-774b-bcce-b302099a8057

Exit codes: 0 done; 1 failed, not found or not confirmed; 2 wrong usage.
`

/** Runs one command line, without the program's own name. Answers with the exit code; never throws. */
export async function run(argv: readonly string[], io: Io): Promise<number> {
  let exitCode: number = EXIT.ok
  const program = createProgram(io, (code) => (exitCode = code))
  try {
    await program.parseAsync(argv, { from: 'user' })
    return exitCode
  } catch (error) {
    // Commander has printed its own errors already.
    if (!(error instanceof CommanderError))
      io.stderr.write(describeFailure(error, isVerbose(program.opts<Globals>().verbose ?? false, io.env)))
    return exitCodeOf(error)
  }
}

function createProgram(io: Io, ended: (exitCode: number) => void): Command {
  const program = new Command('jobtable')
    .description('Looks after the jobs of a jobtable database, and runs them.')
    .version(version(), '-V, --version', 'print the version')
    .option(
      '--db <url-or-path>',
      'the database, such as app.db, sqlite:app.db or postgres://user@host/database (default: JOBTABLE_URL, else jobtable.db)',
    )
    .option('--schema <name>', 'the schema of the tables in PostgreSQL (default: the ?schema= of the URL, else public)')
    .option('--json', 'print one JSON document in place of text for people')
    .option('--verbose', 'print the stack of an error too (so does the variable DEBUG)')
    .helpOption('-h, --help', 'print this help')
    .helpCommand('help [command]', 'print the help of a command')
    .addHelpText('after', EXAMPLES)
    .configureHelp({ showGlobalOptions: true, helpWidth: io.stdout.columns ?? 100 })
    .configureOutput({
      writeOut: (text) => void io.stdout.write(text),
      writeErr: (text) => void io.stderr.write(text),
      outputError: (text, write) => write(text.replace(/^error: /, 'jobtable: ')),
      getOutHasColors: () => false,
      getErrHasColors: () => false,
    })
    .showHelpAfterError('(jobtable --help lists the commands, jobtable <command> --help its options)')
    .exitOverride()
  const on: On = (command) =>
    async function action(this, ...args) {
      ended(await command(openSession(io, this), ...args))
    }
  for (const add of [
    addInit,
    addMigrate,
    addWork,
    addEnqueue,
    addList,
    addShow,
    addWhy,
    addCancel,
    addRetry,
    addResolve,
    addStats,
    addPrune,
    addDoctor,
  ]) {
    add(program, on)
  }
  return program
}

function version(): string {
  return (createRequire(import.meta.url)('../../package.json') as { version: string }).version
}
