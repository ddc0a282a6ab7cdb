import { expect, test } from 'vitest'
import { createConsumer } from './consumer.js'

const HANDLER = 'export default (job: { payload: { text: string } }): string => job.payload.text.toUpperCase()'
const readsTypeScript = Boolean((process.features as { typescript?: unknown }).typescript)

test('an isolated handler in TypeScript runs where Node reads it, and says what to do where nothing does', () => {
  const consumer = createConsumer({ type: 'module', files: { 'isolated.mjs': 'isolated.mjs' } })
  consumer.write('shout.ts', HANDLER)
  expect(JSON.parse(consumer.node('isolated.mjs'))).toMatchObject(
    readsTypeScript
      ? { status: 'succeeded', result: 'HI' }
      : { status: 'failed', lastError: expect.stringMatching(/reads no TypeScript, so compile it, or install tsx/) as string },
  )
})
