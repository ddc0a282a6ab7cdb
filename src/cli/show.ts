import type { Command } from 'commander'
import { fileOf } from '../files.js'
import { maskSecrets } from '../mask.js'
import type { JobRow, Store } from '../store.js'
import { explain } from '../why.js'
import { withStore } from './database.js'
import { CliError, EXIT } from './failure.js'
import { clean, cleanLines, colored, moment, relative, statusCell } from './format.js'
import { percent } from './list.js'
import type { On, Session } from './session.js'
import { stepJson, stepsText } from './steps.js'
import { streamJson, streamsText } from './streams.js'
import { timelineOf, type TimelineEntry } from './timeline.js'
import { jobJson, safeJson, safeText } from './view.js'

/** Lines of a payload or result that are printed without `--full`. */
const MOST_LINES = 60

interface ShowOptions {
  full?: boolean
}

export function addShow(program: Command, on: On): void {
  program
    .command('show')
    .description('Show a job: its row, its attempts, its timeline, its steps and its streams. Secrets in its payload are masked.')
    .argument('<id>', 'the job')
    .option('--full', 'do not shorten a long payload or result, and print the stacks of errors')
    .action(
      on((session, id: string, { full = false }: ShowOptions) =>
        withStore(session, async (store) => {
          const row = await jobById(store, id)
          const timeline = timelineOf(row, await store.events(id))
          const steps = await store.steps(id)
          const streams = await store.streams(id)
          if (session.json) {
            session.printJson({
              ...toJson(row, timeline, full),
              steps: steps.map((step) => stepJson(step, full)),
              streams: streams.map(streamJson),
            })
          } else {
            const text = toText(row, timeline, full, session)
            session.print(`${text}${stepsText(steps, full, session)}${streamsText(streams, session)}`)
          }
          return EXIT.ok
        }),
      ),
    )
}

export function addWhy(program: Command, on: On): void {
  program
    .command('why')
    .description('Say in one sentence why a job is not running at this moment.')
    .argument('<id>', 'the job')
    .action(
      on((session, id: string) =>
        withStore(session, async (store) => {
          const row = await jobById(store, id)
          const why = safeText(explain(row, await store.workers()))
          if (session.json) session.printJson({ id, status: row.status, why })
          else session.print(`${clean(why)}\n`)
          return EXIT.ok
        }),
      ),
    )
}

async function jobById(store: Store, id: string): Promise<JobRow> {
  const [row] = await store.get([id])
  if (row) return row
  throw new CliError(`there is no job ${JSON.stringify(id)} in ${maskSecrets(store.name)}`, {
    hint: 'it may have been pruned, or be in another database: see --db',
  })
}

function toJson(row: JobRow, timeline: readonly TimelineEntry[], full: boolean): object {
  const payload = safeJson(row.payload, full)
  const result = row.result === null ? { value: null, shortened: false } : safeJson(row.result, full)
  return {
    ...jobJson(row),
    payload: payload.value,
    result: result.value,
    shortened: payload.shortened || result.shortened,
    timeline,
  }
}

function toText(row: JobRow, timeline: readonly TimelineEntry[], full: boolean, session: Session): string {
  const { color } = session.layout
  const now = session.io.now()
  const status = statusCell(row.status)
  const when = (at: number | null): string | null => (at === null ? null : `${moment(at)} (${relative(at, now)})`)
  const waiting = row.status === 'pending' || row.status === 'retrying'
  const facts: [string, string | null][] = [
    ['id', clean(row.id)],
    ['type', clean(row.type)],
    ['status', typeof status === 'string' ? status : colored(status.text, status.format, color)],
    ['queue', `${clean(row.queue)}, priority ${row.priority}`],
    [
      'attempts',
      `${row.attempts}${row.maxAttempts === null ? '' : ` of ${row.maxAttempts}`}${row.waits > 0 ? `, and ${row.waits} waits` : ''}`,
    ],
    ['stage', row.stage === null ? null : clean(row.stage)],
    ['progress', row.progress === null ? null : percent(row.progress)],
    ['enqueued', when(row.createdAt)],
    ['due', waiting ? when(row.runAfter) : null],
    ['claimed', row.lockedAt === null ? null : `${when(row.lockedAt)} by ${clean(row.lockedBy ?? '(nobody)')}`],
    ['cancel', row.cancelRequestedAt === null ? null : `asked for ${when(row.cancelRequestedAt)}`],
    ['finished', when(row.finishedAt)],
    ['key', row.idempotencyKey === null ? null : clean(maskSecrets(row.idempotencyKey))],
    ['superseded', row.supersededBy === null ? null : `by ${clean(row.supersededBy)}, which has the key now`],
    ['last error', row.lastError === null ? null : clean(safeText(row.lastError))],
    ['user reads', row.userMessage === null ? null : clean(safeText(row.userMessage))],
    ['payload', jsonText(row.payload, full)],
    ['result', row.result === null ? null : (fileText(row.result) ?? jsonText(row.result, full))],
  ]
  const lines = facts.flatMap(([name, value]) =>
    value === null ? [] : [`${name.padEnd(12)}${value.replaceAll('\n', `\n${' '.repeat(12)}`)}`],
  )
  return `${lines.join('\n')}\n\n${session.bold('timeline')}\n${timeline.map((entry) => entryText(entry, full)).join('')}`
}

function jsonText(text: string, full: boolean): string {
  const { value, shortened } = safeJson(text, full)
  const lines = cleanLines(JSON.stringify(value, null, 2)).split('\n')
  const short = lines.join(' ').replaceAll(/\s+/g, ' ')
  if (lines.length <= 12 && short.length <= 100) return short
  if (full || (lines.length <= MOST_LINES && !shortened)) return lines.join('\n')
  const rest = lines.length - MOST_LINES
  return [
    ...lines.slice(0, MOST_LINES),
    rest > 0 ? `… ${rest} more lines; --full prints all` : '(shortened; --full prints all)',
  ].join('\n')
}

function fileText(text: string): string | null {
  try {
    const file = fileOf(JSON.parse(text))
    return file && clean(`file ${file.name}, ${file.size} bytes, ${file.contentType}, stored as ${file.key}`)
  } catch {
    return null
  }
}

function entryText({ at, kind, attempt, message, details }: TimelineEntry, full: boolean): string {
  const facts = typeof details === 'object' && details !== null ? (details as Record<string, unknown>) : {}
  const code =
    kind === 'error'
      ? `${String(facts['code'])} (${String(facts['kind'])}): `
      : kind === 'log'
        ? `${String(facts['level'])}: `
        : ''
  const data = kind === 'log' && facts['facts'] !== undefined ? ` ${JSON.stringify(facts['facts'])}` : ''
  const line = `  ${moment(at === null ? null : Date.parse(at)).padEnd(24)}  ${attempt === null ? '   ' : `#${attempt}`.padEnd(3)}  ${clean(kind).padEnd(10)}  ${clean(`${code}${message}${data}`)}\n`
  const stack = facts['stack']
  return full && typeof stack === 'string' ? `${line}${cleanLines(stack).replaceAll(/^/gm, '      ')}\n` : line
}
