/** What the documents say a page fetches its tokens with. */
import { transform } from 'esbuild'
import { expect, it, onTestFinished, vi } from 'vitest'
import { documents, readBlocks } from './blocks.js'

const blocks = documents().flatMap(readBlocks)

async function documented(): Promise<(ids: readonly string[]) => Promise<string | null>> {
  const block = blocks.find(({ name }) => name === 'token.ts')!
  const { code } = await transform(block.code, { loader: 'ts', format: 'esm' })
  const made = (await import(`data:text/javascript,${encodeURIComponent(code)}`)) as {
    getToken: (ids: readonly string[]) => Promise<string | null>
  }
  return made.getToken
}

function answered(status: number, text: string): void {
  onTestFinished(() => void vi.restoreAllMocks())
  vi.spyOn(globalThis, 'fetch').mockResolvedValue(new Response(text, { status }))
}

it('a short failure of the product is no token, and is waited out', async () => {
  answered(500, '<h1>Internal Server Error</h1>')
  await expect((await documented())(['job'])).rejects.toThrow('500')
})

it('who is not signed in has no token', async () => {
  answered(401, 'sign in')
  expect(await (await documented())(['job'])).toBeNull()
})

it('a token is the text that the product answers with', async () => {
  answered(200, 'a.b.c')
  expect(await (await documented())(['job'])).toBe('a.b.c')
})

it('no example takes the text of an answer for a token without asking whether it was one', () => {
  const careless = blocks.filter(({ code }) => /fetch\([^\n]*token[^\n]*\.text\(\)/.test(code))
  expect(careless.map(({ document, line }) => `${document}:${line}`)).toEqual([])
})
