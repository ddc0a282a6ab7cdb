/** The steps of a job, as this program shows them. */
import { BY_PERSON, type StepRow } from '../effects/record.js'
import { inDoubt } from '../effects/resolve.js'
import { maskSecrets } from '../mask.js'
import { clean, iso, moment, table } from './format.js'
import type { Session } from './session.js'
import { safeJson, safeText } from './view.js'

export interface StepJson {
  name: string
  kind: string
  state: string
  attempt: number
  key: string | null
  request: unknown
  value: unknown
  startedAt: string | null
  endedAt: string | null
}

export function stepJson(step: StepRow, full: boolean): StepJson {
  const { name, kind, state, attempt, key, request, value, startedAt, endedAt } = step
  return {
    name: maskSecrets(name),
    kind,
    state,
    attempt,
    key,
    request: request === null ? null : safeJson(request, full).value,
    value: value === null ? null : safeJson(value, full).value,
    startedAt: iso(startedAt),
    endedAt: iso(endedAt),
  }
}

const COLUMNS = [
  { title: 'STEP' },
  { title: 'KIND' },
  { title: 'STATE' },
  { title: 'ATTEMPT', align: 'right' },
  { title: 'BEGAN' },
  { title: 'KEY' },
  { title: 'VALUE', flexible: true },
] as const

/** Empty where there are none. */
export function stepsText(steps: readonly StepRow[], full: boolean, { bold, layout }: Session): string {
  if (steps.length === 0) return ''
  const rows = steps.map(({ name, kind, state, attempt, key, value, startedAt }) => [
    clean(safeText(name)),
    kind,
    state === 'started' ? { text: state, format: 'yellow' as const } : state,
    attempt === BY_PERSON ? 'person' : String(attempt),
    moment(startedAt),
    key ?? '',
    value === null ? '' : clean(JSON.stringify(safeJson(value, full).value)),
  ])
  const doubts = steps
    .filter(inDoubt)
    .map(({ name, request }) => `${clean(safeText(name))} may have happened, with the request ${requestText(request, full)}\n`)
  return `\n${bold('steps')}\n${table(COLUMNS, rows, layout)}${doubts.join('')}`
}

function requestText(request: string | null, full: boolean): string {
  return request === null ? 'null' : clean(JSON.stringify(safeJson(request, full).value))
}
