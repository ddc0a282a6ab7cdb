/** The table of a run: medians, ratios to the peers, and whether what is asked for was met. */
import { cpus } from 'node:os'
import { median } from './lib.mjs'

export function machine() {
  const [{ model }] = cpus()
  return { node: process.version, cores: cpus().length, cpu: model, platform: `${process.platform} ${process.arch}` }
}

/**
 * - `results`: rows of { target, test, rep, figures }
 * - `rows`: what is shown of them: { figure, label, unit, ratio, asked }, the latter a list of what must be met, by the figure or,
 *   with a `peer`, by the ratio to that peer's; `only` names the one comparison that it is asked of; `most`, if there is one, is where a
 *   figure was cut
 * - `comparisons`: { title, ours, peers }, the names of targets
 */
export function report({ suite, facts, results, rows, comparisons, reps }) {
  const { cores, cpu, node, platform, software, settings = {}, notes = [] } = facts
  const lines = [
    `${suite}: ${cores} cores (${cpu}), ${platform}, Node ${node.slice(1)}`,
    software.join(', '),
    `Medians of ${reps} ${reps === 1 ? 'repetition' : 'repetitions'}, in alternation on a shared machine: trust ratios, and those only roughly.`,
    ...notes,
    '',
  ]
  // Where every figure has a bound of its own, nothing is divided.
  const ratios = rows.some(({ ratio }) => ratio !== false)
  const header = [
    '',
    ...comparisons.flatMap(({ ours, peers }) => [ours, ...peers.flatMap((peer) => (ratios ? [peer, 'ratio'] : [peer]))]),
    'asked for',
    ...comparisons.map(({ title }) => title),
  ]
  const body = rows.map((row) => line(row, results, comparisons, ratios)).filter(Boolean)
  const shown = Object.entries(settings).filter(([name]) => results.some(({ target }) => target === name))
  const footer = shown.length > 0 ? ['', ...shown.map(([name, text]) => `${name}: ${text}`)] : []
  return [...lines, ...table([header, ...body]), ...footer].join('\n')
}

/** How many of the things asked for are met, of those that were measured. */
export function judge({ results, rows, comparisons }) {
  const words = rows.flatMap((row) => comparisons.flatMap((comparison) => verdicts(row, comparison, results)))
  return { ok: words.filter((word) => word === 'ok').length, miss: words.filter((word) => word === 'miss').length }
}

/** The median of one target's figure over the repetitions. */
export const typical = (results, target, figure) => median([...byRep(results, target, figure).values()])

function line(row, results, comparisons, ratios) {
  const cells = comparisons.flatMap(({ ours, peers }) => [
    show(typical(results, ours, row.figure), row.unit, row.most),
    ...peers.flatMap((peer) => [
      show(typical(results, peer, row.figure), row.unit, row.most),
      ...(ratios ? [row.ratio === false ? '' : show(ratio(row, { ours, peer }, results), 'times')] : []),
    ]),
  ])
  if (cells.every((cell) => cell === '')) return undefined
  const asked = [...new Set((row.asked ?? []).map(({ text }) => text))].join(', ')
  const answers = comparisons.map((comparison) => verdicts(row, comparison, results).join(', '))
  return [`${row.label}, ${row.unit}`, ...cells, asked, ...answers]
}

function byRep(results, target, figure) {
  const found = results.filter((result) => result.target === target && Number.isFinite(result.figures[figure]))
  return new Map(found.map(({ rep, figures }) => [rep, figures[figure]]))
}

/** The median of the ratios of each repetition, whose two sides ran in the same minutes. */
function ratio({ figure }, { ours, peer }, results) {
  const [mine, theirs] = [byRep(results, ours, figure), byRep(results, peer, figure)]
  return median([...mine].map(([rep, value]) => value / theirs.get(rep)))
}

/** One word for each thing asked for; none for what was not measured. */
function verdicts(row, { title, ours, peers }, results) {
  return (row.asked ?? []).flatMap(({ peer: wanted, met, only }) => {
    if (only && only !== title) return []
    const peer = peers.find((name) => name === wanted || name.startsWith(`${wanted} `))
    const measured = wanted ? ratio(row, { ours, peer }, results) : typical(results, ours, row.figure)
    if (!Number.isFinite(measured)) return []
    return [met(measured) ? 'ok' : 'miss']
  })
}

function show(value, unit, most = Infinity) {
  if (!Number.isFinite(value)) return ''
  if (value >= most) return `> ${most}`
  if (unit === 'jobs/s') return Math.round(value).toLocaleString('en')
  return value.toFixed(value >= 100 ? 0 : value >= 10 ? 1 : 2)
}

function table([header, ...body]) {
  const widths = header.map((_, i) => Math.max(...[header, ...body].map((cells) => cells[i].length)))
  const pad = (cell, i) => (i === 0 ? cell.padEnd(widths[i]) : cell.padStart(widths[i]))
  const write = (cells) => `| ${cells.map(pad).join(' | ')} |`
  const rule = `|${widths.map((width, i) => (i === 0 ? '-'.repeat(width + 2) : `${'-'.repeat(width + 1)}:`)).join('|')}|`
  return [write(header), rule, ...body.map(write)]
}
