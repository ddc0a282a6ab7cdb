/** The table of a run: medians, ratios to the peer, and whether what is asked for was met. */
import { cpus } from 'node:os'
import { median } from './lib.mjs'

export function machine() {
  const [{ model }] = cpus()
  return { node: process.version, cores: cpus().length, cpu: model, platform: `${process.platform} ${process.arch}` }
}

/** `results` are rows of { target, test, rep, figures }. */
export function report({ suite, facts, results, rows, pairs, reps }) {
  const { cores, cpu, node, platform, driver, sqlite } = facts
  const lines = [
    `${suite}: ${cores} cores (${cpu}), ${platform}, Node ${node.slice(1)}, SQLite ${sqlite}, ${driver}`,
    `Medians of ${reps} ${reps === 1 ? 'repetition' : 'repetitions'}, in alternation on a shared machine: trust ratios, and those only roughly.`,
    '',
  ]
  const header = [
    '',
    ...pairs.flatMap(({ ours, peer }) => [ours, peer, 'ratio']),
    'asked for',
    ...pairs.map(({ title }) => title),
  ]
  const body = rows.map((row) => line(row, results, pairs)).filter(Boolean)
  return [...lines, ...table([header, ...body])].join('\n')
}

/** Whether every target that was measured is met. */
export function judge({ results, rows, pairs }) {
  const verdicts = rows.flatMap((row) => pairs.map((pair) => verdict(row, pair, results)))
  return { ok: verdicts.filter((word) => word === 'ok').length, miss: verdicts.filter((word) => word === 'miss').length }
}

function line(row, results, pairs) {
  const cells = pairs.flatMap(({ ours, peer }) => [
    show(median(figures(results, ours, row.figure).values()), row.unit),
    show(median(figures(results, peer, row.figure).values()), row.unit),
    row.ratio === false ? '' : show(ratio(row, { ours, peer }, results), 'times'),
  ])
  if (cells.every((cell) => cell === '')) return undefined
  const asked = row.target?.value?.text ?? row.target?.ratio?.text ?? ''
  return [`${row.label}, ${row.unit}`, ...cells, asked, ...pairs.map((pair) => verdict(row, pair, results))]
}

function figures(results, target, figure) {
  const found = new Map()
  for (const result of results) {
    if (result.target === target && result.figures[figure] !== undefined) found.set(result.rep, result.figures[figure])
  }
  return {
    get: (rep) => found.get(rep),
    values: () => [...found.values()],
    reps: () => [...found.keys()],
  }
}

/** The median of the ratios of each repetition, whose two sides ran one after the other. */
function ratio({ figure }, { ours, peer }, results) {
  const [mine, theirs] = [figures(results, ours, figure), figures(results, peer, figure)]
  return median(mine.reps().map((rep) => mine.get(rep) / theirs.get(rep)))
}

function verdict(row, pair, results) {
  const { value, ratio: asked, only } = row.target ?? {}
  if ((!value && !asked) || (only && only !== pair.title)) return ''
  const measured = value ? median(figures(results, pair.ours, row.figure).values()) : ratio(row, pair, results)
  if (!Number.isFinite(measured)) return ''
  return (value ?? asked).met(measured) ? 'ok' : 'miss'
}

function show(value, unit) {
  if (!Number.isFinite(value)) return ''
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
