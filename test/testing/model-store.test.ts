import { describe, it } from 'vitest'
import { describeStore, modelStore } from '../../src/testing/index.js'

describeStore('the model store', {
  runner: { describe, it },
  async open() {
    let now = 1_700_000_000_000
    const clock = { now: () => now, advance: (ms: number) => void (now += ms) }
    const store = modelStore({ clock })
    return {
      store,
      clock,
      another: async () => store.another(),
      rawInsert: async (columns) => store.rawInsert(columns),
      close: async () => {},
    }
  },
  without: { processes: 'the model lives in one process' },
})
