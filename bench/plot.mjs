/**
 * The throughput of a run as an SVG: for each row of jobs per second, one bar for each target. Rows have scales of their own, since
 * only the bars of one row are to be compared. The picture brings its own background, light or dark as the reader's system is.
 */
import { View, parse } from 'vega'
import { compile } from 'vega-lite'
import { typical } from './report.mjs'

const LIGHT = { background: '#ffffff', text: '#1f2328', ours: '#0969da', peer: '#8c959f' }
const DARK = { background: '#0d1117', text: '#e6edf3', ours: '#4493f8', peer: '#656c76' }
const FONT = 'system-ui, -apple-system, "Segoe UI", sans-serif'
const BAR_HEIGHT = 18
const WIDTH = 480
const LINE_LENGTH = 80

export async function plot({ facts, results, rows, comparisons }) {
  const ours = new Set(comparisons.map((comparison) => comparison.ours))
  const targets = comparisons.flatMap((comparison) => [comparison.ours, ...comparison.peers])
  const shown = rows.filter(({ unit, plot: wanted }) => unit === 'jobs/s' && wanted !== false)
  const panels = shown.map(({ figure, label }) => ({
    label,
    bars: targets
      .map((target) => ({ target, perSecond: typical(results, target, figure), ours: ours.has(target) }))
      .filter(({ perSecond }) => Number.isFinite(perSecond)),
  }))
  const view = new View(
    parse(
      compile(
        specification(
          panels.filter(({ bars }) => bars.length > 0),
          facts,
        ),
      ).spec,
    ),
    { renderer: 'none' },
  )
  const svg = await view.toSVG()
  view.finalize()
  return withDarkColours(svg)
}

function specification(panels, { software, cores, node }) {
  return {
    background: LIGHT.background,
    padding: 16,
    title: {
      text: 'Jobs per second',
      subtitle: wrapped([...software, `Node ${node.slice(1)}`, `${cores} cores`]),
      anchor: 'start',
      offset: 16,
    },
    vconcat: panels.map(panel),
    resolve: { scale: { x: 'independent' } },
    config: {
      font: FONT,
      view: { stroke: null },
      title: { color: LIGHT.text, subtitleColor: LIGHT.text, fontSize: 16, subtitleFontSize: 11 },
      axis: { labelColor: LIGHT.text, labelFontSize: 12 },
      concat: { spacing: 14 },
    },
  }
}

function panel({ label, bars }) {
  const most = Math.max(...bars.map(({ perSecond }) => perSecond))
  const y = {
    field: 'target',
    type: 'nominal',
    sort: null,
    axis: { title: null, domain: false, ticks: false, minExtent: 130, maxExtent: 130 },
  }
  // Room for the figure beside the longest bar.
  const x = { field: 'perSecond', type: 'quantitative', axis: null, scale: { domain: [0, most * 1.2] } }
  return {
    title: { text: label, anchor: 'start', fontSize: 13, color: LIGHT.text, offset: 4 },
    width: WIDTH,
    height: bars.length * BAR_HEIGHT,
    data: { values: bars },
    encoding: { x, y },
    layer: [
      {
        mark: { type: 'bar', height: BAR_HEIGHT - 5 },
        encoding: { color: { field: 'ours', scale: { domain: [true, false], range: [LIGHT.ours, LIGHT.peer] }, legend: null } },
      },
      {
        mark: { type: 'text', align: 'left', dx: 5, fontSize: 11, color: LIGHT.text },
        encoding: { text: { field: 'perSecond', format: ',.0f' } },
      },
    ],
  }
}

/** Facts in lines that are no wider than the bars. */
function wrapped(facts) {
  const lines = []
  for (const fact of facts) {
    const longer = lines.length > 0 ? `${lines.at(-1)}, ${fact}` : fact
    if (lines.length > 0 && longer.length <= LINE_LENGTH) lines[lines.length - 1] = longer
    else lines.push(fact)
  }
  return lines
}

/** A viewer that knows no media queries shows the light one. */
function withDarkColours(svg) {
  const rules = Object.keys(LIGHT).map((name) => `[fill="${LIGHT[name]}"]{fill:${DARK[name]}}`)
  const style = `<style>@media (prefers-color-scheme:dark){${rules.join('')}}</style>`
  return `${svg.replace(/(<svg[^>]*>)/, `$1${style}`)}\n`
}
