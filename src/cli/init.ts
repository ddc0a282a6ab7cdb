import type { Command } from 'commander'
import { createRequire } from 'node:module'
import { writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { schemaOf } from '../open-store.js'
import { databaseExists, makeStore, shownName } from './database.js'
import { CliError, EXIT, usageError } from './failure.js'
import type { On, Session } from './session.js'

export function addInit(program: Command, on: On): void {
  program
    .command('init')
    .description('Make the database, and say what to do next. An existing one is brought up to date and otherwise left alone.')
    .option('--example [module]', 'also write a module with a first job (default: jobs.mjs); never overwrites a file')
    .addHelpText('after', '\nExamples:\n  jobtable init\n  jobtable init --db data/app.db --example jobs.mjs\n')
    .action(
      on(async (session, { example }: { example?: string | true }) => {
        const module = example === true ? 'jobs.mjs' : example
        if (module !== undefined) writeExample(module)
        const { database, made, to } = await migrate(session)
        if (session.json) {
          session.printJson({ database, made, version: to, example: module ?? null })
          return EXIT.ok
        }
        session.print(
          made ? `Made ${database} (tables at version ${to}).\n` : `${database} is there already (tables at version ${to}).\n`,
        )
        if (module !== undefined) session.print(`Wrote ${module} with a first job.\n`)
        session.print(nextSteps(session, module))
        return EXIT.ok
      }),
    )
}

export function addMigrate(program: Command, on: On): void {
  program
    .command('migrate')
    .description(
      'Bring the tables and indexes up to this version of jobtable, or make them. Safe to run from any number of processes at once.',
    )
    .option('--print', 'print the SQL that makes the tables in an empty database, and connect to none')
    .addHelpText(
      'after',
      '\nExamples:\n  jobtable migrate\n  jobtable migrate --print --db postgres:// --schema jobtable > jobtable.sql\n',
    )
    .action(
      on(async (session, { print = false }: { print?: boolean }) => {
        if (print) {
          const sql = schemaOf(session.url)
          if (session.json) session.printJson({ sql })
          else session.print(sql)
          return EXIT.ok
        }
        const { database, from, to, indexes } = await migrate(session)
        if (session.json) session.printJson({ database, from, to, indexes })
        else {
          const what =
            from === to
              ? `is at version ${to}`
              : from === 0
                ? `now has its tables, at version ${to}`
                : `was brought from version ${from} to ${to}`
          session.print(`${database} ${what}.\n`)
          for (const index of indexes) session.print(`Created again what was missing: ${index}\n`)
        }
        return EXIT.ok
      }),
    )
}

async function migrate(
  session: Session,
): Promise<{ database: string; made: boolean; from: number; to: number; indexes: string[] }> {
  const store = makeStore(session)
  const made = !databaseExists(store.name)
  try {
    const missing = made ? [] : (await store.inspect()).filter(({ code }) => code === 'index_missing')
    const { from, to } = await store.migrate()
    const indexes = missing.map(({ message }) => /index (\w+)/.exec(message)?.[1] ?? message)
    return { database: shownName(store.name), made: made || from === 0, from, to, indexes }
  } finally {
    await store.close()
  }
}

function nextSteps(session: Session, module: string | undefined): string {
  const db = [
    session.db === undefined ? '' : ` --db ${inShell(shownName(session.db))}`,
    session.schema === undefined ? '' : ` --schema ${inShell(session.schema)}`,
  ].join('')
  const work = `  npx jobtable work ${module ?? 'jobs.mjs'}${db}`
  if (module === undefined) {
    return `\nNext: define a job type in a module that exports its queue (\`jobtable init --example\` writes one), and run its jobs:\n${work}\n`
  }
  const install = hasZod() ? '' : '  npm install zod\n'
  return `\nNext:\n${install}${work}\n\nand in another terminal:\n  npx jobtable enqueue hello '{"name":"Ada"}'${db}\n`
}

function inShell(text: string): string {
  return /^[\w./:@%+=,-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}

function hasZod(): boolean {
  try {
    createRequire(resolve('package.json')).resolve('zod')
    return true
  } catch {
    return false
  }
}

function writeExample(module: string): void {
  if (!/\.(?:mjs|mts|js|ts)$/.test(module)) throw usageError(`${module} is no name for a module: end it with .mjs, .js or .ts`)
  try {
    writeFileSync(module, EXAMPLE, { flag: 'wx' })
  } catch (error) {
    const exists = (error as NodeJS.ErrnoException).code === 'EEXIST'
    throw exists
      ? usageError(`${module} exists already, and is left as it is`, 'name another file: --example other.mjs')
      : new CliError(`${module} cannot be written: ${(error as Error).message}`, { cause: error })
  }
}

const EXAMPLE = `import { jobtable } from 'jobtable'
import { z } from 'zod'

// The database that --db or JOBTABLE_URL names; without them, jobtable.db in the present folder.
export const queue = jobtable()

export const hello = queue.define('hello', {
  payload: z.object({ name: z.string() }),
  // Every type says when two of its jobs are the same piece of work, or why none ever are.
  idempotency: { none: 'a greeting may be said twice' },
  run: async (job) => {
    console.log(\`Hello, \${job.payload.name}!\`)
    return { greeted: job.payload.name }
  },
})
`
