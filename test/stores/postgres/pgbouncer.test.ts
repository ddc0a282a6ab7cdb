import { describe, it } from 'vitest'
import { describeStore } from '../../../src/testing/index.js'
import { absence } from '../../support/postgres/pgbouncer.js'
import { throughPgBouncer } from './support.js'

const reason = absence()
if (reason === undefined) describeStore('PostgreSQL behind PgBouncer', { runner: { describe, it }, open: throughPgBouncer })
else it.skip(`PostgreSQL behind PgBouncer keeps the Store contract (skipped: ${reason})`)
