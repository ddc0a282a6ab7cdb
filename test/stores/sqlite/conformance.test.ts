import { describe, it } from 'vitest'
import { describeStore } from '../../../src/testing/index.js'
import { DRIVERS, absence, inMemory, onFile } from './support.js'

const runner = { describe, it }
const ALONE = 'a database in memory belongs to one connection'

for (const driver of DRIVERS) {
  const reason = absence(driver)
  if (reason !== undefined) {
    it.skip(`${driver} keeps the Store contract (skipped: ${reason})`)
    continue
  }
  describeStore(`SQLite in memory by ${driver}`, {
    runner,
    open: () => inMemory(driver),
    without: { another: ALONE, processes: ALONE },
  })
  describeStore(`SQLite on file by ${driver}`, { runner, open: () => onFile(driver) })
}
