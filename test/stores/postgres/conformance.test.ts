import { describe, it } from 'vitest'
import { describeStore } from '../../../src/testing/index.js'
import { onSharedServer } from './support.js'

// A sequence takes ten times as long as on SQLite.
const fewer = process.env['JOBTABLE_RANDOM_RUNS'] ? {} : { randomRuns: 25 }

describeStore('PostgreSQL', { runner: { describe, it }, open: onSharedServer, ...fewer })
