/** The streams of a job, as this program shows them. */
import type { StreamInfo } from '../streams/record.js'
import { maskSecrets } from '../mask.js'
import { clean, table } from './format.js'
import type { Session } from './session.js'
import { safeText } from './view.js'

export function streamJson({ name, attempt, length, done }: StreamInfo): StreamInfo {
  return { name: maskSecrets(name), attempt, length, done }
}

const COLUMNS = [
  { title: 'STREAM', flexible: true },
  { title: 'STATE' },
  { title: 'ATTEMPT', align: 'right' },
  { title: 'LENGTH', align: 'right' },
] as const

/** Empty where there are none. */
export function streamsText(streams: readonly StreamInfo[], { bold, layout }: Session): string {
  if (streams.length === 0) return ''
  const rows = streams.map(({ name, attempt, length, done }) => [
    clean(safeText(name)),
    done ? 'done' : 'open',
    String(attempt),
    String(length),
  ])
  return `\n${bold('streams')}\n${table(COLUMNS, rows, layout)}`
}
