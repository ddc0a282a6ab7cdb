import type { Command } from 'commander'
import type { CountRow, Overview } from '../store.js'
import { STATUSES } from '../transition.js'
import { withStore } from './database.js'
import { EXIT } from './failure.js'
import { groupBy } from './group.js'
import { iso, plural, relative, table, type Cell, type Layout } from './format.js'
import type { On } from './session.js'

export function addStats(program: Command, on: On): void {
  program
    .command('stats')
    .description('Count the jobs by type, queue and status, and list the workers.')
    .action(
      on((session) =>
        withStore(session, async (store) => {
          const overview = await store.overview()
          if (session.json) session.printJson(toJson(overview))
          else session.print(`${countTable(overview.counts, session.layout)}\n${workerTable(overview, session.layout)}`)
          return EXIT.ok
        }),
      ),
    )
}

function toJson({ now, counts, workers }: Overview): object {
  return {
    counts: counts.map(({ oldestRunAfter, ...count }) => ({ ...count, oldestRunAfter: iso(oldestRunAfter) })),
    workers: workers.map(({ startedAt, heartbeatAt, leaseUntil, ...worker }) => ({
      ...worker,
      startedAt: iso(startedAt),
      heartbeatAt: iso(heartbeatAt),
      leaseUntil: iso(leaseUntil),
      alive: leaseUntil > now,
    })),
  }
}

function countTable(counts: readonly CountRow[], layout: Layout): string {
  if (counts.length === 0) return 'No jobs.\n'
  const groups = groupBy(counts, ({ type, queue }) => JSON.stringify([type, queue]))
  const rows = [...groups.values()]
    .toSorted((a, b) => compare(a[0]!.type, b[0]!.type) || compare(a[0]!.queue, b[0]!.queue))
    .map((group): Cell[] => [
      group[0]!.type,
      group[0]!.queue,
      ...STATUSES.map((status) => String(sum(group.filter((count) => count.status === status).map(({ count }) => count)))),
      String(sum(group.map(({ due }) => due))),
    ])
  const right = { align: 'right' as const }
  return table(
    [
      { title: 'TYPE', flexible: true },
      { title: 'QUEUE' },
      ...STATUSES.map((status) => ({ title: status.toUpperCase(), ...right })),
      { title: 'DUE', ...right },
    ],
    rows,
    layout,
  )
}

function workerTable({ now, workers }: Overview, layout: Layout): string {
  if (workers.length === 0) return 'No workers.\n'
  const rows = workers.map((worker): Cell[] => [
    worker.id,
    `${worker.host}:${worker.pid}`,
    worker.leaseUntil > now ? { text: 'alive', format: 'green' } : { text: 'lost', format: 'red' },
    relative(worker.heartbeatAt, now),
    String(worker.concurrency),
    worker.queues.join(', '),
    worker.types.join(', '),
  ])
  return `${plural(workers.length, 'worker')}\n${table(
    [
      { title: 'ID' },
      { title: 'HOST:PID' },
      { title: 'STATE' },
      { title: 'HEARD OF', align: 'right' },
      { title: 'SLOTS', align: 'right' },
      { title: 'QUEUES', flexible: true },
      { title: 'TYPES', flexible: true },
    ],
    rows,
    layout,
  )}`
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}
