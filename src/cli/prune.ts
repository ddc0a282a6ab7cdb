import type { Command } from 'commander'
import type { Duration } from '../duration.js'
import type { FileStore } from '../files.js'
import type { Queue } from '../queue.js'
import { confirm } from './confirm.js'
import { hasFilesBeside, shownName, withQueue } from './database.js'
import { EXIT } from './failure.js'
import { plural } from './format.js'
import { loadQueue } from './load.js'
import { duration } from './options.js'
import type { On, Session } from './session.js'

interface PruneOptions {
  succeeded: Duration
  failed: Duration
  canceled: Duration
  module?: string
  yes?: boolean
}

/** Of the files that were left, so many are named; --json has all. */
const MOST_NAMED = 20

export function addPrune(program: Command, on: On): void {
  program
    .command('prune')
    .description('Delete finished jobs that are past their retention, with their files. Workers do this by themselves.')
    .option('--succeeded <duration>', 'keep succeeded jobs so long after their end', duration, '7d')
    .option('--failed <duration>', 'keep failed jobs so long', duration, '30d')
    .option('--canceled <duration>', 'keep canceled jobs so long', duration, '30d')
    .option('--module <module>', "take the retention and the file store of this module's queue instead")
    .option('-y, --yes', 'do not ask')
    .addHelpText(
      'after',
      `
Without --module, files are looked for in the folder beside the database file, and on PostgreSQL left where they are. A
product that keeps them elsewhere, or that has a retention of its own, should name its module.

Examples:
  jobtable prune --module jobs.mjs --yes
  jobtable prune --succeeded 1d --failed 90d
`,
    )
    .action(
      on(async (session, options: PruneOptions) => {
        const { succeeded, failed, canceled, module, yes = false } = options
        if (module === undefined) {
          const rule = `succeeded ${succeeded} ago, failed ${failed} ago, canceled ${canceled} ago`
          const left: string[] = []
          return withQueue(
            session,
            (name) => ({ retention: { succeeded, failed, canceled }, ...(!hasFilesBeside(name) && { files: leftAlone(left) }) }),
            (queue) => prune(session, queue, rule, yes, left),
          )
        }
        const queue = await loadQueue(session, module)
        try {
          return await prune(session, queue, `longer ago than ${module} keeps them`, yes)
        } finally {
          await queue.close()
        }
      }),
    )
}

/** Stands for a file store that only the product knows. */
function leftAlone(left: string[]): FileStore {
  const unknown = (): Promise<never> => Promise.reject(new Error('only the module of the product knows where its files are'))
  return { write: unknown, read: unknown, exists: unknown, delete: async (key) => void left.push(key) }
}

async function prune(session: Session, queue: Queue, rule: string, yes: boolean, left: readonly string[] = []): Promise<number> {
  const question = `Delete for good the jobs of ${shownName(queue.name)} that have ended: ${rule}?`
  const answer = yes ? 'yes' : await confirm(session, question)
  if (answer !== 'yes') {
    session.note(answer === 'no' ? 'nothing was deleted' : 'nothing was deleted: without a terminal to ask on, add --yes')
    return EXIT.failed
  }
  const pruned = await queue.prune()
  if (session.json) session.printJson(left.length > 0 ? { pruned, filesLeft: left } : { pruned })
  else session.print(`${plural(pruned, 'job was', 'jobs were')} deleted\n`)
  if (left.length > 0)
    session.note(
      `${plural(left.length, 'file')} of them ${left.length === 1 ? 'was' : 'were'} left where only the product finds them; name its module with --module next time: ${left.slice(0, MOST_NAMED).join(', ')}${left.length > MOST_NAMED ? ', ...' : ''}`,
    )
  return EXIT.ok
}
