import type { Command } from 'commander'
import { maskSecrets } from '../mask.js'
import type { CountRow, Finding, Overview, Store } from '../store.js'
import { withStore } from './database.js'
import { EXIT } from './failure.js'
import { groupBy } from './group.js'
import { clean, colored, plural, span, type Layout } from './format.js'
import type { On } from './session.js'

/** Waiting longer than this while due is a trouble that somebody should hear of. */
const LONG_WAIT_MS = 300_000
const DAY_MS = 86_400_000
/** Each costs a walk through the table. */
const MOST_TYPES_COUNTED = 5

export function addDoctor(program: Command, on: On): void {
  program
    .command('doctor')
    .description('Examine the database and the workers, and say what is wrong and what to do. Changes nothing.')
    .addHelpText('after', '\nExit codes: 0 no error was found (there may be warnings); 1 an error was found.\n')
    .action(
      on((session) =>
        withStore(session, async (store) => {
          const findings = await examine(store)
          const errors = findings.filter(({ level }) => level === 'error').length
          const warnings = findings.filter(({ level }) => level === 'warning').length
          const database = maskSecrets(store.name)
          if (session.json) session.printJson({ database, ok: errors === 0, findings })
          else
            session.print(
              `${session.bold(clean(database))}\n${findings.map((finding) => line(finding, session.layout)).join('')}\n${summary(errors, warnings)}\n`,
            )
          return errors === 0 ? EXIT.ok : EXIT.failed
        }),
      ),
    )
}

async function examine(store: Store): Promise<Finding[]> {
  const findings = await store.inspect()
  // Without its tables there is nothing more to look at.
  const unusable = findings.some(({ code }) => ['database_missing', 'schema_missing', 'schema_too_new'].includes(code))
  if (!unusable) {
    const overview = await store.overview()
    findings.push(...unserved(overview), ...lostWorkers(overview), ...waits(overview), ...(await failures(store, overview)))
  }
  return findings.map((finding) => ({ ...finding, message: maskSecrets(finding.message) }))
}

function dueCounts({ counts }: Overview): CountRow[] {
  return counts.filter(({ due, status }) => due > 0 && (status === 'pending' || status === 'retrying'))
}

function unserved(overview: Overview): Finding[] {
  const { now, workers } = overview
  const alive = workers.filter(({ leaseUntil }) => leaseUntil > now)
  const left = dueCounts(overview).filter(
    ({ type, queue }) => !alive.some((worker) => worker.types.includes(type) && worker.queues.includes(queue)),
  )
  if (left.length === 0)
    return [{ level: 'ok', code: 'served', message: 'every due job has a live worker that knows its type and serves its queue' }]
  const groups = groupBy(left, ({ type, queue }) => JSON.stringify([type, queue]))
  return [...groups.values()].map((group): Finding => {
    const { type, queue } = group[0]!
    const due = group.reduce((sum, count) => sum + count.due, 0)
    const waitMs = now - Math.min(...group.map(({ oldestRunAfter }) => oldestRunAfter))
    const advice =
      alive.length === 0
        ? 'no worker is running: start one with `jobtable work <module>`'
        : alive.some((worker) => worker.types.includes(type))
          ? `no live worker that knows the type serves the queue ${queue}: start one with --queue ${queue}`
          : `no live worker knows the type ${type}: start one whose module gives it a handler`
    const message = `${plural(due, 'job')} of type ${type} in queue ${queue} ${due === 1 ? 'is' : 'are'} due, the oldest for ${span(waitMs)}, and ${advice}`
    return { level: waitMs >= LONG_WAIT_MS ? 'error' : 'warning', code: 'unserved', message }
  })
}

function lostWorkers({ now, workers }: Overview): Finding[] {
  const lost = workers.filter(({ leaseUntil }) => leaseUntil <= now)
  if (lost.length === 0) return [{ level: 'ok', code: 'workers', message: plural(workers.length, 'live worker') }]
  return lost.map((worker) => ({
    level: 'warning',
    code: 'worker_lost',
    message:
      `worker ${worker.id} (process ${worker.pid} on ${worker.host}) was last heard of ${span(now - worker.heartbeatAt)} ago and has lost its lease: it was killed or is stalled; ` +
      'a live worker takes its jobs back, so see that one runs, and look at that process',
  }))
}

function waits(overview: Overview): Finding[] {
  const due = dueCounts(overview)
  if (due.length === 0) return [{ level: 'ok', code: 'oldest_due', message: 'no job is due and waiting' }]
  const oldest = due.reduce((a, b) => (b.oldestRunAfter < a.oldestRunAfter ? b : a))
  const waitMs = overview.now - oldest.oldestRunAfter
  const message = `the oldest due job waits for ${span(waitMs)} (type ${oldest.type}, queue ${oldest.queue})`
  if (waitMs < LONG_WAIT_MS) return [{ level: 'ok', code: 'oldest_due', message }]
  return [
    {
      level: 'warning',
      code: 'oldest_due',
      message: `${message}: start more workers or raise --concurrency, and see \`jobtable why\` for one of them`,
    },
  ]
}

async function failures(store: Store, { counts }: Overview): Promise<Finding[]> {
  const failed = groupBy(
    counts.filter(({ status }) => status === 'failed'),
    ({ type }) => type,
  )
  const totals = [...failed].map(([type, group]) => ({ type, count: group.reduce((sum, { count }) => sum + count, 0) }))
  const worst = totals.toSorted((a, b) => b.count - a.count).slice(0, MOST_TYPES_COUNTED)
  const findings: Finding[] = []
  for (const { type, count } of worst) {
    const recent = await store.count({ status: ['failed'], type: [type], youngerThanMs: DAY_MS })
    const held = await store.count({ held: true, type: [type] })
    const name = /^[\w.:/-]+$/.test(type) ? type : JSON.stringify(type)
    if (held > 0) {
      const advice = `see \`jobtable list --held --type ${name}\`, look at the provider of each, and say what happened with \`jobtable resolve\``
      const what = `${plural(held, 'job')} of type ${type} ${held === 1 ? 'is' : 'are'} held, because nobody knows whether an effect has happened`
      findings.push({ level: 'warning', code: 'held', message: `${what}: ${advice}` })
    }
    if (held === count) continue
    const message = `${plural(count, 'job')} of type ${type} ${count === 1 ? 'has' : 'have'} failed, ${recent} of them enqueued within the last day`
    if (recent === 0) findings.push({ level: 'ok', code: 'failed', message })
    else {
      const advice = `see \`jobtable list --status failed --type ${name}\`, mend the cause, and then \`jobtable retry --type ${name}\`${held > 0 ? ', which leaves those that are held in doubt' : ''}`
      findings.push({ level: 'warning', code: 'failed', message: `${message}: ${advice}` })
    }
  }
  return findings.length > 0 ? findings : [{ level: 'ok', code: 'failed', message: 'no job has failed' }]
}

function line({ level, message }: Finding, { color }: Layout): string {
  const [word, format] =
    level === 'ok'
      ? (['ok     ', 'green'] as const)
      : level === 'warning'
        ? (['warning', 'yellow'] as const)
        : (['error  ', 'red'] as const)
  return `  ${colored(word, format, color)}  ${clean(message)}\n`
}

function summary(errors: number, warnings: number): string {
  if (errors === 0 && warnings === 0) return 'All is well.'
  return `${plural(errors, 'error')}, ${plural(warnings, 'warning')}.`
}
