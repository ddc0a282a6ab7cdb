import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { monotonicMs } from '../../src/worker/heart-marks.js'
import { Heart } from '../../src/worker/heart.js'
import { signal } from '../../src/timers.js'

const folder = mkdtempSync(join(tmpdir(), 'jobtable-heart-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

interface Watched {
  heart: Heart
  /** The ids that its threads were given. */
  births: string[]
  deaths: Error[]
  born(): Promise<void>
  died(): Promise<void>
}

/** A heart whose thread runs this text. `born()` resolves with the next id that a thread was given, `died()` with the next death. */
function heartOf(text: string, leaseMs: number): Watched {
  const file = join(folder, `${crypto.randomUUID()}.mjs`)
  writeFileSync(file, `import { parentPort } from 'node:worker_threads'\n${text}`)
  const births: string[] = []
  const deaths: Error[] = []
  let birth = signal()
  let death = signal()
  const heart = new Heart(
    {
      address: { database: 'sqlite:none.db', options: {} },
      leaseMs,
      failed: ({ message }) => {
        births.push(message)
        birth.resolve()
        birth = signal()
      },
      died: (error) => {
        deaths.push(error)
        death.resolve()
        death = signal()
      },
    },
    file,
  )
  return { heart, births, deaths, born: () => birth.promise, died: () => death.promise }
}

it.each([
  ['throws', `parentPort.once('message', () => { throw new Error('out of luck') })`, 'out of luck'],
  ['exits', `parentPort.once('message', () => process.exit(3))`, 'it ended with code 3'],
])('a thread that %s is told of once, and the heart closes at once', async (_, text, words) => {
  const { heart, deaths, died } = heartOf(text, 60_000)
  const dead = died()
  heart.registered('w1', monotonicMs())
  await dead
  await heart.close()
  expect(deaths.map(({ message }) => message)).toEqual([words])
})

it('a thread that died is started again with a lease that is extended, under the id of the worker, and not before its rest is over', async () => {
  const text = `parentPort.on('message', ({ workerId }) => { parentPort.postMessage({ message: workerId }); setTimeout(() => process.exit(), 1) })`
  const rested = heartOf(text, 0)
  const first = Promise.all([rested.born(), rested.died()])
  rested.heart.registered('w1', monotonicMs())
  await first
  const second = Promise.all([rested.born(), rested.died()])
  rested.heart.extended(monotonicMs())
  await second
  expect(rested).toMatchObject({ births: ['w1', 'w1'], deaths: [Error('it ended with code 0'), Error('it ended with code 0')] })
  await rested.heart.close()

  const tired = heartOf(text, 3_600_000)
  const dead = tired.died()
  tired.heart.registered('w1', monotonicMs())
  await dead
  tired.heart.extended(monotonicMs())
  tired.heart.registered('w2', monotonicMs())
  await tired.heart.close()
  expect(tired.births).toEqual(['w1'])
})

it('a heart that is closed says nothing of the end of its thread', async () => {
  const { heart, deaths } = heartOf(`parentPort.on('message', ({ workerId }) => workerId ?? process.exit())`, 60_000)
  heart.registered('w1', monotonicMs())
  await heart.close()
  expect(deaths).toEqual([])
})
