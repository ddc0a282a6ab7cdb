/** The store of a child process, for the conformance suite. */
import { postgresStore } from '../../../src/stores/postgres/index.js'
import type { Store } from '../../../src/store.js'

export function open(connection: string, schema: string): Store {
  return postgresStore({ connection, schema })
}
