import { spawn } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { readPdf } from './pdf.js'

const main = join(import.meta.dirname, '../../examples/export/main.ts')
const tsx = import.meta.resolve('tsx')

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'jobtable-export-'))
})
afterEach(() => rm(folder, { recursive: true }))

async function run(...args: string[]): Promise<{ code: number | null; out: string; err: string }> {
  const env = { ...process.env }
  delete env['JOBTABLE_URL']
  const child = spawn(process.execPath, ['--import', tsx, main, ...args], { cwd: folder, env, stdio: ['ignore', 'pipe', 'pipe'] })
  let [out, err] = ['', '']
  child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()))
  child.stderr.on('data', (chunk: Buffer) => (err += chunk.toString()))
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve))
  return { code, out, err }
}

describe('the export example', { timeout: 120_000 }, () => {
  it('makes a PDF through a worker in another process, shows every stage in order, and makes it only once', async () => {
    await writeFile(join(folder, 'note.md'), '# Hello\n\nA *note* with 中文 in it.\n')
    const first = await run('note.md')
    expect(first).toMatchObject({ code: 0, err: '' })
    expect(first.out.split('\n').slice(1, 4)).toEqual(['rendering', 'saving', 'ready'])
    const pdf = await readPdf(await readFile(join(folder, 'note.pdf')))
    expect(pdf.text.join('\n')).toContain('中文')

    const second = await run('note.md')
    expect(second.code).toBe(0)
    expect(second.out).toContain('was exported before')
  })
  it('says what is wrong with a document that cannot be exported, and with a file that is not there', async () => {
    await writeFile(join(folder, 'empty.md'), '')
    const empty = await run('empty.md')
    expect(empty.code).toBe(1)
    expect(empty.err).toContain('the document has no text to export')
    const missing = await run('nowhere.md')
    expect(missing.code).toBe(1)
    expect(missing.err).toContain('cannot read nowhere.md')
    const nothing = await run()
    expect(nothing.err).toContain('give the Markdown file to export')
  })
})
