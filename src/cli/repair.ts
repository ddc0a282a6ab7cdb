/** `cancel` and `retry`: what a person does to jobs. */
import type { Command } from 'commander'
import { userInfo } from 'node:os'
import type { JobFilter, JobRow, Store } from '../store.js'
import { confirm } from './confirm.js'
import { withStore } from './database.js'
import { EXIT, usageError } from './failure.js'
import { clean, plural } from './format.js'
import { addFilterOptions, toFilter, type FilterOptions } from './options.js'
import type { On, Session } from './session.js'

const AT_ONCE = 200
/** Of the jobs that were left alone, so many are named. */
const MOST_NAMED = 20

interface Left {
  id: string
  reason: string
}

export function addCancel(program: Command, on: On): void {
  program
    .command('cancel')
    .description('Cancel jobs: at once where they wait, by asking their handlers where they run.')
    .argument('<id...>', 'the jobs')
    .addHelpText(
      'after',
      '\nExit codes: 0 every job is canceled or was asked to stop; 1 one was over already, or does not exist.\n',
    )
    .action(
      on((session, ids: string[]) =>
        withStore(session, async (store) => {
          const rows = await store.cancel(ids, whoAmI())
          const answers = ids.map((id, i) => cancelAnswer(id, rows[i]))
          if (session.json) session.printJson(answers)
          else for (const { message } of answers) session.print(`${message}\n`)
          return answers.every(({ ok }) => ok) ? EXIT.ok : EXIT.failed
        }),
      ),
    )
}

function cancelAnswer(id: string, row: JobRow | undefined): { id: string; status: string | null; ok: boolean; message: string } {
  const status = row?.status ?? null
  if (row === undefined) return { id, status, ok: false, message: `there is no job ${JSON.stringify(id)}` }
  if (row.status === 'canceled') return { id, status, ok: true, message: `${id} is canceled` }
  if (row.status === 'running') return { id, status, ok: true, message: `${id} is running; its handler was asked to stop` }
  return { id, status, ok: false, message: `${id} is ${row.status} already: it is over` }
}

interface RetryOptions extends FilterOptions {
  yes?: boolean
}

export function addRetry(program: Command, on: On): void {
  addFilterOptions(
    program
      .command('retry')
      .description(
        'Make failed or canceled jobs pending again, with all of their attempts: those named, or all that match the filters.',
      )
      .argument('[id...]', 'the jobs'),
    ['failed', 'canceled'],
  )
    .option('-y, --yes', 'do not ask, however many match')
    .addHelpText(
      'after',
      `
Without --status, filters match failed jobs. Filters first count what matches and ask; without a terminal, --yes is needed.

Examples:
  jobtable retry 01890a5d-ac96-774b-bcce-b302099a8057
  jobtable retry --type send_mail --error 429 --older-than 1h
  jobtable retry --status failed --yes --json

Exit codes: 0 done, also when nothing matched; 1 not confirmed, or a job that was named could not be retried.
`,
    )
    .action(
      on((session, ids: string[], options: RetryOptions) => {
        const filter = toFilter(options)
        const filtered = Object.keys(filter).length > 0
        if (ids.length > 0 && filtered) throw usageError('give ids or filters, not both')
        if (ids.length > 0) return withStore(session, (store) => retryNamed(session, store, [...new Set(ids)]))
        if (!filtered)
          throw usageError('which jobs?', 'name them by id, or by filters: everything that failed is --status failed')
        return withStore(session, (store) =>
          retryMatching(session, store, { status: ['failed'], ...filter }, options.yes ?? false),
        )
      }),
    )
}

async function retryNamed(session: Session, store: Store, ids: readonly string[]): Promise<number> {
  const { retried, left, doubtful } = await repair(store, ids)
  report(session, ids.length, retried, left)
  warnOf(session, doubtful)
  return left.length === 0 ? EXIT.ok : EXIT.failed
}

async function retryMatching(session: Session, store: Store, filter: JobFilter, yes: boolean): Promise<number> {
  const matched = await store.count(filter)
  if (matched > 0 && !yes) {
    const answer = await confirm(
      session,
      `${plural(matched, 'job matches', 'jobs match')}. Make ${matched === 1 ? 'it' : 'them'} pending again?`,
    )
    if (answer !== 'yes') {
      if (session.json) session.printJson({ matched, retried: 0, left: [] })
      else if (answer === 'no terminal') session.print(`${plural(matched, 'job matches', 'jobs match')}\n`)
      session.note(answer === 'no' ? 'nothing was changed' : 'nothing was changed: without a terminal to ask on, add --yes')
      return EXIT.failed
    }
  }
  let retried = 0
  const left: Left[] = []
  const doubtful: string[] = []
  // Newest first, page by page. What was retried leaves the filter, and each page starts below the last one.
  for (let before: string | undefined; ;) {
    const rows = await store.list(filter, { limit: AT_ONCE, ...(before !== undefined && { before }) })
    const ids = rows.map(({ id }) => id)
    const page = await repair(store, ids)
    retried += page.retried
    left.push(...page.left)
    doubtful.push(...page.doubtful)
    if (rows.length < AT_ONCE) break
    before = ids.at(-1)
  }
  report(session, matched, retried, left)
  warnOf(session, doubtful)
  return EXIT.ok
}

interface Repaired {
  retried: number
  left: Left[]
  /** Those that were retried with an effect in doubt. */
  doubtful: string[]
}

async function repair(store: Store, ids: readonly string[]): Promise<Repaired> {
  const held = new Set((await store.list({ ids, held: true }, { limit: ids.length })).map(({ id }) => id))
  const answers = await store.repair(ids, whoAmI())
  const left = ids.flatMap((id, i): Left[] => {
    const answer = answers[i]
    if (answer === undefined) return [{ id, reason: 'there is no such job' }]
    if (answer.changed) return []
    const { status, supersededBy } = answer.row
    if (supersededBy !== null) return [{ id, reason: `the newer job ${supersededBy} has taken over its key: look at that one` }]
    return [{ id, reason: `it is ${status}, and only a failed or canceled job can be retried` }]
  })
  const doubtful = ids.filter((id, i) => held.has(id) && answers[i]?.changed)
  return { retried: ids.length - left.length, left, doubtful }
}

function report(session: Session, matched: number, retried: number, left: readonly Left[]): void {
  if (session.json) return session.printJson({ matched, retried, left })
  session.print(matched === 0 ? 'No jobs match.\n' : `${plural(retried, 'job is', 'jobs are')} pending again\n`)
  for (const { id, reason } of left.slice(0, MOST_NAMED)) session.print(`${JSON.stringify(id)} was left as it is: ${reason}\n`)
  if (left.length > MOST_NAMED) session.print(`… and ${left.length - MOST_NAMED} more were left as they are\n`)
}

function warnOf(session: Session, doubtful: readonly string[]): void {
  if (doubtful.length === 0) return
  const named = doubtful.slice(0, MOST_NAMED).map((id) => JSON.stringify(id))
  const more = doubtful.length > MOST_NAMED ? ` and ${doubtful.length - MOST_NAMED} more` : ''
  session.note(
    `an effect is still in doubt of ${clean(named.join(', '))}${more}: a retry says nothing of it, see \`jobtable show\` and \`jobtable resolve\``,
  )
}

/** For the job's timeline. */
export function whoAmI(): string {
  try {
    return `${userInfo().username} (cli)`
  } catch {
    return 'cli' // Containers may run under a number that has no name.
  }
}
