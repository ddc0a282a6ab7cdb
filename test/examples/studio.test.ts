import { expect, it } from 'vitest'
import { Studio } from '../support/studio.js'
import { describeStudio } from './studio-suite.js'

describeStudio(async () => undefined)

it.each(['SIGINT', 'SIGTERM', 'SIGKILL'] as const)('a studio that %s ends leaves no process behind', async (signal) => {
  const studio = await Studio.start()
  try {
    await studio.stop(signal)
    await expect(fetch(studio.url)).rejects.toThrow('fetch failed')
  } finally {
    await studio.remove()
  }
})
