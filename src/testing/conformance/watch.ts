import assert from 'node:assert/strict'
import { fence, succeeded, type Bench } from './bench.js'
import { test, type TestGroup } from './suite.js'

/** Counts the calls of a listener and waits for the next one. */
class Signal {
  calls = 0
  readonly #timeoutMs: number
  #arrived: () => void = () => {}

  constructor({ harness }: Bench) {
    this.#timeoutMs = harness.watchTimeoutMs ?? 20_000
  }

  readonly listener = (): void => {
    this.calls++
    this.#arrived()
  }

  async after(calls: number, what: string): Promise<void> {
    let timer: NodeJS.Timeout | undefined
    const timeout = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new Error(`the watcher was not called after ${what}`)), this.#timeoutMs)
    })
    try {
      while (this.calls <= calls) await Promise.race([timeout, new Promise<void>((resolve) => (this.#arrived = resolve))])
    } finally {
      clearTimeout(timer)
    }
  }
}

export const watchTests: TestGroup = {
  name: 'watch',
  tests: [
    test('a watcher is called after a write by the same handle', async (bench) => {
      const signal = new Signal(bench)
      bench.store.watch(signal.listener)
      await bench.register()
      await bench.insert({})
      await signal.after(0, 'insert')
      let seen = signal.calls
      const [row] = (await bench.claim()).jobs
      await bench.store.report([{ ...fence(row!), progress: 0.5 }])
      await signal.after(seen, 'report')
      seen = signal.calls
      await bench.settle(row!, succeeded)
      await signal.after(seen, 'settle')
      const { id } = await bench.insertOne()
      seen = signal.calls
      await bench.store.cancel([id], null)
      await signal.after(seen, 'cancel')
      seen = signal.calls
      await bench.store.repair([id], null)
      await signal.after(seen, 'repair')
    }),

    test(
      'a watcher is called after a write by another handle',
      async (bench) => {
        const other = await bench.another()
        const signal = new Signal(bench)
        bench.store.watch(signal.listener)
        await other.insert([bench.job()])
        await signal.after(0, 'an insert by another handle')
        const seen = signal.calls
        const { id } = await bench.insertOne()
        await other.cancel([id], null)
        await signal.after(seen, 'a cancel by another handle')
      },
      { needs: 'another' },
    ),

    test('every watcher is called', async (bench) => {
      const signals = [new Signal(bench), new Signal(bench), new Signal(bench)]
      for (const signal of signals) bench.store.watch(signal.listener)
      await bench.insert({})
      await Promise.all(signals.map((signal) => signal.after(0, 'insert')))
    }),

    test('a watcher that was ended is not called again, and the others are', async (bench) => {
      const ended = new Signal(bench)
      const kept = new Signal(bench)
      const end = bench.store.watch(ended.listener)
      bench.store.watch(kept.listener)
      end()
      end()
      await bench.insert({})
      await kept.after(0, 'insert')
      assert.equal(ended.calls, 0)
    }),

    test('one listener watching twice is ended once for each', async (bench) => {
      const signal = new Signal(bench)
      const end = bench.store.watch(signal.listener)
      bench.store.watch(signal.listener)
      end()
      await bench.insert({})
      await signal.after(0, 'insert')
    }),

    test(
      'closing a handle ends its watchers and no others',
      async (bench) => {
        const other = await bench.another()
        const dropped = new Signal(bench)
        const kept = new Signal(bench)
        bench.store.watch(kept.listener)
        other.watch(dropped.listener)
        await other.close()
        const seen = dropped.calls
        await bench.insert({})
        await kept.after(0, 'insert')
        assert.equal(dropped.calls, seen)
      },
      { needs: 'another' },
    ),
  ],
}
