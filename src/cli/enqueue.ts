import type { Command } from 'commander'
import type { Readable } from 'node:stream'
import type { Duration } from '../duration.js'
import type { OnDuplicate } from '../idempotency.js'
import type { NamedEnqueueOptions } from '../producer.js'
import { jobtable } from '../queue.js'
import { databaseExists, makeStore, shownName, withMigrate } from './database.js'
import { EXIT, messageOf, usageError } from './failure.js'
import { clean } from './format.js'
import { duration, each, keyPart, ON_DUPLICATE, time, wholeNumber } from './options.js'
import type { On } from './session.js'

interface EnqueueCommandOptions {
  delay?: Duration
  runAfter?: Date
  priority?: number
  queue?: string
  id?: string
  maxAttempts?: number
  key?: string[]
  onDuplicate?: string
}

export function addEnqueue(program: Command, on: On): void {
  program
    .command('enqueue')
    .description('Enqueue a job by the name of its type. The worker that knows the type checks the payload.')
    .argument('<type>', 'the type')
    .argument('[payload]', 'the payload as JSON, or - to read it from stdin', '{}')
    .option('--delay <duration>', 'not before this long from now, such as 30s or 2h', duration)
    .option('--run-after <time>', 'not before this moment, such as 2030-01-31T09:00:00Z', time)
    .option('--priority <number>', 'lower runs first, from -100 to 100', wholeNumber(-100, 100))
    .option('-q, --queue <queue>', 'the queue')
    .option('--id <id>', 'an id of your own; one that exists is refused')
    .option('--max-attempts <count>', 'how often it may run in all', wholeNumber(1, 1_000_000))
    .option('--key <part>', 'idempotency key; repeat it for each part', each)
    .option('--on-duplicate <what>', `what a second enqueue of the key gets: ${ON_DUPLICATE.join(', ')}`)
    .addHelpText(
      'after',
      `
A payload on the command line can be seen in the list of processes: pass secrets on stdin.
A part of a key that is a number or true or false is taken as such; write '"42"' for the text.

Examples:
  jobtable enqueue hello '{"name":"Ada"}'
  jobtable enqueue send_mail - --delay 10m < mail.json
  jobtable enqueue export '{"projectId":"p1"}' --key p1 --on-duplicate return_previous_result
`,
    )
    .action(
      on(async (session, type: string, payload: string, options: EnqueueCommandOptions) => {
        const value = parsePayload(payload === '-' ? await readAll(session.io.stdin) : payload)
        const enqueueOptions = toOptions(options)
        const store = makeStore(session)
        const isNew = !databaseExists(store.name)
        let madeTables = false
        const noting = withMigrate(store, async () => {
          const migrated = await store.migrate()
          madeTables = migrated.from === 0
          return migrated
        })
        const queue = jobtable(session.url, { store: noting })
        try {
          const { job, duplicate } = await queue.enqueue(type, value, enqueueOptions)
          // A mistyped path or schema would otherwise swallow jobs in silence.
          if (isNew) session.note(`made the new database ${shownName(store.name)}`)
          else if (madeTables) session.note(`made the tables, which were not there yet, in ${shownName(store.name)}`)
          if (session.json) session.printJson({ id: job.id, type: job.type, queue: job.queue, status: job.status, duplicate })
          else session.print(duplicate ? `${job.id} (a duplicate: that job is there already, ${job.status})\n` : `${job.id}\n`)
          return EXIT.ok
        } finally {
          await queue.close()
        }
      }),
    )
}

function toOptions({ key, onDuplicate, ...options }: EnqueueCommandOptions): NamedEnqueueOptions {
  if (onDuplicate !== undefined && !(ON_DUPLICATE as readonly string[]).includes(onDuplicate)) {
    throw usageError(`--on-duplicate is ${ON_DUPLICATE.join(', ')}, not ${JSON.stringify(onDuplicate)}`)
  }
  if (key === undefined && onDuplicate === undefined) return options
  if (key === undefined) throw usageError('--on-duplicate needs a --key')
  if (onDuplicate === undefined)
    throw usageError('--key needs --on-duplicate', `what a second enqueue of this key gets: ${ON_DUPLICATE.join(', ')}`)
  return { ...options, idempotency: { key: key.map(keyPart), onDuplicate: onDuplicate as OnDuplicate } }
}

/** Node's own message would print a part of the payload, which may hold a secret. */
function parsePayload(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch (error) {
    const position = /position (\d+)/.exec(messageOf(error))?.[1]
    const where =
      text.trim() === ''
        ? 'it is empty'
        : position === undefined
          ? 'it ends too early or holds a wrong character'
          : `wrong at character ${Number(position) + 1}`
    throw usageError(`the payload is no JSON: ${clean(where)}`, `put it in quotes for the shell: '{"name":"Ada"}'`)
  }
}

async function readAll(stdin: Readable): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of stdin) chunks.push(Buffer.from(chunk as Buffer | string))
  return Buffer.concat(chunks).toString('utf8')
}
