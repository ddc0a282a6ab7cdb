import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { describe, expect, test } from 'vitest'
import { createConsumer, type Consumer, type PackageType } from './consumer.js'

const CLI = 'node_modules/jobtable/dist/cli/main.js'

const FILES: readonly { type: PackageType; fixture: string; file: string }[] = [
  { type: 'module', fixture: 'handlers.mjs', file: 'handlers.mjs' },
  { type: 'module', fixture: 'handlers.cjs', file: 'handlers.cjs' },
  { type: 'module', fixture: 'handlers.mjs', file: 'handlers.js' },
  { type: 'commonjs', fixture: 'handlers.mjs', file: 'handlers.mjs' },
  { type: 'commonjs', fixture: 'handlers.cjs', file: 'handlers.cjs' },
  { type: 'commonjs', fixture: 'handlers.cjs', file: 'handlers.js' },
]

/** Works with the command line until the first job has ended, stops it, and returns its exit code. */
async function workUntilOneJobEnded(consumer: Consumer, file: string): Promise<unknown> {
  const worker = spawn(process.execPath, [CLI, 'work', file, '--db', 'app.db', '--json'], {
    cwd: consumer.folder,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const exited = once(worker, 'exit')
  for await (const line of createInterface(worker.stdout)) {
    if ((JSON.parse(line) as { event: string }).event === 'succeeded') worker.kill('SIGTERM')
  }
  const [code] = await exited
  return code
}

describe.each(FILES)('in a package of type $type, $file', ({ type, fixture, file }) => {
  test('is loaded by the command line, and its handler runs a job', async () => {
    const consumer = createConsumer({ type, files: { [fixture]: file } })
    const { id } = JSON.parse(consumer.node(CLI, 'enqueue', 'hello', '{"name":"Ada"}', '--db', 'app.db', '--json')) as {
      id: string
    }
    expect(await workUntilOneJobEnded(consumer, file)).toBe(0)
    expect(JSON.parse(consumer.node(CLI, 'show', id, '--db', 'app.db', '--json'))).toMatchObject({
      status: 'succeeded',
      result: 'hi Ada',
    })
  })
})
