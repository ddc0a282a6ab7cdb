/** What the component of the documents shows of a job, with hooks that answer as the test says. */
import { build } from 'esbuild'
import type { ComponentType } from 'react'
import { renderToString } from 'react-dom/server'
import { expect, it } from 'vitest'
import type { PublicJob } from '../../src/client/index.js'
import { documents, readBlocks } from './blocks.js'

const HOOKS = `
  export const useJob = (id) => ({ job: JSON.parse(id), cancel() {}, fileUrl() {} })
  export const useJobStream = () => ({ text: '', done: true })
`

async function documented(): Promise<ComponentType<{ id: string }>> {
  const { code } = documents()
    .flatMap(readBlocks)
    .find(({ name }) => name === 'Progress.tsx')!
  const { outputFiles } = await build({
    stdin: { contents: code, loader: 'tsx', resolveDir: import.meta.dirname },
    bundle: true,
    write: false,
    format: 'esm',
    jsx: 'automatic',
    plugins: [
      {
        name: 'hooks of the test',
        setup(made) {
          made.onResolve({ filter: /^jobtable\/|^\.\/token/ }, ({ path }) => ({ path, namespace: 'test' }))
          made.onLoad({ filter: /token/, namespace: 'test' }, () => ({ contents: 'export const getToken = () => null' }))
          made.onLoad({ filter: /react/, namespace: 'test' }, () => ({ contents: HOOKS }))
        },
      },
    ],
  })
  const made: unknown = await import(`data:text/javascript,${encodeURIComponent(outputFiles[0]!.text)}`)
  return (made as { Progress: ComponentType<{ id: string }> }).Progress
}

const stage = { key: 'saving', label: 'Saving', index: 1, count: 2 }

it.each<[Partial<PublicJob>, string, string]>([
  [{ status: 'running', stage, progress: 0.5 }, '<p>Saving</p>', 'value="0.5"'],
  [{ status: 'succeeded', final: true, stage, progress: 1 }, '<p>succeeded</p>', 'value="1"'],
  [{ status: 'failed', final: true, stage, userMessage: 'It is full.' }, '<p>failed</p>', 'It is full.'],
])('of %j it shows %s and %s', async (job, label, more) => {
  const Progress = await documented()
  const page = renderToString(<Progress id={JSON.stringify(job)} />)
  expect(page).toContain(label)
  expect(page).toContain(more)
  expect(page.includes('<progress')).toBe(job.status !== 'failed')
})
