import { readFile } from 'node:fs/promises'
import { buffer } from 'node:stream/consumers'
import { describe, expect, it } from 'vitest'
import { renderMarkdown, RenderError, type RenderOptions } from '../../examples/export/render/index.js'
import { longTable, manual, nestedLists, wideTable } from './documents.js'
import { readPdf, squash, type ReadPdf } from './pdf.js'

/** Right edge of the text area of an A4 page. */
const RIGHT_EDGE = 595.28 - 58

async function exported(markdown: string, options?: RenderOptions): Promise<ReadPdf> {
  return readPdf(await buffer(await renderMarkdown(markdown, options)))
}

function fixture(name: string): Promise<string> {
  return readFile(new URL(`fixtures/${name}.md`, import.meta.url), 'utf8')
}

interface Case {
  name: string
  markdown: () => string | Promise<string>
  words: string[]
  absent?: string[]
  pages: [least: number, most: number]
}

const CASES: Case[] = [
  {
    name: 'a report with every kind of block',
    markdown: () => fixture('report'),
    words: [
      'Quarterly engineering report',
      '41,300,000',
      'Finance platform',
      "import { createServer } from 'node:http'",
      'graph TD',
      'Three incidents',
      'A quotation inside a quotation.',
      '[image: Architecture of the gateway]',
      'https://example.com/images/architecture.png',
      'Estimates moved',
    ],
    absent: ['not for readers', '**', '~~', '[x]'],
    pages: [3, 4],
  },
  {
    name: 'a Chinese document',
    markdown: () => fixture('chinese'),
    words: [
      '项目周报：导出服务',
      '导出任务在后台队列中运行',
      '增长主要来自新接入的团队',
      '“Markdown 转 PDF”',
      'def 平均耗时(记录):',
      '同一段落——换行处',
      '句読点',
    ],
    pages: [1, 2],
  },
  {
    name: 'emoji and rare symbols',
    markdown: () => fixture('emoji'),
    words: ['🎉', 'Launch', '👍', '👩🏽‍💻', '∑', '𝒜', '⌘', '\uFFFD'],
    pages: [1, 1],
  },
  {
    name: 'raw HTML',
    markdown: () => fixture('html'),
    words: [
      'Raw HTML page',
      '© 2024',
      'Folded summary',
      'Folded body text.',
      'Basic',
      '10 €',
      'second item',
      'kept spaces',
      'harmless text',
      'styled span',
      'text after a broken tag',
    ],
    absent: ['<strong>', 'a comment', 'never shown', 'hidden-style', 'javascript:'],
    pages: [1, 1],
  },
  {
    name: 'broken Markdown',
    markdown: () => fixture('broken'),
    words: [
      'bold that never closes',
      'half a step back',
      'stays text',
      'only one',
      '[reference][missing]',
      '[^missing note]',
      "const fence = 'never closed'",
      '# not a heading',
    ],
    pages: [1, 2],
  },
  {
    name: 'Hebrew and Arabic',
    markdown: () => fixture('rtl'),
    words: ['English words', '12,345', '2024', 'Latin first, then'],
    absent: ['\uFFFD'],
    pages: [1, 1],
  },
  {
    name: 'lists twenty levels deep',
    markdown: () => nestedLists(20),
    words: ['bullet level 20', 'Between.', 'number level 20'],
    pages: [1, 2],
  },
  {
    name: 'lists one hundred levels deep',
    markdown: () => nestedLists(100),
    words: ['bullet level 1', 'bullet level 100'],
    pages: [2, 60],
  },
  {
    name: 'a table of 30 columns',
    markdown: () => wideTable(30, 12),
    words: ['Column 1', 'Column 30', 'r1c1', 'r12c30', 'r7c15', 'Columns 1–'],
    pages: [1, 3],
  },
  {
    name: 'a line of 200,000 characters without a space',
    markdown: () => `start${'x'.repeat(199_990)}stop!`,
    words: ['startxxx', 'xxxstop!'],
    pages: [40, 80],
  },
  {
    name: 'a code line of 20,000 characters',
    markdown: () => `\`\`\`\nfirst${'0123456789'.repeat(2_000)}last\n\`\`\``,
    words: ['first0123', '789last'],
    pages: [3, 8],
  },
  {
    name: 'a table cell taller than a page',
    markdown: () => `| a | b |\n|---|---|\n| left | begin ${'many words in one cell '.repeat(700)} finish |\n| after | row |`,
    words: ['begin many', 'cell finish', 'after'],
    pages: [2, 6],
  },
  {
    name: 'CRLF line ends and a byte order mark',
    markdown: () =>
      '\uFEFF# Windows title\r\n\r\nfirst line\r\nsecond line\r\n\r\n| a | b |\r\n|---|---|\r\n| 1 | two |\r\n\r\n```\r\ncode\r\n```\r\n',
    words: ['Windows title', 'first line second line', 'two', 'code'],
    absent: ['\uFFFD', '|'],
    pages: [1, 1],
  },
  {
    name: 'NUL characters and lone surrogates',
    markdown: () => 'nul\0here lone\ud800high and \udc00low \u0007bell',
    words: ['nul\uFFFDhere', 'lone\uFFFDhigh', '\uFFFDlow', 'bell'],
    absent: ['\0', '\u0007'],
    pages: [1, 1],
  },
  {
    name: 'ten thousand unmatched marks',
    markdown: () => '**a_['.repeat(10_000),
    words: ['**a_[**a_['],
    pages: [8, 20],
  },
]

