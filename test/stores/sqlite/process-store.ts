/** The store of a child process, for the conformance suite. */
import type { DriverName } from '../../../src/stores/sqlite/driver.js'
import { sqliteStore } from '../../../src/stores/sqlite/index.js'
import type { Store } from '../../../src/store.js'

export function open(path: string, driver: DriverName): Store {
  return sqliteStore({ path, driver })
}
