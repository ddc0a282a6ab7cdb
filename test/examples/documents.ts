/** Large and odd documents, made on the spot from a seed. */

/** Deterministic numbers below `limit` (a linear congruential generator). */
function numbers(seed: number): (limit: number) => number {
  let state = seed >>> 0
  return (limit) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * limit)
  }
}

const WORDS = (
  'queue worker claim lease attempt settle retry backoff schedule export report table window signal stream buffer page margin ' +
  '任务 队列 重试 导出 über naïve façade Ω'
).split(' ')

/** At least `lines` lines of headings, prose, lists, tables and code. */
export function manual(lines: number, seed = 7): string {
  const next = numbers(seed)
  const words = (count: number) => Array.from({ length: count }, () => WORDS[next(WORDS.length)]).join(' ')
  const out: string[] = ['# The long manual', '']
  for (let section = 1; out.length < lines; section++) {
    out.push(
      `## Section ${section}`,
      '',
      `${words(40)} **${words(3)}** \`${words(2)}\` [${words(2)}](https://example.com/${section}).`,
      '',
    )
    out.push(`- ${words(9)}`, `- ${words(20)}`, `  1. ${words(6)}`, `  2. ${words(6)}`, '')
    out.push('| name | count | remark |', '|:-----|------:|:------:|')
    for (let row = 0; row < 6; row++) out.push(`| ${words(2)} | ${next(100_000)} | ${words(7)} |`)
    out.push('', '```ts')
    for (let line = 0; line < 8; line++) out.push(`const value${section}_${line} = ${next(1_000_000)} // ${words(8)}`)
    out.push('```', '', `> ${words(25)}`, '')
  }
  out.push('The very last sentence.')
  return out.join('\n')
}

export function nestedLists(levels: number): string {
  const bullets = Array.from({ length: levels }, (_, level) => `${'  '.repeat(level)}- bullet level ${level + 1}`)
  const ordered = Array.from({ length: levels }, (_, level) => `${'   '.repeat(level)}1. number level ${level + 1}`)
  return ['# Nested', '', ...bullets, '', 'Between.', '', ...ordered].join('\n')
}

export function wideTable(columns: number, rows: number): string {
  const row = (cell: (column: number) => string) =>
    `| ${Array.from({ length: columns }, (_, column) => cell(column + 1)).join(' | ')} |`
  const body = Array.from({ length: rows }, (_, index) => row((column) => `r${index + 1}c${column}`))
  return ['# Wide', '', row((column) => `Column ${column}`), row(() => '---'), ...body].join('\n')
}

export function longTable(rows: number): string {
  const body = Array.from({ length: rows }, (_, index) => `| entry ${index + 1} | ${index * 3} | remark |`)
  return ['| Item | Amount | Note |', '|------|-------:|------|', ...body].join('\n')
}