describe('every document becomes a PDF that opens and holds its text', () => {
  it.each(CASES)('$name', async ({ markdown, words, absent = [], pages }) => {
    const pdf = await exported(await markdown())
    for (const word of words) expect(pdf.squashed).toContain(squash(word))
    for (const word of absent) expect(pdf.squashed).not.toContain(squash(word))
    expect(pdf.pages).toBeGreaterThanOrEqual(pages[0])
    expect(pdf.pages).toBeLessThanOrEqual(pages[1])
    expect(pdf.rightmost).toBeLessThan(RIGHT_EDGE + 2)
  })
})

describe('a 5,000-line document', () => {
  it('exports whole, leaves the event loop its turns, and reports progress that only rises', { timeout: 60_000 }, async () => {
    const markdown = manual(5_000)
    const seen: number[] = []
    let turns = 0
    let ticking = setImmediate(function tick() {
      turns++
      ticking = setImmediate(tick)
    })
    const bytes = await buffer(await renderMarkdown(markdown, { onProgress: (fraction) => seen.push(fraction) }))
    clearImmediate(ticking)

    expect(turns).toBeGreaterThan(20)
    expect(seen[0]).toBe(0)
    expect(seen.at(-1)).toBe(1)
    expect(seen).toEqual([...seen].sort((a, b) => a - b))
    expect(seen.filter((fraction) => fraction > 0.2 && fraction < 0.9).length).toBeGreaterThan(10)

    const pdf = await readPdf(bytes)
    expect(pdf.pages).toBeGreaterThan(80)
    expect(pdf.pages).toBeLessThan(220)
    expect(pdf.squashed).toContain(squash('const value100_7 ='))
    expect(pdf.squashed).toContain(squash('The very last sentence.'))
    expect(pdf.bookmarks.length).toBeGreaterThan(150)
    expect(pdf.rightmost).toBeLessThan(RIGHT_EDGE + 2)
  })
})

describe('a document with nothing to export fails with advice', () => {
  it.each([
    ['empty', ''],
    ['white space only', ' \n\t\r\n\u00a0\u3000\n'],
    ['a byte order mark only', '\uFEFF'],
    ['rules and empty headings only', '---\n\n#\n\n***\n'],
    ['an empty code block only', '```js\n\n```\n'],
    ['comments and link definitions only', '<!-- nothing -->\n\n[a]: https://example.com\n'],
  ])('%s', async (_, markdown) => {
    const failure = renderMarkdown(markdown)
    await expect(failure).rejects.toBeInstanceOf(RenderError)
    await expect(failure).rejects.toThrow('the document has no text to export')
  })

  it('quotes nested past what the parser can follow name what to reduce', async () => {
    const failure = renderMarkdown(`${'>'.repeat(20_000)} x`)
    await expect(failure).rejects.toBeInstanceOf(RenderError)
    await expect(failure).rejects.toThrow('nested too deeply')
  })
})

describe('navigation', () => {
  it('web links, reference links and links to headings can be clicked; unsafe addresses cannot', async () => {
    const pdf = await exported(await fixture('report'))
    expect(pdf.links).toContain('https://example.com/roadmap')
    expect(pdf.links).toContain('https://example.com/guide')
    expect(pdf.jumps).toBeGreaterThanOrEqual(2)
    const unsafe = await exported(
      '[one](javascript:alert(1)) [two](#nowhere) [three](../file.md) <a href="data:text/html,x">four</a>',
    )
    expect([unsafe.links, unsafe.jumps]).toEqual([[], 0])
  })

  it('bookmarks follow the headings, and the first heading names the document', async () => {
    const pdf = await exported('# Main & title\n\n## One\n\n### Deeper\n\ntext\n\n## 二\n\ntext')
    expect(pdf.bookmarks).toEqual(['Main & title', 'One', 'Deeper', '二'])
    expect(pdf.title).toBe('Main & title')
  })

  it('a given title is printed, named in the properties and in the footer of every page', async () => {
    const pdf = await exported(`text\n\n${'paragraph\n\n'.repeat(60)}`, { title: '年度报告 2024' })
    expect(pdf.title).toBe('年度报告 2024')
    expect(pdf.pages).toBeGreaterThan(1)
    for (const [index, page] of pdf.text.entries()) expect(squash(page)).toMatch(new RegExp(`年度报告2024.*${index + 1}`))
  })

  it('a table repeats its header row on every page it reaches', async () => {
    const pdf = await exported(longTable(120))
    expect(pdf.pages).toBeGreaterThan(2)
    for (const page of pdf.text) expect(squash(page)).toContain('ItemAmountNote')
    for (let row = 1; row <= 120; row++) expect(pdf.text.join('')).toContain(`entry ${row}`)
  })
})

describe('stopping', () => {
  it('a signal that has already fired rejects before any work', async () => {
    const reason = new Error('the job was cancelled')
    await expect(renderMarkdown('text', { signal: AbortSignal.abort(reason) })).rejects.toBe(reason)
  })

  it('a signal that fires during layout destroys the stream with its reason', async () => {
    const stop = new AbortController()
    const reason = new Error('the job was cancelled')
    const seen: number[] = []
    const onProgress = (fraction: number) => {
      seen.push(fraction)
      if (fraction > 0.3) stop.abort(reason)
    }
    const stream = await renderMarkdown(manual(2_000), { signal: stop.signal, onProgress })
    await expect(buffer(stream)).rejects.toBe(reason)
    expect(seen.at(-1)).toBeLessThan(0.8)
  })

  it('a reader that goes away stops the layout', async () => {
    const seen: number[] = []
    const stream = await renderMarkdown(manual(2_000), { onProgress: (fraction) => seen.push(fraction) })
    for await (const _ of stream) break
    expect(stream.destroyed).toBe(true)
    expect(seen.at(-1)).toBeLessThan(0.9)
  })
})
