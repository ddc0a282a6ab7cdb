import { spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { readBlocks, root } from '../docs/blocks.js'
import { spawnCli, temporaryFolder, write } from './support.js'

// The page is one session: its commands run in order, in one folder.
const folder = temporaryFolder()
mkdirSync(join(folder, 'bin'))
write(folder, 'bin/jobtable', `#!/bin/sh\nexec "${process.execPath}" "${join(root, 'dist/cli/main.js')}" "$@"\n`)
chmodSync(join(folder, 'bin/jobtable'), 0o755)

const { JOBTABLE_URL: _, DEBUG: __, ...env } = process.env
const blocks = readBlocks('docs/cli.md')
const examples = blocks.flatMap((block, i) => (block.language === 'sh' ? [[block.code, blocks[i + 1]?.code ?? ''] as const] : []))

/** What differs from run to run, made the same; the padding of a table depends on it. */
function settled(text: string): string {
  return text
    .trim()
    .replaceAll(/\b[\da-f]{8}-[\da-f]{4}-7[\da-f]{3}-[\da-f]{4}-[\da-f]{12}\b/g, 'ID')
    .replaceAll(/\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d{3})?Z/g, 'TIME')
    .replaceAll(/\b(?:in )?\d+(?:ms|s|m|h|y)(?: ago)?\b|\bin \d+ s\b|\bnow\b/g, 'SPAN')
    .replaceAll(/\b[\d.]+ MiB\b/g, 'SIZE')
    .replaceAll(/ \w+ \(cli\)/g, ' WHO (cli)')
    .replaceAll(/ {2,}/g, '  ')
}

async function outputOf(script: string): Promise<string> {
  if (script.startsWith('jobtable work ')) {
    const { child, lines, line, ended } = spawnCli(folder, script.split(' ').slice(1))
    afterAll(() => void child.kill('SIGKILL'))
    await line(/^failed/)
    await line(/^succeeded/)
    child.kill('SIGINT')
    await ended
    return lines.join('\n')
  }
  const PATH = `${join(folder, 'bin')}${delimiter}${env['PATH'] ?? ''}`
  return spawnSync('sh', ['-c', `exec 2>&1\n${script}`], { cwd: folder, env: { ...env, PATH }, encoding: 'utf8' }).stdout
}

test.each(examples)('the page about the command line shows what is printed by: %s', async (script, expected) => {
  const [printed, shown] = [settled(await outputOf(script)), settled(expected)]
  // Of a running program, lines of stdout and stderr may overtake each other.
  if (script.startsWith('jobtable work ')) expect(printed.split('\n').toSorted()).toEqual(shown.split('\n').toSorted())
  else expect(printed).toBe(shown)
})
