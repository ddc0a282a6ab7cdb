import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    root: fileURLToPath(new URL('../..', import.meta.url)),
    include: ['test/e2e/*.test.ts'],
    globalSetup: 'test/global-setup.ts',
    pool: 'forks',
    // Each file has a product and a browser of its own, which take several processes.
    maxWorkers: 1,
    testTimeout: 90_000,
    hookTimeout: 120_000,
  },
})
