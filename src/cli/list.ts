import type { Command } from 'commander'
import type { JobRow } from '../store.js'
import { withStore } from './database.js'
import { EXIT } from './failure.js'
import { relative, statusCell, table, type Cell, type Column } from './format.js'
import { addFilterOptions, toFilter, wholeNumber, type FilterOptions } from './options.js'
import type { On } from './session.js'
import { jobJson, safeText } from './view.js'

interface ListOptions extends FilterOptions {
  held?: boolean
  limit: number
  before?: string
}

export function addList(program: Command, on: On): void {
  addFilterOptions(program.command('list').description('List jobs, newest first. All filters given must match.'))
    .option('-n, --limit <count>', 'at most this many', wholeNumber(1, 10_000), 20)
    .option('--held', 'only failed jobs that are held, because nobody knows whether an effect has happened')
    .option('--before <id>', 'go on below this job: the last one of the page before')
    .addHelpText(
      'after',
      `
Examples:
  jobtable list --status failed,retrying --type send_mail
  jobtable list --error 'rate limit' --younger-than 1h --limit 100
  jobtable list --key p1 --key pdf --json
`,
    )
    .action(
      on((session, options: ListOptions) => {
        const filter = { ...toFilter(options), ...(options.held && { held: true }) }
        return withStore(session, async (store) => {
          const { limit, before } = options
          const rows = await store.list(filter, { limit, ...(before !== undefined && { before }) })
          if (session.json) {
            session.printJson(rows.map(jobJson))
          } else if (rows.length === 0) {
            session.print(before === undefined ? 'No jobs match.\n' : 'No more jobs match.\n')
          } else {
            session.print(table(columnsFor(rows), cellsOf(rows, session.io.now()), session.layout))
            if (rows.length === limit) session.note(`there may be more: add --before ${rows.at(-1)!.id}`)
          }
          return EXIT.ok
        })
      }),
    )
}

function columnsFor(rows: readonly JobRow[]): Column[] {
  return [
    { title: 'ID' },
    { title: 'TYPE', flexible: true },
    ...(severalQueues(rows) ? [{ title: 'QUEUE' }] : []),
    { title: 'STATUS' },
    { title: 'ATTEMPTS', align: 'right' as const },
    { title: 'ENQUEUED', align: 'right' as const },
    { title: 'NOTE', flexible: true },
  ]
}

function cellsOf(rows: readonly JobRow[], now: number): Cell[][] {
  return rows.map((row) => [
    row.id,
    row.type,
    ...(severalQueues(rows) ? [row.queue] : []),
    statusCell(row.status),
    `${row.attempts}/${row.maxAttempts ?? '-'}`,
    relative(row.createdAt, now),
    noteOn(row, now),
  ])
}

function severalQueues(rows: readonly JobRow[]): boolean {
  return rows.some(({ queue }) => queue !== 'default')
}

/** The one thing that matters most about a job in this status. */
function noteOn(row: JobRow, now: number): string {
  const error = row.lastError === null ? '' : safeText(row.lastError)
  switch (row.status) {
    case 'pending':
      return row.runAfter > now ? `due ${relative(row.runAfter, now)}` : ''
    case 'retrying':
      return `${row.runAfter > now ? `due ${relative(row.runAfter, now)}` : 'due'}${error && `: ${error}`}`
    case 'running':
      return [
        row.stage ?? '',
        row.progress === null ? '' : percent(row.progress),
        row.cancelRequestedAt === null ? '' : 'cancel requested',
      ]
        .filter((part) => part !== '')
        .join(', ')
    case 'failed':
      return error
    case 'succeeded':
    case 'canceled':
      return row.finishedAt === null ? '' : relative(row.finishedAt, now)
  }
}

export function percent(progress: number): string {
  return `${Math.round(progress * 100)}%`
}
