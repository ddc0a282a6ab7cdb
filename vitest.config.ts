import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'

const source = (file: string) => fileURLToPath(new URL(`src/${file}`, import.meta.url))

export default defineConfig({
  resolve: {
    // Tests see the sources under the public names; the processes they start see dist/, which the global setup builds.
    alias: [
      { find: /^jobtable$/, replacement: source('index.ts') },
      { find: /^jobtable\/element$/, replacement: source('element/index.ts') },
      { find: /^jobtable\/element\/define$/, replacement: source('element/define.ts') },
      { find: /^jobtable\/http$/, replacement: source('http/index.ts') },
      { find: /^jobtable\/client$/, replacement: source('client/index.ts') },
      { find: /^jobtable\/react$/, replacement: source('react/index.ts') },
      { find: /^jobtable\/testing$/, replacement: source('testing/index.ts') },
    ],
  },
  test: {
    include: ['test/**/*.test.{ts,tsx}'],
    exclude: ['test/package/**', 'test/e2e/**'],
    globalSetup: 'test/global-setup.ts',
    environment: 'node',
    // Tests send signals, load native modules and start processes of their own: each file gets a process.
    pool: 'forks',
    // Many tests wait for processes that they have started: one file more than there are cores keeps these busy.
    maxWorkers: availableParallelism() + 1,
    testTimeout: 30_000,
    hookTimeout: 60_000,
    coverage: {
      provider: 'v8',
      include: ['src/**'],
      reporter: ['text', 'html'],
      thresholds: { 'src/transition.ts': { 100: true } },
    },
  },
})
