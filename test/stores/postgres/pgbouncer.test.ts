import { describe, it } from 'vitest'
import { describeStore } from '../../../src/testing/index.js'
import { absence } from '../../support/postgres/pgbouncer.js'
import { throughPgBouncer } from './support.js'

// The random sequences are played on the server itself; a few show that nothing in them minds the pooler.
const harness = { runner: { describe, it }, open: throughPgBouncer, randomRuns: 10 }

const reason = absence()
if (reason === undefined) describeStore('PostgreSQL behind PgBouncer', harness)
else it.skip(`PostgreSQL behind PgBouncer keeps the Store contract (skipped: ${reason})`)
