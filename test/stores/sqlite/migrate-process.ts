/** Migrates when told to, and says what came of it. */
import type { DriverName } from '../../../src/stores/sqlite/driver.js'
import { sqliteStore } from '../../../src/stores/sqlite/index.js'

const [path, driver] = process.argv.slice(2) as [string, DriverName]
const store = sqliteStore({ path, driver })

process.once('message', () => {
  void store.migrate().then(async (answer) => {
    await store.close()
    process.send?.(answer)
    process.disconnect()
  })
})
process.send?.('ready')
